package tailrace.commit

import java.io.OutputStream

import scala.collection.mutable.ArrayBuffer

/** Bytes of a length that is not known beforehand, kept in pieces so that none is ever copied. */
final class Chunks extends OutputStream {
  private val pieces = new ArrayBuffer[Array[Byte]]
  private var last = Array.emptyByteArray
  private var filled = 0
  private var total = 0L

  def length: Long = total

  override def write(byte: Int): Unit = {
    if (filled == last.length) grow(1)
    last(filled) = byte.toByte
    filled += 1
    total += 1
  }

  override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
    var from = offset
    val end = offset + length
    while (from < end) {
      if (filled == last.length) grow(end - from)
      val count = math.min(end - from, last.length - filled)
      System.arraycopy(bytes, from, last, filled, count)
      filled += count
      from += count
    }
    total += length
  }

  def writeTo(out: OutputStream): Unit = {
    var left = total
    pieces.foreach { piece =>
      val count = math.min(left, piece.length.toLong).toInt
      out.write(piece, 0, count)
      left -= count
    }
  }

  private def grow(wanted: Int): Unit = {
    val size = math.max(Chunks.Smallest, math.min(Chunks.Largest, math.max(wanted, last.length * 2)))
    last = new Array[Byte](size)
    pieces += last
    filled = 0
  }
}

private object Chunks {
  val Smallest: Int = 4 << 10
  val Largest: Int = 1 << 20
}
