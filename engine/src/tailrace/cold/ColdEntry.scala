package tailrace.cold

import java.util.zip.CRC32C

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

/**
 * An entry of the log, in a piece of an array: the key with a value, or with some of its list's
 * values, oldest first.
 *
 * {{{
 *   entry := size(u32) check(u32: CRC-32C of the rest) family(u32) values(u32; 0: a record)
 *            keyLength(u32) payloadLength(u32) key, padded to 8 bytes  payload, padded to 8 bytes
 *   payload := the value, or (length(u32) value)*
 * }}}
 * Numbers are in the machine's order: no other machine, and no later process, reads them.
 */
final class ColdEntry(val bytes: Array[Byte], val start: Int) {
  import ColdEntry._

  private def at(offset: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + start + offset

  def size: Int = Platform.getInt(bytes, at(0))

  def family: Int = Platform.getInt(bytes, at(8))

  /** How many values of a list this is; 0: it is a whole record. */
  def count: Int = Platform.getInt(bytes, at(12))

  def keyLength: Int = Platform.getInt(bytes, at(16))

  def payloadLength: Int = Platform.getInt(bytes, at(20))

  /** Offsets of key and payload in `bytes`, as `Platform` counts. */
  def key: Long = at(HeaderSize)

  def payload: Long = at(HeaderSize + padded(keyLength))

  def hasKey(base: AnyRef, offset: Long, length: Int): Boolean = keyLength == length &&
    ByteArrayMethods.arrayEquals(base, offset, bytes, key, length.toLong)

  def isIntact: Boolean = size >= HeaderSize && start + size <= bytes.length &&
    Platform.getInt(bytes, at(4)) == checkOf(bytes, start, size)

  /** The same in an array of its own. */
  def copied: ColdEntry =
    new ColdEntry(java.util.Arrays.copyOfRange(bytes, start, start + size), 0)

  /** Each value of a list: the array, its offset in it as `Platform` counts, its length. */
  def values: Iterator[(Array[Byte], Long, Int)] = new Iterator[(Array[Byte], Long, Int)] {
    private var place = payload
    private val end = payload + payloadLength

    override def hasNext: Boolean = place < end

    override def next(): (Array[Byte], Long, Int) = {
      val length = Platform.getInt(bytes, place)
      val value = place + 4
      place = value + length
      (bytes, value, length)
    }
  }
}

object ColdEntry {
  val HeaderSize = 24
  /** No two entries begin in the same 32 bytes: a segment has one bit for each (ColdSegment). */
  val SmallestSize = 32

  /** The size of an entry with a key and a payload of these lengths. */
  def sizeOf(keyLength: Long, payloadLength: Long): Long = math.max(
    SmallestSize.toLong, HeaderSize + ((keyLength + 7) & ~7L) + ((payloadLength + 7) & ~7L))

  private def padded(length: Int): Int = (length + 7) & ~7

  private def checkOf(bytes: Array[Byte], start: Int, size: Int): Int = {
    val check = new CRC32C
    check.update(bytes, start + 8, size - 8)
    check.getValue.toInt
  }

  /** Makes entries one behind the other, in one array. */
  final class Builder {
    private var raw = new Array[Byte](4096)
    private var filled = 0
    private var first = 0 // of the entry that is being made
    private var keyEnd = 0

    def bytes: Array[Byte] = raw

    /** Where the next entry begins. */
    def size: Int = filled

    def clear(): Unit = filled = 0

    /** @param values how many values of a list; 0: it is a whole record */
    def start(family: Int, values: Int, keyBase: AnyRef, keyOffset: Long, keyLength: Int): Unit = {
      first = filled
      ensure(HeaderSize + padded(keyLength))
      filled += HeaderSize
      put(first + 8, family)
      put(first + 12, values)
      put(first + 16, keyLength)
      copy(keyBase, keyOffset, keyLength)
      pad()
      keyEnd = filled
    }

    def value(base: AnyRef, offset: Long, length: Int): Unit = {
      ensure(length)
      copy(base, offset, length)
    }

    def listValue(base: AnyRef, offset: Long, length: Int): Unit = {
      ensure(length + 4)
      put(filled, length)
      filled += 4
      copy(base, offset, length)
    }

    /** Ends the entry; returns where it began. */
    def finish(): Int = {
      put(first + 20, filled - keyEnd)
      pad()
      while (filled - first < SmallestSize) {
        ensure(8)
        Platform.putLong(raw, Platform.BYTE_ARRAY_OFFSET.toLong + filled, 0L)
        filled += 8
      }
      put(first, filled - first)
      put(first + 4, checkOf(raw, first, filled - first))
      first
    }

    private def put(offset: Int, number: Int): Unit =
      Platform.putInt(raw, Platform.BYTE_ARRAY_OFFSET.toLong + offset, number)

    private def copy(base: AnyRef, offset: Long, length: Int): Unit = {
      Platform.copyMemory(
        base, offset, raw, Platform.BYTE_ARRAY_OFFSET.toLong + filled, length.toLong)
      filled += length
    }

    private def pad(): Unit = {
      ensure(8)
      while ((filled & 7) != 0) {
        raw(filled) = 0
        filled += 1
      }
    }

    private def ensure(more: Int): Unit = if (filled + more + 8 > raw.length) {
      raw = java.util.Arrays.copyOf(raw, Math.max(raw.length * 2, filled + more + 8))
    }
  }
}
