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
 *   keyWord := key length in the low 25 bits; the two top bits are marks of the running batch, the
 *              third says that there is a tail: the place in a time index, which does change; then
 *              4 bits, the epoch of the batch that used the record last (see Epoch)
 *   list value := last node (address, u64)  number of values (u64)  first node (address, u64)
 *                 estimated time of the next read (u64)
 * }}}
 *
 * Invariant: a record's key and value are never written again after it was made. An address may be
 * read until the slot is freed. Slots are freed between batches (see [[tailrace.store.Changes]]);
 * while a batch runs, only those that it has not used are. That makes it safe to hand rows out
 * without a copy, to undo a batch, and to write a snapshot beside the next batch.
 *
 * At run time a record is its address. In a collection, a tuple or a function's type it would be an
 * object: many records are a [[Records]], and functions of records are those of Visitors.scala.
 */
final class Record(val address: Long) extends AnyVal {
  import Record._

  def exists: Boolean = address != 0L

  def isNone: Boolean = address == 0L

  /** The word for the table's slot. */
  def word: SlotWord = new SlotWord(address)

  def keyLength: Int = keyWord & LengthMask

  def keyAddress: Long = address + HeaderSize

  def valueLength: Int = Platform.getInt(null, address + 4)

  def valueAddress: Long = address + HeaderSize + padded(keyLength)

  def size: Long = if (isTailed) bodySize + TailSize else bodySize

  def isTailed: Boolean = (keyWord & Tailed) != 0

  def tail: Long = Platform.getLong(null, address + bodySize)

  def setTail(word: Long): Unit = Platform.putLong(null, address + bodySize, word)

  def keyEquals(base: AnyRef, offset: Long, length: Int): Boolean =
    keyLength == length &&
      ByteArrayMethods.arrayEquals(base, offset, null, address + HeaderSize, length.toLong)

  def free(arena: Arena): Unit = arena.free(address, size)

  // ---- of a list

  def listLast: Node = new Node(Platform.getLong(null, valueAddress))

  def listCount: Long = Platform.getLong(null, valueAddress + 8)

  def listFirst: Node = new Node(Platform.getLong(null, valueAddress + 16))

  /** When the list is expected to be read. */
  def listDue: Long = Platform.getLong(null, valueAddress + 24)

  /** The nodes of a list, oldest first. */
  def nodes: Nodes = {
    val ordered = new Array[Long](listCount.toInt)
    var node = listLast
    var first = ordered.length
    while (node.exists) {
      first -= 1
      ordered(first) = node.address
      node = node.before
    }
    // A cold node stands for several values.
    new Nodes(
      if (first == 0) ordered else java.util.Arrays.copyOfRange(ordered, first, ordered.length))
  }

  /** Frees a list's record and its nodes down to `until`; `coldNode` is called for cold ones. */
  def freeList(arena: Arena, until: Node)(coldNode: NodeVisitor): Unit = {
    var node = listLast
    while (node != until) {
      val before = node.before
      if (node.isCold) coldNode(node)
      node.free(arena)
      node = before
    }
    free(arena)
  }

  // ---- its flags

  /** The batch that used the record last, as far as it is remembered; 0: none since long. */
  def epoch: Int = (keyWord & EpochMask) >>> EpochShift

  def setEpoch(epoch: Int): Unit = {
    val word = keyWord
    if ((word & EpochMask) != epoch << EpochShift) {
      Platform.putInt(null, address, (word & ~EpochMask) | epoch << EpochShift)
    }
  }

  def isFresh: Boolean = (keyWord & Fresh) != 0

  def isSuperseded: Boolean = (keyWord & Superseded) != 0

  def markSuperseded(): Unit = Platform.putInt(null, address, keyWord | Superseded)

  /** Takes both marks off: the batch that made the record is over. */
  def clearBatchMarks(): Unit =
    Platform.putInt(null, address, keyWord & (LengthMask | Tailed | EpochMask))

  private def keyWord: Int = Platform.getInt(null, address)

  private def bodySize: Long = sizeOf(keyLength, valueLength)
}

object Record {
  /** The record was made by the batch that is running. */
  private final val Fresh = 0x80000000
  /** A later change of the same batch took the record's place; its bytes need not be written. */
  private final val Superseded = 0x40000000
  private final val Tailed = 0x20000000
  private final val EpochShift = 25
  private final val EpochMask = 0x1e000000
  private final val LengthMask = 0x01ffffff

  private final val HeaderSize = 8
  private final val TailSize = 8
  private final val ListValueSize = 32

  /** In the place of a record: there is none. */
  def None: Record = new Record(0L)

  /** Makes a fresh record; the value's bytes are copied from `valueBase`. */
  def create(
      arena: Arena, tailed: Boolean,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int,
      valueBase: AnyRef, valueOffset: Long, valueLength: Int): Record = {
    val address = blank(arena, tailed, keyBase, keyOffset, keyLength, valueLength)
    Platform.copyMemory(
      valueBase, valueOffset, null, address + HeaderSize + padded(keyLength), valueLength.toLong)
    new Record(address)
  }

  /** Makes a fresh record whose value is the list from `firstNode` to `lastNode`. */
  def createList(
      arena: Arena, tailed: Boolean, keyBase: AnyRef, keyOffset: Long, keyLength: Int,
      firstNode: Node, lastNode: Node, count: Long, due: Long): Record = {
    val address = blank(arena, tailed, keyBase, keyOffset, keyLength, ListValueSize)
    val value = address + HeaderSize + padded(keyLength)
    Platform.putLong(null, value, lastNode.address)
    Platform.putLong(null, value + 8, count)
    Platform.putLong(null, value + 16, firstNode.address)
    Platform.putLong(null, value + 24, due)
    new Record(address)
  }

  def createList(
      arena: Arena, tailed: Boolean, keyBase: AnyRef, keyOffset: Long, keyLength: Int,
      chain: NodeChain, due: Long): Record = createList(
    arena, tailed, keyBase, keyOffset, keyLength, chain.first, chain.last, chain.count, due)

  /** Makes a fresh record with one value more than `present`, a list's record or none. */
  def createAppended(
      arena: Arena, tailed: Boolean, present: Record, due: Long,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int,
      valueBase: AnyRef, valueOffset: Long, valueLength: Int): Record =
    if (present.isNone) {
      val node = Node.create(arena, Node.None, valueBase, valueOffset, valueLength)
      createList(arena, tailed, keyBase, keyOffset, keyLength, node, node, 1, due)
    } else {
      val node = Node.create(arena, present.listLast, valueBase, valueOffset, valueLength)
      createList(arena, tailed, keyBase, keyOffset, keyLength,
        present.listFirst, node, present.listCount + 1, due)
    }

  private def blank(
      arena: Arena, tailed: Boolean,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int, valueLength: Int): Long = {
    require(keyLength <= LengthMask, s"a key of $keyLength bytes; it may have $LengthMask")
    val body = sizeOf(keyLength, valueLength)
    val address = arena.allocate(if (tailed) body + TailSize else body)
    Platform.putInt(null, address, if (tailed) keyLength | Fresh | Tailed else keyLength | Fresh)
    Platform.putInt(null, address + 4, valueLength)
    Platform.copyMemory(keyBase, keyOffset, null, address + HeaderSize, keyLength.toLong)
    address
  }

  private def sizeOf(keyLength: Int, valueLength: Int): Long =
    HeaderSize + padded(keyLength) + padded(valueLength)

  private def padded(length: Int): Long = (length + 7L) & ~7L
}
