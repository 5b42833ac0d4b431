package tailrace.layout

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

import tailrace.memory.Arena

/**
 * A record: one key and its value, in one slot of the arena.
 *
 * {{{
 *   record := keyWord(u32) valueLength(u32) key, padded to 8 bytes  value, padded to 8 bytes
 *             tail (u64), if the key word says so
 *   keyWord := key length in the low 28 bits; the two top bits are marks of the running batch, the
 *              third says that there is a tail: the place in a time index, which does change, the
 *              fourth that the record has been made since somebody last looked for what can leave
 *   list value := last node (address, u64)  number of values (u64)  first node (address, u64)
 *                 estimated time of the next read (u64)
 *   node := node before it (address, u64; 0 is the first)  length(u32)  cold(u32)  value
 *           cold 0: the value is the list's; otherwise it is a reference (see ColdRef) to as many
 *           values of the list, which have left memory
 * }}}
 *
 * Invariant: a record's key and value are never written again after it was made. Whoever holds an
 * address may read it until the slot is freed, and slots are freed only between batches
 * (see [[tailrace.store.Changes]]). That is what makes it safe to hand rows out without a copy, to
 * undo a batch, and to write a snapshot beside the next batch.
 */
object Record {
  /** The record was made by the batch that is running. */
  private val Fresh = 0x80000000
  /** A later change of the same batch took the record's place; its bytes need not be written. */
  private val Superseded = 0x40000000
  private val Tailed = 0x20000000
  private val Recent = 0x10000000
  private val LengthMask = 0x0fffffff

  private val New = Fresh | Recent

  private val HeaderSize = 8
  private val TailSize = 8
  private val NodeHeaderSize = 16
  private val ListValueSize = 32

  def keyLength(record: Long): Int = Platform.getInt(null, record) & LengthMask

  def keyAddress(record: Long): Long = record + HeaderSize

  def valueLength(record: Long): Int = Platform.getInt(null, record + 4)

  def valueAddress(record: Long): Long = record + HeaderSize + padded(keyLength(record))

  def size(record: Long): Long =
    if (isTailed(record)) bodySize(record) + TailSize else bodySize(record)

  def isTailed(record: Long): Boolean = (Platform.getInt(null, record) & Tailed) != 0

  def tail(record: Long): Long = Platform.getLong(null, record + bodySize(record))

  def setTail(record: Long, word: Long): Unit =
    Platform.putLong(null, record + bodySize(record), word)

  def keyEquals(record: Long, base: AnyRef, offset: Long, length: Int): Boolean =
    keyLength(record) == length &&
      ByteArrayMethods.arrayEquals(base, offset, null, record + HeaderSize, length.toLong)

  /** Makes a fresh record; the value's bytes are copied from `valueBase`. */
  def create(
      arena: Arena, tailed: Boolean,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int,
      valueBase: AnyRef, valueOffset: Long, valueLength: Int): Long = {
    val record = blank(arena, tailed, keyBase, keyOffset, keyLength, valueLength)
    Platform.copyMemory(
      valueBase, valueOffset, null, record + HeaderSize + padded(keyLength), valueLength.toLong)
    record
  }

  /** Makes a fresh record whose value is the list from `firstNode` to `lastNode`. */
  def createList(
      arena: Arena, tailed: Boolean, keyBase: AnyRef, keyOffset: Long, keyLength: Int,
      firstNode: Long, lastNode: Long, count: Long, due: Long): Long = {
    val record = blank(arena, tailed, keyBase, keyOffset, keyLength, ListValueSize)
    val value = record + HeaderSize + padded(keyLength)
    Platform.putLong(null, value, lastNode)
    Platform.putLong(null, value + 8, count)
    Platform.putLong(null, value + 16, firstNode)
    Platform.putLong(null, value + 24, due)
    record
  }

  def createList(
      arena: Arena, tailed: Boolean, keyBase: AnyRef, keyOffset: Long, keyLength: Int,
      chain: NodeChain, due: Long): Long = createList(
    arena, tailed, keyBase, keyOffset, keyLength, chain.first, chain.last, chain.count, due)

  /** Makes a fresh record with one value more than `present`, a list's record or 0 for none. */
  def createAppended(
      arena: Arena, tailed: Boolean, present: Long, due: Long,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int,
      valueBase: AnyRef, valueOffset: Long, valueLength: Int): Long =
    if (present == 0L) {
      val node = createNode(arena, 0L, valueBase, valueOffset, valueLength)
      createList(arena, tailed, keyBase, keyOffset, keyLength, node, node, 1, due)
    } else {
      val node = createNode(arena, listLast(present), valueBase, valueOffset, valueLength)
      createList(arena, tailed, keyBase, keyOffset, keyLength,
        listFirst(present), node, listCount(present) + 1, due)
    }

