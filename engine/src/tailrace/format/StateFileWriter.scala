package tailrace.format

import java.io.{DataOutputStream, OutputStream}
import java.util.zip.CRC32C

import org.apache.spark.unsafe.Platform

/**
 * Writes a state file. The bytes (also in FORMAT.md, which a golden-byte test holds to this code):
 *
 * {{{
 *   file    := magic(8 bytes: "TAILRACE") format(u16) kind(u8) codec(u8)
 *              headerLength(u32) header headerCheck(u32: CRC-32C of all bytes before it)
 *              block* end
 *   block   := rawLength(u32, not 0) storedLength(u32) payloadCheck(u32: CRC-32C of the payload)
 *              lengthCheck(u32: CRC-32C of the 12 bytes before it)
 *              payload(storedLength bytes: the entries, compressed by the codec)
 *   end     := 0(u32) blocks(u32) entries(u64) endCheck(u32: CRC-32C of the 16 bytes before it)
 *   entry   := kind(u8) family(u16 LE) keyLength(u32 LE) valueLength(u32 LE) key value
 *   value of a list entry := (length(u32 LE) bytes)*
 * }}}
 *
 * Numbers are big-endian except in entries, which are copied from memory. An entry is never cut by
 * the end of a block. Closing the stream is the caller's.
 */
final class StateFileWriter(stream: OutputStream, header: FileHeader, codec: Codec) {
  import StateFileWriter._

  private val out = new DataOutputStream(stream)
  private var raw = new Array[Byte](BlockSize)
  private var filled = 0
  private var stored = Array.emptyByteArray
  private var blocks = 0
  private var entries = 0L
  private val check = new CRC32C

  writeHeader()

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
    filled == 0 || filled + EntryHeaderSize.toLong + keyLength + valueLength <= BlockSize

  def finish(): Unit = {
    writeBlock()
    val end = java.nio.ByteBuffer.allocate(16).putInt(0).putInt(blocks).putLong(entries).array()
    out.write(end)
    out.writeInt(checkOf(end, end.length))
    out.flush()
  }

  private def writeHeader(): Unit = {
    val bytes = FileHeader.encode(header)
    val start = java.nio.ByteBuffer.allocate(PreambleSize + bytes.length)
      .put(Magic).putShort(FormatVersion.toShort).put(header.kind.code).put(codec.code)
      .putInt(bytes.length).put(bytes).array()
    out.write(start)
    out.writeInt(checkOf(start, start.length))
  }

  /** Makes room for an entry, writes all but its value, returns where the value goes. */
  private def startEntry(
      kind: Int, family: Int, keyBase: AnyRef, key: Long, keyLength: Int,
      valueLength: Int): Long = {
    val size = EntryHeaderSize.toLong + keyLength + valueLength
    if (filled + size > BlockSize && filled > 0) writeBlock()
    if (size > raw.length) raw = new Array[Byte](Math.toIntExact(size))
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
    val lengths = java.nio.ByteBuffer.allocate(12)
      .putInt(filled).putInt(length).putInt(checkOf(stored, length)).array()
    out.write(lengths)
    out.writeInt(checkOf(lengths, lengths.length))
    out.write(stored, 0, length)
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
  val FormatVersion = 1
  val PreambleSize = 16
  val EntryHeaderSize = 11
  val BlockSize: Int = 256 << 10
}
