package tailrace.spark

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import tailrace.commit.HeldFile

/**
 * An entry of one of Spark's logs that is to appear later. The bytes go to a temporary file beside
 * it at once; publishing is a rename, which refuses to replace an entry that somebody else wrote.
 */
final class HeldLogFile(manager: CheckpointFileManager, path: Path, bytes: Array[Byte])
  extends HeldFile {
  private var temporary: TailraceFileManager.Temporary = _

  override def name: String = path.toString

  override def prepare(): Unit = synchronized {
    if (temporary == null) temporary = TailraceFileManager.writeTemporary(manager, path, bytes)
  }

  override def publish(): Unit = synchronized {
    prepare()
    temporary.becomeVisible()
  }

  override def isTaken: Boolean = manager.exists(path)

  override def isPublished: Boolean = manager.exists(path) && {
    val stream = manager.open(path)
    try java.util.Arrays.equals(stream.readAllBytes(), bytes) finally stream.close()
  }
}
