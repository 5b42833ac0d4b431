package tailrace.spark

import java.io.IOException

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import tailrace.ledger.HeldFile

/**
 * An entry of one of Spark's logs that is to appear later. The bytes go to a temporary file beside
 * it at once; publishing is a rename, which refuses to replace an entry that another query wrote.
 */
final class HeldLogFile(manager: CheckpointFileManager, path: Path, bytes: Array[Byte])
  extends HeldFile {
  private var temporary: TailraceFileManager.Temporary = _
  private var dropped = false

  override def name: String = path.toString

  override def prepare(): Unit = synchronized {
    if (temporary == null && !dropped) {
      temporary = TailraceFileManager.writeTemporary(manager, path, bytes)
    }
  }

  override def isPrepared: Boolean = synchronized(temporary != null)

  override def drop(): Unit = synchronized {
    dropped = true
    if (temporary != null) temporary.discard()
  }

  override def publish(): Unit = synchronized {
    if (dropped) throw new IOException(s"$path was given up")
    prepare()
    temporary.becomeVisible()
  }

  override def isTaken: Boolean = manager.exists(path)

  override def isPublished: Boolean = manager.exists(path) && {
    val stream = manager.open(path)
    try java.util.Arrays.equals(stream.readAllBytes(), bytes) finally stream.close()
  }
}
