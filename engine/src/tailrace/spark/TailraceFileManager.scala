package tailrace.spark

import java.io.OutputStream
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.{CancellableFSDataOutputStream, RenameHelperMethods}

import tailrace.faults.Failpoint

/**
 * What `spark.sql.streaming.checkpointFileManagerClass` names: every file of a checkpoint, Spark's
 * `offsets/` and `commits/` as well as ours, goes through it. On a local disk the work is done by
 * [[LocalFileManager]]; elsewhere by the manager that Spark would have chosen. The entries of
 * Spark's two logs go to [[QueryLogs]], which decides when they become visible.
 */
final class TailraceFileManager(path: Path, conf: Configuration) extends CheckpointFileManager {
  private val below = TailraceFileManager.below(path, conf)
  private val logs = new QueryLogs(below, conf)

  override def createAtomic(path: Path, overwrite: Boolean): CancellableFSDataOutputStream =
    path.getParent.getName match {
      case QueryLogs.Offsets => logs.writeOffsets(path, overwrite)
      case QueryLogs.Commits => logs.writeCommit(path, overwrite)
      case TailraceFileManager.SinkLog => TailraceFileManager.atSink(below.createAtomic(path, overwrite))
      case _ => below.createAtomic(path, overwrite)
    }

  override def open(path: Path): FSDataInputStream = {
    logs.awaitEntry(path)
    below.open(path)
  }

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = path.getName match {
    case QueryLogs.Offsets => logs.listOffsets(path, filter)
    case QueryLogs.Commits => logs.listCommits(path, filter)
    case _ => below.list(path, filter)
  }

  override def mkdirs(path: Path): Unit = below.mkdirs(path)

  override def exists(path: Path): Boolean = logs.knownToBeNew(path) match {
    case true => false
    case false =>
      logs.awaitEntry(path)
      below.exists(path)
  }

  override def delete(path: Path): Unit = {
    logs.awaitBelow(path)
    below.delete(path)
  }

  override def isLocal: Boolean = below.isLocal

  override def createCheckpointDirectory(): Path = below.createCheckpointDirectory()

  override def close(): Unit = below.close()
}

object TailraceFileManager {
  private val ClassKey = "spark.sql.streaming.checkpointFileManagerClass"
  private val SinkLog = "_spark_metadata"

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

  /** A file under its final name from the first byte on, replacing one that is there. */
  private[spark] def createDirectly(manager: CheckpointFileManager, path: Path): OutputStream =
    manager match {
      case local: LocalFileManager => local.createDirectly(path)
      case renaming: RenameHelperMethods => renaming.createTempFile(path)
      case other => other.createAtomic(path, overwriteIfPossible = true)
    }

  /** A complete file that nobody sees yet. */
  private[spark] trait Temporary {
    /** Throws a FileAlreadyExistsException if another file has the name. */
    def becomeVisible(): Unit
  }

  private[spark] def writeTemporary(
      manager: CheckpointFileManager, path: Path, bytes: Array[Byte]): Temporary = {
    val hidden = new Path(path.getParent, s".${path.getName}.${UUID.randomUUID}.tmp")
    manager match {
      case local: LocalFileManager =>
        write(local.createDirectly(hidden), bytes)
        () => local.publish(hidden, path, overwrite = false)
      case renaming: RenameHelperMethods =>
        write(renaming.createTempFile(hidden), bytes)
        () => renaming.renameTempFile(hidden, path, overwriteIfPossible = false)
      case other => () => write(other.createAtomic(path, overwriteIfPossible = false), bytes)
    }
  }

  private def write(stream: OutputStream, bytes: Array[Byte]): Unit =
    try stream.write(bytes) finally stream.close()

  private def atSink(stream: CancellableFSDataOutputStream): CancellableFSDataOutputStream =
    new CancellableFSDataOutputStream(stream) {
      override def close(): Unit = {
        Failpoint.pass("sink.before")
        stream.close()
        Failpoint.pass("sink.after")
      }

      override def cancel(): Unit = stream.cancel()
    }
}
