package tailrace.spark

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/**
 * What `spark.sql.streaming.checkpointFileManagerClass` names: every file of a checkpoint, Spark's
 * `offsets/` and `commits/` as well as ours, goes through it. On a local disk the work is done by
 * [[LocalFileManager]]; elsewhere by the manager that Spark would have chosen.
 */
final class TailraceFileManager(path: Path, conf: Configuration) extends CheckpointFileManager {
  private val below = TailraceFileManager.below(path, conf)

  override def createAtomic(path: Path, overwrite: Boolean): CancellableFSDataOutputStream =
    below.createAtomic(path, overwrite)

  override def open(path: Path): FSDataInputStream = below.open(path)

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = below.list(path, filter)

  override def mkdirs(path: Path): Unit = below.mkdirs(path)

  override def exists(path: Path): Boolean = below.exists(path)

  override def delete(path: Path): Unit = below.delete(path)

  override def isLocal: Boolean = below.isLocal

  override def createCheckpointDirectory(): Path = below.createCheckpointDirectory()

  override def close(): Unit = below.close()
}

object TailraceFileManager {
  private val ClassKey = "spark.sql.streaming.checkpointFileManagerClass"

  /** The manager for a store's folder. A manager of the user's own choice is left in place. */
  def forState(path: Path, conf: Configuration): CheckpointFileManager = {
    val chosen = conf.get(ClassKey)
    if (chosen == null || chosen == classOf[TailraceFileManager].getName) below(path, conf)
    else CheckpointFileManager.create(path, conf)
  }

  private def below(path: Path, conf: Configuration): CheckpointFileManager =
    LocalFileManager.rawBelow(path, conf) match {
      case Some(raw) => new LocalFileManager(raw, path)
      case None =>
        val sparksOwn = new Configuration(conf)
        sparksOwn.unset(ClassKey)
        CheckpointFileManager.create(path, sparksOwn)
    }
}
