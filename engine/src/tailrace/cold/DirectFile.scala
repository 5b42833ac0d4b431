package tailrace.cold

import java.io.{EOFException, File, IOException}
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{Files, StandardOpenOption}

import com.sun.nio.file.ExtendedOpenOption

import tailrace.errors.DirectIoUnsupported

/**
 * Past the page cache. The system wants whole blocks, at multiples of a block, in memory and in the
 * file: a read takes the blocks around the bytes asked for; a flush writes the last block padded with
 * zeros, keeps its bytes, and writes it again when there are more.
 *
 * A channel closes itself when a thread that uses it is interrupted, as tasks are: only I/O threads
 * use this.
 */
private[cold] final class DirectFile(file: File, counts: ColdFiles) extends SegmentFile {
  import DirectFile._

  private val channel = opened()
  private val block = Files.getFileStore(file.toPath).getBlockSize.toInt
  private var buffer = aligned((WriteSize + block - 1) / block * block, block)
  private var before = 0L // bytes of the file in front of the buffer; a multiple of a block
  private var flushed = 0 // of the buffer
  @volatile private var isDeleted = false

  override def name: String = file.toString

  private def opened(): FileChannel = try FileChannel.open(file.toPath, StandardOpenOption.CREATE,
    StandardOpenOption.READ, StandardOpenOption.WRITE, ExtendedOpenOption.DIRECT) catch {
    case error @ (_: IOException | _: UnsupportedOperationException) =>
      throw new DirectIoUnsupported(file.getParent, error)
  }

  override def write(bytes: Array[Byte], start: Int, size: Int): Unit = {
    var at = start
    while (at < start + size) {
      val piece = math.min(start + size - at, buffer.remaining)
      buffer.put(bytes, at, piece)
      at += piece
      if (!buffer.hasRemaining) flush()
    }
  }

  override def flush(): Unit = if (buffer.position() > flushed) {
    val filled = buffer.position()
    val padded = (filled + block - 1) / block * block
    while (buffer.position() < padded) buffer.put(0.toByte)
    buffer.flip()
    counts.count("write")
    while (buffer.hasRemaining) channel.write(buffer, before + buffer.position())
    // Bytes that fill no block yet stay at the beginning of the buffer.
    val whole = filled / block * block
    buffer.limit(filled).position(whole)
    buffer.compact()
    before += whole
    flushed = buffer.position()
  }

  override def finish(): Unit = {
    flush()
    buffer = null
  }

  override def read(offset: Long, bytes: Array[Byte]): Unit = {
    var at = 0
    while (at < bytes.length) {
      val piece = math.min(bytes.length - at, ReadSize)
      readPiece(offset + at, bytes, at, piece)
      at += piece
    }
  }

  private def readPiece(offset: Long, bytes: Array[Byte], start: Int, size: Int): Unit = {
    val from = offset / block * block
    val until = (offset + size + block - 1) / block * block
    val into = readBuffer((until - from).toInt, block)
    while (into.hasRemaining) {
      if (channel.read(into, from + into.position()) < 0) throw new EOFException(file.toString)
    }
    into.position((offset - from).toInt)
    into.get(bytes, start, size)
  }

  override def delete(): Unit = synchronized {
    if (!isDeleted) {
      isDeleted = true
      counts.count("delete")
      channel.close()
      Files.deleteIfExists(file.toPath)
    }
  }
}

private object DirectFile {
  val WriteSize: Int = 64 << 10
  /** Of one request. Memory off the heap is freed late: each thread uses its buffer again. */
  val ReadSize: Int = 1 << 20

  private val kept = new ThreadLocal[ByteBuffer]

  def aligned(size: Int, block: Int): ByteBuffer =
    ByteBuffer.allocateDirect(size + block).alignedSlice(block).limit(size).slice()

  /** For one read of this thread. */
  def readBuffer(size: Int, block: Int): ByteBuffer = {
    val present = kept.get()
    if (present != null && present.capacity() >= size) {
      present.clear().limit(size)
    } else {
      val made = aligned(size, block)
      kept.set(made)
      made
    }
  }
}
