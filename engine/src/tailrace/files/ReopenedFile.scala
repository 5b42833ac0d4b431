package tailrace.files

import java.io.IOException

import tailrace.format.PositionedFile

/**
 * A file that is opened by the first read, and again after one that failed: a stream that failed, or
 * whose reader was interrupted, is not used again.
 */
final class ReopenedFile(override val length: Long, open: () => ReopenedFile.Input)
  extends PositionedFile {
  private var in: ReopenedFile.Input = null
  private var isClosed = false

  override def read(offset: Long, bytes: Array[Byte]): Unit = synchronized {
    if (isClosed) throw new IOException("it was closed")
    var isRead = false
    try DiskErrors.asIOException {
      if (in == null) in = open()
      in.read(offset, bytes)
      isRead = true
    } finally {
      if (!isRead) drop()
    }
  }

  override def close(): Unit = synchronized {
    isClosed = true
    drop()
  }

  private def drop(): Unit = {
    val opened = in
    in = null
    try if (opened != null) opened.close() catch {
      case _: IOException => // nothing was written
    }
  }
}

object ReopenedFile {
  trait Input {
    /** Fills the array from this place on; an `EOFException` if the file ends before. */
    def read(offset: Long, bytes: Array[Byte]): Unit
    def close(): Unit
  }
}
