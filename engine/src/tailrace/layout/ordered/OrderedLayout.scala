package tailrace.layout.ordered

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

import tailrace.layout.{Cursor, Layout, OrderedScans, Record, RecordMover}
import tailrace.memory.{AddressList, Budget}

/**
 * Problem: prefix and range scans, and point access to the same keys.
 *
 * Answer: a tree of two levels. Leaves of up to 256 sorted entries; above them a directory with
 * each leaf's first sort word, searched by halving. A leaf splits when it is full and goes when it
 * is empty.
 *
 * Invariants: entries are in the order of (sort word, key bytes), all unsigned, across all leaves;
 * a leaf in the directory is never empty; `lowWords(i)` is the first word of `leaves(i)`. One
 * thread at a time.
 */
final class OrderedLayout(budget: Budget, val sortWord: SortWord)
  extends Layout with OrderedScans {
  private var leaves = new Array[Leaf](16)
  private var lowWords = new Array[Long](16)
  private var leafCount = 0
  private var entries = 0L
  /** Counts changes of places: a cursor that sees it changed searches its place again. */
  private var moves = 0L

  // Where the last search stopped.
  private var leafIndex = 0
  private var entryIndex = 0

  override def size: Long = entries

  override def overheadBytes: Long = leafCount * Leaf.Bytes + leaves.length * 16L

  override def get(base: AnyRef, offset: Long, length: Int): Record =
    if (search(sortWord.ofKey(base, offset, length), base, offset, length)) {
      leaves(leafIndex).record(entryIndex)
    } else {
      Record.None
    }

  override def put(base: AnyRef, offset: Long, length: Int, record: Record): Record = {
    val word = sortWord.ofKey(base, offset, length)
    if (search(word, base, offset, length)) {
      val leaf = leaves(leafIndex)
      val replaced = leaf.record(entryIndex)
      leaf.setRecord(entryIndex, record)
      replaced
    } else {
      insert(word, record)
      Record.None
    }
  }

  override def remove(base: AnyRef, offset: Long, length: Int): Record = {
    if (!search(sortWord.ofKey(base, offset, length), base, offset, length)) return Record.None
    val leaf = leaves(leafIndex)
    val removed = leaf.record(entryIndex)
    leaf.delete(entryIndex)
    if (leaf.count == 0) {
      dropLeaf(leafIndex)
    } else if (entryIndex == 0) {
      lowWords(leafIndex) = leaf.word(0)
    }
    entries -= 1
    moves += 1
    removed
  }

  override def cursor(): Cursor = new OrderedCursor {
    override protected def seekStart(): Unit = { leafIndex = 0; entryIndex = 0 }
    override protected def isPast(record: Record): Boolean = false
  }

  override def inOrder: OrderedScans = this

  override def prefixCursor(prefix: Array[Byte]): Cursor = new OrderedCursor {
    private val offset = Platform.BYTE_ARRAY_OFFSET.toLong
    override protected def seekStart(): Unit =
      search(sortWord.ofPrefix(prefix, offset, prefix.length), prefix, offset, prefix.length)
    override protected def isPast(record: Record): Boolean =
      record.keyLength < prefix.length ||
        !ByteArrayMethods.arrayEquals(
          prefix, offset, null, record.keyAddress, prefix.length.toLong)
  }

  override def rangeCursor(start: Array[Byte], end: Array[Byte]): Cursor = new OrderedCursor {
    private val offset = Platform.BYTE_ARRAY_OFFSET.toLong
    private val endWord = if (end == null) 0L else sortWord.ofKey(end, offset, end.length)
    override protected def seekStart(): Unit =
      if (start == null) { leafIndex = 0; entryIndex = 0 }
      else search(sortWord.ofKey(start, offset, start.length), start, offset, start.length)
    override protected def isPast(record: Record): Boolean = end != null && {
      val word = sortWord.ofKey(null, record.keyAddress, record.keyLength)
      compareEntry(word, record, endWord, end, offset, end.length) >= 0
    }
  }

  override def copyTo(addresses: AddressList): Unit =
    foreachEntry((leaf, index) => addresses.add(leaf.record(index).address))

  override def relocate(move: RecordMover): Unit =
    foreachEntry((leaf, index) => leaf.setRecord(index, move(leaf.record(index))))

  override def close(): Unit = {
    var index = 0
    while (index < leafCount) {
      leaves(index).close()
      index += 1
    }
    leafCount = 0
  }

  private abstract class OrderedCursor extends Cursor {
    private var last = Record.None // the record returned last; records stay readable while a batch runs
    private var seenMoves = -1L
    private var leafAt = 0
    private var entryAt = 0

    protected def seekStart(): Unit

    protected def isPast(record: Record): Boolean

    override def next(): Record = {
      if (seenMoves != moves) {
        findPlace()
        seenMoves = moves
      }
      if (leafAt < leafCount && entryAt >= leaves(leafAt).count) {
        leafAt += 1
        entryAt = 0
      }
      if (leafAt >= leafCount) return Record.None
      val record = leaves(leafAt).record(entryAt)
      if (isPast(record)) return Record.None
      entryAt += 1
      last = record
      record
    }

    private def findPlace(): Unit = {
      if (last.isNone) {
        seekStart()
        leafAt = leafIndex
        entryAt = entryIndex
      } else {
        val key = last.keyAddress
        val length = last.keyLength
        val present = search(sortWord.ofKey(null, key, length), null, key, length)
        leafAt = leafIndex
        entryAt = if (present) entryIndex + 1 else entryIndex
      }
    }
  }

  /**
   * Sets `leafIndex` and `entryIndex` to the first entry that is not before the key (which may be
   * one past the end of its leaf) and tells whether it has the key.
   */
  private def search(word: Long, base: AnyRef, offset: Long, length: Int): Boolean = {
    leafIndex = 0
    entryIndex = 0
    if (leafCount == 0) return false

    // 1. The last leaf whose first entry is not after the key.
    var low = 0
    var high = leafCount - 1
    while (low < high) {
      val middle = (low + high + 1) >>> 1
      val order = java.lang.Long.compareUnsigned(lowWords(middle), word)
      val notAfter = order < 0 || (order == 0 &&
        compareEntry(word, leaves(middle).record(0), word, base, offset, length) <= 0)
      if (notAfter) low = middle else high = middle - 1
    }
    leafIndex = low

    // 2. The first entry in it that is not before the key.
    val leaf = leaves(low)
    var from = 0
    var until = leaf.count
    while (from < until) {
      val middle = (from + until) >>> 1
      val order = compareEntry(leaf.word(middle), leaf.record(middle), word, base, offset, length)
      if (order == 0) {
        entryIndex = middle
        return true
      }
      if (order < 0) from = middle + 1 else until = middle
    }
    entryIndex = from
    false
  }

  private def compareEntry(
      entryWord: Long, record: Record,
      word: Long, base: AnyRef, offset: Long, length: Int): Int = {
    val order = java.lang.Long.compareUnsigned(entryWord, word)
    if (order != 0) {
      order
    } else {
      OrderedLayout.compareBytes(
        null, record.keyAddress, record.keyLength, base, offset, length)
    }
  }

  /** Puts a new entry where the last search stopped. */
  private def insert(word: Long, record: Record): Unit = {
    if (leafCount == 0) addLeaf(0, new Leaf(budget), word)
    var leaf = leaves(leafIndex)
    if (leaf.isFull) {
      // A key after all others starts a new leaf: keys that only grow fill their leaves.
      val appending = entryIndex == leaf.count && leafIndex == leafCount - 1
      val cut = if (appending) leaf.count else leaf.count / 2
      val right = leaf.splitAt(cut)
      addLeaf(leafIndex + 1, right, if (right.count > 0) right.word(0) else word)
      if (entryIndex > cut || appending) {
        leafIndex += 1
        entryIndex -= cut
        leaf = right
      }
    }
    leaf.insert(entryIndex, word, record)
    if (entryIndex == 0) lowWords(leafIndex) = word
    entries += 1
    moves += 1
  }

  private def addLeaf(at: Int, leaf: Leaf, word: Long): Unit = {
    if (leafCount == leaves.length) {
      leaves = java.util.Arrays.copyOf(leaves, leafCount * 2)
      lowWords = java.util.Arrays.copyOf(lowWords, leafCount * 2)
    }
    System.arraycopy(leaves, at, leaves, at + 1, leafCount - at)
    System.arraycopy(lowWords, at, lowWords, at + 1, leafCount - at)
    leaves(at) = leaf
    lowWords(at) = word
    leafCount += 1
  }

  private def dropLeaf(at: Int): Unit = {
    leaves(at).close()
    System.arraycopy(leaves, at + 1, leaves, at, leafCount - at - 1)
    System.arraycopy(lowWords, at + 1, lowWords, at, leafCount - at - 1)
    leafCount -= 1
    leaves(leafCount) = null
  }

  private def foreachEntry(visit: (Leaf, Int) => Unit): Unit = {
    var at = 0
    while (at < leafCount) {
      val leaf = leaves(at)
      var index = 0
      while (index < leaf.count) {
        visit(leaf, index)
        index += 1
      }
      at += 1
    }
  }
}

object OrderedLayout {
  /** Unsigned, byte by byte; a prefix comes before every longer key that begins with it. */
  private[layout] def compareBytes(
      leftBase: AnyRef, leftOffset: Long, leftLength: Int,
      rightBase: AnyRef, rightOffset: Long, rightLength: Int): Int = {
    val shared = math.min(leftLength, rightLength)
    var index = 0
    while (index + 8 <= shared) {
      val left = Platform.getLong(leftBase, leftOffset + index)
      val right = Platform.getLong(rightBase, rightOffset + index)
      if (left != right) {
        return java.lang.Long.compareUnsigned(
          java.lang.Long.reverseBytes(left), java.lang.Long.reverseBytes(right))
      }
      index += 8
    }
    while (index < shared) {
      val order = (Platform.getByte(leftBase, leftOffset + index) & 0xff) -
        (Platform.getByte(rightBase, rightOffset + index) & 0xff)
      if (order != 0) return order
      index += 1
    }
    leftLength - rightLength
  }
}
