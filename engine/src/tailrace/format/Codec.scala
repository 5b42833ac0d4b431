package tailrace.format

import com.github.luben.zstd.Zstd
import net.jpountz.lz4.LZ4Factory

/** How the blocks of a file are compressed. Spark ships both libraries. */
sealed abstract class Codec(val code: Byte, val name: String) {
  def maximumLength(rawLength: Int): Int

  /** Returns the number of bytes written to `target`. */
  def compress(raw: Array[Byte], rawLength: Int, target: Array[Byte]): Int

  def decompress(stored: Array[Byte], storedLength: Int, target: Array[Byte], rawLength: Int): Unit
}

object Codec {

  case object None extends Codec(0, "none") {
    override def maximumLength(rawLength: Int): Int = rawLength
    override def compress(raw: Array[Byte], rawLength: Int, target: Array[Byte]): Int = {
      System.arraycopy(raw, 0, target, 0, rawLength)
      rawLength
    }
    override def decompress(
        stored: Array[Byte], storedLength: Int, target: Array[Byte], rawLength: Int): Unit =
      System.arraycopy(stored, 0, target, 0, rawLength)
  }

  case object Lz4 extends Codec(1, "lz4") {
    private lazy val compressor = LZ4Factory.fastestInstance().fastCompressor()
    private lazy val decompressor = LZ4Factory.fastestInstance().safeDecompressor()
    override def maximumLength(rawLength: Int): Int = compressor.maxCompressedLength(rawLength)
    override def compress(raw: Array[Byte], rawLength: Int, target: Array[Byte]): Int =
      compressor.compress(raw, 0, rawLength, target, 0, target.length)
    override def decompress(
        stored: Array[Byte], storedLength: Int, target: Array[Byte], rawLength: Int): Unit = {
      val length = decompressor.decompress(stored, 0, storedLength, target, 0, rawLength)
      if (length != rawLength) throw new IllegalStateException(s"$length bytes, not $rawLength")
    }
  }

  case object Zstandard extends Codec(2, "zstd") {
    private val Level = 1
    override def maximumLength(rawLength: Int): Int = Zstd.compressBound(rawLength.toLong).toInt
    override def compress(raw: Array[Byte], rawLength: Int, target: Array[Byte]): Int =
      Zstd.compressByteArray(target, 0, target.length, raw, 0, rawLength, Level).toInt
    override def decompress(
        stored: Array[Byte], storedLength: Int, target: Array[Byte], rawLength: Int): Unit = {
      val length = Zstd.decompressByteArray(target, 0, rawLength, stored, 0, storedLength)
      if (length != rawLength) throw new IllegalStateException(s"$length bytes, not $rawLength")
    }
  }

  val all: Seq[Codec] = Seq(None, Lz4, Zstandard)

  def byName(name: String): Option[Codec] = all.find(_.name == name)

  def byCode(code: Byte): Option[Codec] = all.find(_.code == code)
}
