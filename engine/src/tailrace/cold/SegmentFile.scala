package tailrace.cold

import java.io.{File, RandomAccessFile}
import java.nio.file.Files

/**
 * A file of the log: written from its beginning to its end, once, by one thread; flushed bytes are
 * read by any thread that its [[ColdTier]] allows.
 */
private[cold] trait SegmentFile {
  /** For messages. */
  def name: String

  def write(bytes: Array[Byte], start: Int, size: Int): Unit

  def flush(): Unit

  /** Whether it should be finished soon, because it takes too much memory while it is written. */
  def isTooLarge: Boolean = false

  /** Flushes, and ends writing. */
  def finish(): Unit

  /** Fills the array with the bytes at this place. */
  def read(offset: Long, bytes: Array[Byte]): Unit

  /** The same for a caller who cannot do without it: if trying again may help, it is tried again. */
  def readPatiently(offset: Long, bytes: Array[Byte]): Unit = read(offset, bytes)

  /** A second time does nothing. */
  def delete(): Unit
}

/**
 * Through the page cache. Not a channel: those close themselves when a task's thread is interrupted,
 * and the next task needs the file.
 */
private[cold] final class BufferedFile(file: File, counts: ColdFiles) extends SegmentFile {
  private var out = new RandomAccessFile(file, "rw")
  private val in = new RandomAccessFile(file, "r")
  private var buffer = new Array[Byte](64 << 10)
  private var buffered = 0
  private var isDeleted = false // guarded by `in`

  override def name: String = file.toString

  override def write(bytes: Array[Byte], start: Int, size: Int): Unit = {
    if (buffered + size > buffer.length) flush()
    if (size > buffer.length) {
      store(bytes, start, size)
    } else {
      System.arraycopy(bytes, start, buffer, buffered, size)
      buffered += size
    }
  }

  override def flush(): Unit = if (buffered > 0) {
    store(buffer, 0, buffered)
    buffered = 0
  }

  override def finish(): Unit = {
    flush()
    buffer = null
    out.close()
    out = null
  }

  private def store(bytes: Array[Byte], start: Int, size: Int): Unit = {
    counts.count("write")
    out.write(bytes, start, size)
  }

  override def read(offset: Long, bytes: Array[Byte]): Unit = in.synchronized {
    in.seek(offset)
    in.readFully(bytes)
  }

  override def delete(): Unit = in.synchronized {
    if (!isDeleted) {
      isDeleted = true
      counts.count("delete")
      if (out != null) out.close()
      in.close()
      Files.deleteIfExists(file.toPath)
    }
  }
}