  def listLast(record: Long): Long = Platform.getLong(null, valueAddress(record))

  def listCount(record: Long): Long = Platform.getLong(null, valueAddress(record) + 8)

  def listFirst(record: Long): Long = Platform.getLong(null, valueAddress(record) + 16)

  /** When the list is expected to be read. */
  def listDue(record: Long): Long = Platform.getLong(null, valueAddress(record) + 24)

  def createNode(
      arena: Arena, before: Long, valueBase: AnyRef, valueOffset: Long, length: Int): Long = {
    val node = arena.allocate(NodeHeaderSize.toLong + length)
    Platform.putLong(null, node, before)
    Platform.putInt(null, node + 8, length)
    Platform.putInt(null, node + 12, 0)
    Platform.copyMemory(valueBase, valueOffset, null, node + NodeHeaderSize, length.toLong)
    node
  }

  def nodeBefore(node: Long): Long = Platform.getLong(null, node)

  def nodeLength(node: Long): Int = Platform.getInt(null, node + 8)

  def nodeValue(node: Long): Long = node + NodeHeaderSize

  /** A node for values that have left memory. */
  def createColdNode(arena: Arena, before: Long, ref: Long, values: Int): Long = {
    val node = arena.allocate(NodeHeaderSize + 8L)
    Platform.putLong(null, node, before)
    Platform.putInt(null, node + 8, 8)
    Platform.putInt(null, node + 12, values)
    Platform.putLong(null, node + NodeHeaderSize, ref)
    node
  }

  /** How many values a node stands for that are not in memory; 0: it has its value. */
  def coldValues(node: Long): Int = Platform.getInt(null, node + 12)

  def coldRef(node: Long): Long = Platform.getLong(null, node + NodeHeaderSize)

  def setColdRef(node: Long, ref: Long): Unit = Platform.putLong(null, node + NodeHeaderSize, ref)

  /** The nodes of a list, oldest first. */
  def nodes(record: Long): Array[Long] = {
    val ordered = new Array[Long](listCount(record).toInt)
    var node = listLast(record)
    var first = ordered.length
    while (node != 0L) {
      first -= 1
      ordered(first) = node
      node = nodeBefore(node)
    }
    // A cold node stands for several values.
    if (first == 0) ordered else java.util.Arrays.copyOfRange(ordered, first, ordered.length)
  }

  def free(arena: Arena, record: Long): Unit = arena.free(record, size(record))

  def nodeSize(node: Long): Long = NodeHeaderSize.toLong + nodeLength(node)

  def freeNode(arena: Arena, node: Long): Unit = arena.free(node, nodeSize(node))

  /** Frees a list's record and its nodes down to `until`; `coldNode` hears of cold ones. */
  def freeList(arena: Arena, record: Long, until: Long)(coldNode: Long => Unit): Unit = {
    var node = listLast(record)
    while (node != until) {
      val before = nodeBefore(node)
      if (coldValues(node) > 0) coldNode(node)
      freeNode(arena, node)
      node = before
    }
    free(arena, record)
  }

  def isRecent(record: Long): Boolean = (Platform.getInt(null, record) & Recent) != 0

  def markOld(record: Long): Unit =
    Platform.putInt(null, record, Platform.getInt(null, record) & ~Recent)

  def isFresh(record: Long): Boolean = (Platform.getInt(null, record) & Fresh) != 0

  def isSuperseded(record: Long): Boolean = (Platform.getInt(null, record) & Superseded) != 0

  def markSuperseded(record: Long): Unit =
    Platform.putInt(null, record, Platform.getInt(null, record) | Superseded)

  /** Takes both marks off: the batch that made the record is over. */
  def settle(record: Long): Unit =
    Platform.putInt(null, record, Platform.getInt(null, record) & (LengthMask | Tailed | Recent))

  private def blank(
      arena: Arena, tailed: Boolean,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int, valueLength: Int): Long = {
    val body = sizeOf(keyLength, valueLength)
    val record = arena.allocate(if (tailed) body + TailSize else body)
    Platform.putInt(null, record, if (tailed) keyLength | New | Tailed else keyLength | New)
    Platform.putInt(null, record + 4, valueLength)
    Platform.copyMemory(keyBase, keyOffset, null, record + HeaderSize, keyLength.toLong)
    record
  }

  private def bodySize(record: Long): Long = sizeOf(keyLength(record), valueLength(record))

  private def sizeOf(keyLength: Int, valueLength: Int): Long =
    HeaderSize + padded(keyLength) + padded(valueLength)

  private def padded(length: Int): Long = (length + 7L) & ~7L
}
