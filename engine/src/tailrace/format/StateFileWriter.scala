package tailrace.format

import java.io.{DataOutputStream, OutputStream}
import java.util.zip.CRC32C

import org.apache.spark.unsafe.Platform

/**
 * Writes a state file. The bytes (also in FORMAT.md, which a golden-byte test holds to this code):
 *
 * {{{
 *   file    := magic(8 bytes: "TAILRACE") format(u16: 1 changes | 2 snapshot) kind(u8) codec(u8)
 *              headerLength(u32) header headerCheck(u32: CRC-32C of all bytes before it)
 *              block* end (index trailer: of a snapshot only, see SnapshotIndex)
 *   block   := rawLength(u32, not 0) storedLength(u32) payloadCheck(u32: CRC-32C of the payload)
 *              lengthCheck(u32: CRC-32C of the 12 bytes before it)
 *              payload(storedLength bytes: the entries, compressed by the codec)
 *   end     := 0(u32) blocks(u32) entries(u64) endCheck(u32: CRC-32C of the 16 bytes before it)
 *   entry   := kind(u8) family(u16 LE) keyLength(u32 LE) valueLength(u32 LE) key value
 *   value of a list entry := (length(u32 LE) bytes)*
 * }}}
 *
 * Numbers are big-endian except in entries, which are copied from memory. An entry is never cut by
 * the end of a block. In a snapshot the entries of a family are a section; in one that is ordered by
 * hash, `nextHash` is called before each entry. Closing the stream is the caller's.
 */
final class StateFileWriter(stream: OutputStream, header: FileHeader, codec: Codec) {
  import StateFileWriter._

  private val out = new DataOutputStream(stream)
  private var raw = new Array[Byte](BlockSize)
  private var filled = 0
  private var stored = Array.emptyByteArray
  private var blocks = 0
  private var entries = 0L
  private var written = 0L
  private val check = new CRC32C
  // Of a snapshot: its index, and of the section that is written whether it is ordered by hash.
  private val index = if (header.kind == FileKind.Snapshot) new SnapshotIndex.Builder else null
  private var byHash = false
  private var blockSize = BlockSize
  private var entriesBefore = 0L // of this block
  private var firstHash = 0
  private var hash = 0
  private var hashBefore = 0
  private val headerCheck = writeHeader()

  /** The entries of a family follow. A block that is ordered by hash holds `hashedSize` bytes. */
  def section(family: Int, byHash: Boolean, hashedSize: Int = BlockSize): Unit = {
    writeBlock()
    index.section(family, byHash)
    this.byHash = byHash
    blockSize = if (byHash) hashedSize else BlockSize
    hash = 0
    hashBefore = 0
  }

  /** The next entry's key has this hash, which is not smaller than that of the last one. */
  def nextHash(next: Int): Unit = {
    if (Integer.compareUnsigned(next, hashBefore) < 0) {
      throw new IllegalStateException("the records of a snapshot are not in the order of hashes")
    }
    hash = next
  }

  /** The entries of one hash stay together. */
  private def mustStay: Boolean = filled == 0 || (byHash && hash == hashBefore)

  /** An entry whose value is in one piece. */
  def entry(
      kind: Int, family: Int, keyBase: AnyRef, key: Long, keyLength: Int,
      valueBase: AnyRef, value: Long, valueLength: Int): Unit = {
    val at = startEntry(kind, family, keyBase, key, keyLength, valueLength)
    Platform.copyMemory(valueBase, value, raw, at, valueLength.toLong)
  }

  /** An entry whose value is made of pieces: `fill` gets an array and where the value begins in it. */
  def entry(kind: Int, family: Int, keyBase: AnyRef, key: Long, keyLength: Int, valueLength: Int)(
      fill: (Array[Byte], Long) => Unit): Unit = {
    val at = startEntry(kind, family, keyBase, key, keyLength, valueLength)
    fill(raw, at)
  }

  /** Whether an entry of this size needs no block to be written first. */
  def hasRoom(keyLength: Int, valueLength: Int): Boolean =
    mustStay || filled + EntryHeaderSize.toLong + keyLength + valueLength <= blockSize

