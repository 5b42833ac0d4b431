package tailrace.format

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.io.{EOFException, InputStream}
import java.nio.ByteBuffer
import java.util.zip.CRC32C

import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.unsafe.Platform

import tailrace.errors.{CorruptFile, NewerFormat}

/**
 * Problem: a file per store and batch makes the number of files grow with partitions and operators.
 *
 * Answer: a pack: all that one executor has to write for a batch, in one file. Its index comes
 * first, so that each store's part can be found and read alone; a part is a whole changes file,
 * with its own checksums.
 *
 * {{{
 *   pack   := magic(8 bytes: "TAILRACE") format(u16) kind(u8: 3) 0(u8)
 *             indexLength(u32) index indexCheck(u32: CRC-32C of all bytes before it) part*
 *   index  := version(i64) count(u32) entry*
 *   entry  := store(text) lineage(u64) parentLineage(u64) offset(u64) length(u64)
 *   text   := length(u32) UTF-8 bytes
 * }}}
 * Numbers are big-endian; an offset counts from the first byte after the index's check.
 *
 * Invariant: the index names lineages, which are digests of the content. Its own digest, which is
 * in the file's name, therefore stands for the whole file: two packs of one name are the same.
 */
final case class PackHeader(version: Long, entries: Seq[PackHeader.Entry]) {

  lazy val encoded: Array[Byte] = PackHeader.encode(this)

  def digest: Long =
    XXH64.hashUnsafeBytes(encoded, Platform.BYTE_ARRAY_OFFSET, encoded.length, version)

  /** Where the first part begins. */
  def size: Int = encoded.length

  def fileLength: Long = size + entries.map(_.length).sum
}

object PackHeader {
  final case class Entry(
      store: String, lineage: Long, parentLineage: Long, offset: Long, length: Long)

  private val Kind: Byte = 3
  private val MaximumIndex = 256 << 20

  private def encode(header: PackHeader): Array[Byte] = {
    val index = new ByteArrayOutputStream
    val out = new DataOutputStream(index)
    out.writeLong(header.version)
    out.writeInt(header.entries.size)
    header.entries.foreach { entry =>
      val name = entry.store.getBytes("UTF-8")
      out.writeInt(name.length)
      out.write(name)
      out.writeLong(entry.lineage)
      out.writeLong(entry.parentLineage)
      out.writeLong(entry.offset)
      out.writeLong(entry.length)
    }
    val start = ByteBuffer.allocate(StateFileWriter.PreambleSize + index.size)
      .put(StateFileWriter.Magic).putShort(StateFileWriter.ChangesFormat.toShort).put(Kind)
      .put(0.toByte).putInt(index.size).put(index.toByteArray).array()
    ByteBuffer.allocate(start.length + 4).put(start).putInt(checkOf(start)).array()
  }

  /** Reads the index at the beginning of a pack; `file` is its name, for errors. */
  def read(stream: InputStream, file: String): PackHeader = try {
    val in = new DataInputStream(stream)
    val preamble = new Array[Byte](StateFileWriter.PreambleSize)
    val read = in.readNBytes(preamble, 0, preamble.length)
    StateFileReader.verifyMagic(preamble, read, file)
    if (read < preamble.length) throw new EOFException
    val fields = ByteBuffer.wrap(preamble, StateFileWriter.Magic.length, 8)
    val format = fields.getShort & 0xffff
    val kind = fields.get()
    fields.get()
    val length = fields.getInt
    if (format > StateFileWriter.ChangesFormat) {
      throw new NewerFormat(file, format, StateFileWriter.ChangesFormat)
    }
    if (kind != Kind) throw new CorruptFile(file, s"It is not a pack but of kind $kind.")
    if (length < 0 || length > MaximumIndex) {
      throw new CorruptFile(file, s"an index of $length bytes")
    }
    val index = new Array[Byte](length)
    in.readFully(index)
    val check = new CRC32C
    check.update(preamble)
    check.update(index)
    if (check.getValue.toInt != in.readInt()) {
      throw new CorruptFile(file, "the checksum of its index is wrong")
    }
    decode(index)
  } catch {
    case error: EOFException =>
      throw new CorruptFile(file, "It ends too early: it was cut short.", error)
  }

  private def decode(index: Array[Byte]): PackHeader = {
    val in = new DataInputStream(new ByteArrayInputStream(index))
    val version = in.readLong()
    val entries = Seq.fill(in.readInt()) {
      val name = new Array[Byte](in.readInt())
      in.readFully(name)
      Entry(new String(name, "UTF-8"), in.readLong(), in.readLong(), in.readLong(), in.readLong())
    }
    PackHeader(version, entries)
  }

  private def checkOf(bytes: Array[Byte]): Int = {
    val check = new CRC32C
    check.update(bytes)
    check.getValue.toInt
  }
}
