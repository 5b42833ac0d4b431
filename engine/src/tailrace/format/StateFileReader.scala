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
  import StateFileReader.{verifyMagic, visitEntries}
  import StateFileWriter._

  private val in = new DataInputStream(stream)
  private val check = new CRC32C
  private var raw = Array.emptyByteArray
  private var stored = Array.emptyByteArray
  private var format = 0
  private var headerCheck = 0
  private var position = 0L
  private var codecFound: Codec = _

  val header: FileHeader = guarded(readHeader())

  /** Of the blocks. */
  def codec: Codec = codecFound

  /** Whether the file has an index at its end, which a reader can begin with. */
  def isIndexed: Boolean =
    format >= StateFileWriter.SnapshotFormat && header.kind == FileKind.Snapshot

  /** What the file's last bytes have to say of its first. */
  private[format] def checkOfHeader: Int = headerCheck

  /** The blocks as they come, which an index has to agree with. */
  private val seen = new SnapshotIndex.Builder
  seen.section(0, byHash = false)

  /** Calls `visit` for every entry; returns their number after the file's end was verified. */
  def foreachEntry(visit: StateFileReader.Visitor): Long = guarded {
    var blocks = 0
    var entries = 0L
    var rawLength = in.readInt()
    while (rawLength != 0) {
      val storedLength = readBlock(rawLength)
      val count = visitEntries(raw, rawLength, visit)
      sawBlock(storedLength, count.toInt)
      entries += count
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
      sawBlock(readStored(rawLength), entries = -1)
      blocks += 1
      rawLength = in.readInt()
    }
    val said = in.readInt()
    val entries = in.readLong()
    verifyEndCheck(said, entries)
    if (said != blocks) corrupt(s"it holds $blocks blocks, not $said")
    verifyTail()
  }

  private def readHeader(): FileHeader = {
    val preamble = new Array[Byte](PreambleSize)
    val read = in.readNBytes(preamble, 0, PreambleSize)
    verifyMagic(preamble, read, file)
    if (read < PreambleSize) throw new EOFException
    val fields = ByteBuffer.wrap(preamble, Magic.length, PreambleSize - Magic.length)
    format = fields.getShort & 0xffff
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
    headerCheck = in.readInt()
    if (check.getValue.toInt != headerCheck) corrupt("the header's checksum is wrong")
    position = PreambleSize + length + 4L
    codecFound = Codec.byCode(codecCode).getOrElse(corrupt(s"unknown compression $codecCode"))
    val kind = FileKind.all.find(_.code == kindCode).getOrElse(corrupt(s"unknown kind $kindCode"))
    FileHeader.decode(kind, bytes)
  }

  private def readBlock(rawLength: Int): Int = {
    val storedLength = readStored(rawLength)
    if (raw.length < rawLength) raw = new Array[Byte](rawLength)
    codec.decompress(stored, storedLength, raw, rawLength)
    storedLength
  }

  private var payloadCheck = 0 // of the last block

  private def sawBlock(storedLength: Int, entries: Int): Unit = {
    val length = BlockHeaderSize + storedLength
    if (isIndexed) seen.add(position, length, payloadCheck, entries, firstHash = 0)
    position += length
  }

  /** Reads a block as it is stored; returns its length. */
  private def readStored(rawLength: Int): Int = {
    val storedLength = in.readInt()
    payloadCheck = in.readInt()
    val lengths = ByteBuffer.allocate(12).putInt(rawLength).putInt(storedLength).putInt(payloadCheck)
    if (checkOf(lengths.array(), 12) != in.readInt()) corrupt("a block's lengths are wrong")
    if (stored.length < storedLength) stored = new Array[Byte](storedLength)
    in.readFully(stored, 0, storedLength)
    if (checkOf(stored, storedLength) != payloadCheck) corrupt("a block's checksum is wrong")
    storedLength
  }

  private def verifyEnd(blocks: Int, entries: Long): Unit = {
    val saidBlocks = in.readInt()
    val saidEntries = in.readLong()
    verifyEndCheck(saidBlocks, saidEntries)
    if (saidBlocks != blocks || saidEntries != entries) {
      corrupt(s"it holds $entries entries in $blocks blocks, not $saidEntries in $saidBlocks")
    }
    verifyTail()
  }

  /** What stands behind the end: of a snapshot its index, which names the blocks that were read. */
  private def verifyTail(): Unit = {
    if (isIndexed) {
      val offset = position + EndSize
      val length = in.readInt()
      val framed = new Array[Byte](SnapshotIndex.framedLength(length, file))
      ByteBuffer.wrap(framed).putInt(length)
      in.readFully(framed, 4, framed.length - 4)
      verifyIndex(SnapshotIndex.decode(framed, file))
      val last = new Array[Byte](SnapshotIndex.TrailerSize)
      in.readFully(last)
      if (SnapshotIndex.trailer(last, file) != SnapshotIndex.Trailer(offset, headerCheck)) {
        corrupt("its last bytes belong to another file")
      }
    }
    if (in.read() != -1) corrupt("there are bytes after its end")
  }

  private def verifyIndex(index: SnapshotIndex): Unit = {
    val found = seen.result().sections.head
    def agree(said: Array[Int], read: Array[Int]): Boolean = said.sameElements(read)
    val isSame = found.offsets.sameElements(index.sections.flatMap(_.offsets)) &&
      agree(index.sections.flatMap(_.lengths).toArray, found.lengths) &&
      agree(index.sections.flatMap(_.checks).toArray, found.checks) &&
      (found.entries.contains(-1) ||
        agree(index.sections.flatMap(_.entries).toArray, found.entries))
    if (!isSame) corrupt("its index names other blocks than it has")
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

  /** Shows every entry of a block; returns their number. */
  private[format] def visitEntries(raw: Array[Byte], rawLength: Int, visit: Visitor): Long = {
    var entries = 0L
    var at = Platform.BYTE_ARRAY_OFFSET.toLong
    val end = at + rawLength
    while (at < end) {
      val kind = Platform.getByte(raw, at)
      val family = Platform.getShort(raw, at + 1) & 0xffff
      val keyLength = Platform.getInt(raw, at + 3)
      val valueLength = Platform.getInt(raw, at + 7)
      val key = at + StateFileWriter.EntryHeaderSize
      visit(kind, family, raw, key, keyLength, key + keyLength, valueLength)
      at = key + keyLength + valueLength
      entries += 1
    }
    entries
  }

  trait Visitor {
    def apply(
        kind: Int, family: Int, base: Array[Byte],
        keyOffset: Long, keyLength: Int, valueOffset: Long, valueLength: Int): Unit
  }
}
