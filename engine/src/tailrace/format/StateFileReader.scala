package tailrace.format

import java.io.{DataInputStream, EOFException, InputStream}
import java.nio.ByteBuffer
import java.util.zip.CRC32C

import org.apache.spark.unsafe.Platform

import tailrace.errors.{CorruptFile, NewerFormat}

/**
 * Reads the files of [[StateFileWriter]]. No byte is used before its checksum was verified: a
 * truncated, changed or foreign file gives an error that names it, never a wrong entry.
 *
 * @param file the file's name, for errors
 */
final class StateFileReader(stream: InputStream, file: String) {
  import StateFileReader.verifyMagic
  import StateFileWriter._

  private val in = new DataInputStream(stream)
  private val check = new CRC32C
  private var codec: Codec = _
  private var raw = Array.emptyByteArray
  private var stored = Array.emptyByteArray

  val header: FileHeader = guarded(readHeader())

  /** Calls `visit` for every entry; returns their number after the file's end was verified. */
  def foreachEntry(visit: StateFileReader.Visitor): Long = guarded {
    var blocks = 0
    var entries = 0L
    var rawLength = in.readInt()
    while (rawLength != 0) {
      readBlock(rawLength)
      entries += visitBlock(rawLength, visit)
      blocks += 1
      rawLength = in.readInt()
    }
    verifyEnd(blocks, entries)
    entries
  }

  /** Reads to the end and verifies every checksum, without looking into the entries. */
  def verify(): Unit = guarded {
    var blocks = 0
    var rawLength = in.readInt()
    while (rawLength != 0) {
      readStored(rawLength)
      blocks += 1
      rawLength = in.readInt()
    }
    val said = in.readInt()
    val entries = in.readLong()
    verifyEndCheck(said, entries)
    if (said != blocks) corrupt(s"it holds $blocks blocks, not $said")
    if (in.read() != -1) corrupt("there are bytes after its end")
  }

  private def readHeader(): FileHeader = {
    val preamble = new Array[Byte](PreambleSize)
    val read = in.readNBytes(preamble, 0, PreambleSize)
    verifyMagic(preamble, read, file)
    if (read < PreambleSize) throw new EOFException
    val fields = ByteBuffer.wrap(preamble, Magic.length, PreambleSize - Magic.length)
    val format = fields.getShort & 0xffff
    val kindCode = fields.get()
    val codecCode = fields.get()
    val length = fields.getInt
    if (format > FormatVersion) throw new NewerFormat(file, format, FormatVersion)
    if (length < 0 || length > MaximumHeader) corrupt(s"a header of $length bytes")
    val bytes = new Array[Byte](length)
    in.readFully(bytes)
    check.reset()
    check.update(preamble, 0, preamble.length)
    check.update(bytes, 0, length)
    if (check.getValue.toInt != in.readInt()) corrupt("the header's checksum is wrong")
    codec = Codec.byCode(codecCode).getOrElse(corrupt(s"unknown compression $codecCode"))
    val kind = FileKind.all.find(_.code == kindCode).getOrElse(corrupt(s"unknown kind $kindCode"))
    FileHeader.decode(kind, bytes)
  }

  private def readBlock(rawLength: Int): Unit = {
    val storedLength = readStored(rawLength)
    if (raw.length < rawLength) raw = new Array[Byte](rawLength)
    codec.decompress(stored, storedLength, raw, rawLength)
  }

  /** Reads a block as it is stored; returns its length. */
  private def readStored(rawLength: Int): Int = {
    val storedLength = in.readInt()
    val payloadCheck = in.readInt()
    val lengths = ByteBuffer.allocate(12).putInt(rawLength).putInt(storedLength).putInt(payloadCheck)
    if (checkOf(lengths.array(), 12) != in.readInt()) corrupt("a block's lengths are wrong")
    if (stored.length < storedLength) stored = new Array[Byte](storedLength)
    in.readFully(stored, 0, storedLength)
    if (checkOf(stored, storedLength) != payloadCheck) corrupt("a block's checksum is wrong")
    storedLength
  }

  private def visitBlock(rawLength: Int, visit: StateFileReader.Visitor): Long = {
    var entries = 0L
    var at = Platform.BYTE_ARRAY_OFFSET.toLong
    val end = at + rawLength
    while (at < end) {
      val kind = Platform.getByte(raw, at)
      val family = Platform.getShort(raw, at + 1) & 0xffff
      val keyLength = Platform.getInt(raw, at + 3)
      val valueLength = Platform.getInt(raw, at + 7)
      val key = at + EntryHeaderSize
      visit(kind, family, raw, key, keyLength, key + keyLength, valueLength)
      at = key + keyLength + valueLength
      entries += 1
    }
    entries
  }

  private def verifyEnd(blocks: Int, entries: Long): Unit = {
    val saidBlocks = in.readInt()
    val saidEntries = in.readLong()
    verifyEndCheck(saidBlocks, saidEntries)
    if (saidBlocks != blocks || saidEntries != entries) {
      corrupt(s"it holds $entries entries in $blocks blocks, not $saidEntries in $saidBlocks")
    }
    if (in.read() != -1) corrupt("there are bytes after its end")
  }

  private def verifyEndCheck(blocks: Int, entries: Long): Unit = {
    val end = ByteBuffer.allocate(16).putInt(0).putInt(blocks).putLong(entries).array()
    if (checkOf(end, 16) != in.readInt()) corrupt("the checksum of the file's end is wrong")
  }

  private def checkOf(bytes: Array[Byte], length: Int): Int = {
    check.reset()
    check.update(bytes, 0, length)
    check.getValue.toInt
  }

  private def corrupt(detail: String): Nothing = throw new CorruptFile(file, detail)

  private def guarded[T](body: => T): T = try body catch {
    case e: EOFException => throw new CorruptFile(file, "It ends too early: it was cut short.", e)
  }

  private def MaximumHeader = 64 << 20
}

object StateFileReader {
  /** A file of our name that does not begin as ours do was damaged: no other store uses the names. */
  private[format] def verifyMagic(preamble: Array[Byte], read: Int, file: String): Unit = {
    if (read == 0) throw new CorruptFile(file, "It is empty.", beginsWrong = true)
    if (read < StateFileWriter.Magic.length || !preamble.startsWith(StateFileWriter.Magic)) {
      throw new CorruptFile(file, "It does not begin as a state file does, with the eight letters " +
        "TAILRACE.", beginsWrong = true)
    }
  }

  trait Visitor {
    def apply(
        kind: Int, family: Int, base: Array[Byte],
        keyOffset: Long, keyLength: Int, valueOffset: Long, valueLength: Int): Unit
  }
}
