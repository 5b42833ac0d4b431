package tailrace.io

import java.io.{FilterOutputStream, OutputStream}

/**
 * Paces a job by the bytes that it writes: each piece waits for its tokens before it is written.
 * Closing the stream closes the one below; `finish` counts the bytes of the last piece.
 */
final class PacedStream(out: OutputStream, job: IoJob) extends FilterOutputStream(out) {
  private val pieces = new IoPieces(job)

  override def write(byte: Int): Unit = {
    pieces.add(1)
    out.write(byte)
  }

  override def write(bytes: Array[Byte], start: Int, length: Int): Unit = {
    val end = start + length
    var from = start
    while (from < end) {
      val count = math.min(end - from, pieces.room)
      pieces.add(count)
      out.write(bytes, from, count)
      from += count
    }
  }

  def finish(): Unit = pieces.finish()
}