  def finish(): Unit = {
    writeBlock()
    val end = java.nio.ByteBuffer.allocate(16).putInt(0).putInt(blocks).putLong(entries).array()
    out.write(end)
    out.writeInt(checkOf(end, end.length))
    if (index != null) {
      out.write(SnapshotIndex.frame(index.result().encode))
      out.write(SnapshotIndex.Trailer(written + EndSize, headerCheck).encode)
    }
    out.flush()
  }

  private def writeHeader(): Int = {
    val bytes = FileHeader.encode(header)
    val start = java.nio.ByteBuffer.allocate(PreambleSize + bytes.length)
      .put(Magic).putShort(formatOf(header.kind).toShort).put(header.kind.code).put(codec.code)
      .putInt(bytes.length).put(bytes).array()
    val found = checkOf(start, start.length)
    out.write(start)
    out.writeInt(found)
    written += start.length + 4
    found
  }

  /** Makes room for an entry, writes all but its value, returns where the value goes. */
  private def startEntry(
      kind: Int, family: Int, keyBase: AnyRef, key: Long, keyLength: Int,
      valueLength: Int): Long = {
    val size = EntryHeaderSize.toLong + keyLength + valueLength
    if (!hasRoom(keyLength, valueLength)) writeBlock()
    if (filled + size > raw.length) {
      raw = java.util.Arrays.copyOf(raw, Math.toIntExact(filled + size))
    }
    if (filled == 0) firstHash = hash
    hashBefore = hash
    val at = Platform.BYTE_ARRAY_OFFSET.toLong + filled
    Platform.putByte(raw, at, kind.toByte)
    Platform.putShort(raw, at + 1, family.toShort)
    Platform.putInt(raw, at + 3, keyLength)
    Platform.putInt(raw, at + 7, valueLength)
    Platform.copyMemory(keyBase, key, raw, at + EntryHeaderSize, keyLength.toLong)
    filled += size.toInt
    entries += 1
    at + EntryHeaderSize + keyLength
  }

  /** Ends a block. The entries themselves only fill it, as long as there is room. */
  def writeBlock(): Unit = if (filled > 0) {
    val bound = codec.maximumLength(filled)
    if (stored.length < bound) stored = new Array[Byte](bound)
    val length = codec.compress(raw, filled, stored)
    val payloadCheck = checkOf(stored, length)
    val lengths = java.nio.ByteBuffer.allocate(12)
      .putInt(filled).putInt(length).putInt(payloadCheck).array()
    out.write(lengths)
    out.writeInt(checkOf(lengths, lengths.length))
    out.write(stored, 0, length)
    if (index != null) {
      index.add(written, BlockHeaderSize + length, payloadCheck, (entries - entriesBefore).toInt,
        if (byHash) firstHash else 0)
    }
    written += BlockHeaderSize + length
    entriesBefore = entries
    blocks += 1
    filled = 0
    if (raw.length > BlockSize) raw = new Array[Byte](BlockSize)
  }

  private def checkOf(bytes: Array[Byte], length: Int): Int = {
    check.reset()
    check.update(bytes, 0, length)
    check.getValue.toInt
  }
}

object StateFileWriter {
  val Magic: Array[Byte] = "TAILRACE".getBytes("US-ASCII")
  /** The largest that is known. Changes files and packs have 1; snapshots, with an index, 2. */
  val FormatVersion = 2
  val ChangesFormat = 1
  val SnapshotFormat = 2
  val BlockHeaderSize = 16
  val EndSize = 20
  val PreambleSize = 16
  val EntryHeaderSize = 11
  val BlockSize: Int = 256 << 10
  /** Of a section that is ordered by hash: a look-up reads a whole block, so they are small. */
  val HashedBlockSize: Int = 4 << 10

  private def formatOf(kind: FileKind): Int = kind match {
    case FileKind.Changes => ChangesFormat
    case FileKind.Snapshot => SnapshotFormat
  }
}
