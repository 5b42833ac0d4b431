package tailrace.format

import java.io.InputStream

/** A file that is read at any place, by one thread at a time. */
trait PositionedFile {
  def length: Long

  /** Fills the array from this place on; an `EOFException` if the file ends before. */
  def read(offset: Long, bytes: Array[Byte]): Unit

  def close(): Unit

  /** Its bytes from the beginning. */
  final def stream: InputStream = new InputStream {
    private var at = 0L

    override def read(): Int = {
      val one = new Array[Byte](1)
      if (read(one, 0, 1) < 0) -1 else one(0) & 0xff
    }

    override def read(bytes: Array[Byte], start: Int, count: Int): Int = {
      val size = math.min(count.toLong, PositionedFile.this.length - at).toInt
      if (size <= 0) {
        -1
      } else {
        val piece = new Array[Byte](size)
        PositionedFile.this.read(at, piece)
        System.arraycopy(piece, 0, bytes, start, size)
        at += size
        size
      }
    }
  }
}
