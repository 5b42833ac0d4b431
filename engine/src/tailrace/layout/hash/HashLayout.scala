package tailrace.layout.hash

import org.apache.spark.sql.catalyst.expressions.XXH64

import tailrace.cold.ColdRef
import tailrace.layout.{Away, Cursor, Layout}
import tailrace.memory.{AddressList, Budget}

/**
 * Problem: point access to millions of keys, with no pause when the table grows.
 *
 * Answer: extendible hashing. The top bits of a key's hash choose a segment through the directory,
 * the low bits a slot in it. A full segment grows alone and, at a megabyte, splits in two; only the
 * directory, one reference per segment, is ever copied as a whole.
 *
 * Invariants: no locks, one thread at a time; entries of a segment agree in their `segment.depth`
 * top hash bits, and 2^(depth - segment.depth) neighbouring entries of the directory name it.
 */
final class HashLayout(budget: Budget, away: Away) extends Layout {
  private var depth = 0
  private var directory = Array(new Segment(budget, 0, Segment.InitialCapacity, away))
  private var entries = 0L
  private var hand = 0 // where the next sweep begins
  private var askedHash = 0L // of the last `get`; its segment remembers the slot

  override def size: Long = entries

  override def overheadBytes: Long = {
    var total = 0L
    foreachSegment(segment => total += segment.bytes)
    total
  }

  override def get(base: AnyRef, offset: Long, length: Int): Long = {
    askedHash = hashOf(base, offset, length)
    directory(indexOf(askedHash)).find(askedHash, base, offset, length)
  }

  override def putAfterGet(
      base: AnyRef, offset: Long, length: Int, found: Long, record: Long): Unit = {
    val segment = directory(indexOf(askedHash))
    if (found != 0L) {
      segment.replaceFound(record)
    } else {
      insert(segment, askedHash, base, offset, length, record)
      entries += 1
    }
  }

  override def put(base: AnyRef, offset: Long, length: Int, record: Long): Long = {
    val hash = hashOf(base, offset, length)
    val segment = directory(indexOf(hash))
    val replaced = segment.find(hash, base, offset, length)
    if (replaced != 0L) {
      segment.replaceFound(record)
    } else {
      insert(segment, hash, base, offset, length, record)
      entries += 1
    }
    replaced
  }

  override def reserve(records: Long): Unit = if (entries == 0L) {
    close()
    depth = 0
    while ((records >> depth) > Segment.ComfortableSize) depth += 1
    val capacity = Segment.capacityFor((records >> depth) + 1)
    directory = Array.fill(1 << depth)(new Segment(budget, depth, capacity, away))
  }

  override def add(base: AnyRef, offset: Long, length: Int, record: Long): Unit = {
    val hash = hashOf(base, offset, length)
    val segment = directory(indexOf(hash))
    if (segment.isFull) {
      put(base, offset, length, record)
    } else {
      segment.insertNew(hash, record)
      entries += 1
    }
  }

  override def remove(base: AnyRef, offset: Long, length: Int): Long = {
    val hash = hashOf(base, offset, length)
    val segment = directory(indexOf(hash))
    val removed = segment.find(hash, base, offset, length)
    if (removed != 0L) {
      segment.removeFound()
      entries -= 1
    }
    removed
  }

  /**
   * Copies one segment's addresses at a time and goes on with the segment that owns the first hash
   * after it, so that growth and splits behind or before the cursor lose and repeat nothing.
   */
  override def cursor(): Cursor = new Cursor {
    private var nextIndex = 0L // position in the directory, scaled to `scale` bits
    private var scale = depth
    private var records = Array.emptyLongArray
    private var at = 0
    private lazy val view = away.newView()

    override def next(): Long = {
      while (at == records.length) {
        if (!loadSegment()) return 0L
      }
      at += 1
      val word = records(at - 1)
      if (ColdRef.isCold(word)) view(word) else word
    }

    private def loadSegment(): Boolean = {
      if (scale < depth) { // the directory has grown since: the same place, in finer steps
        nextIndex <<= (depth - scale)
        scale = depth
      }
      if (nextIndex >= directory.length) return false
      val segment = directory(nextIndex.toInt)
      records = new Array[Long](segment.size)
      at = 0
      var filled = 0
      segment.foreachSlot { slot =>
        records(filled) = Segment.recordAt(slot)
        filled += 1
      }
      val span = 1L << (depth - segment.depth)
      nextIndex = (nextIndex / span + 1) * span
      true
    }
  }

  override def copyTo(addresses: AddressList): Unit = foreachWord(addresses.add)

  override def relocate(move: Long => Long): Unit = foreachSegment(_.foreachSlot { slot =>
    val word = Segment.recordAt(slot)
    if (!ColdRef.isCold(word)) Segment.moveRecord(slot, move(word))
  })

  // ---- what leaves memory

  /**
   * Goes round the table, from where it stopped the last time, and puts what `leave` makes of each
   * resident record in its place (itself: it stays), until `leave` has no wish left.
   */
  def sweep(wishes: () => Boolean)(leave: Long => Long): Unit = {
    val segments = (0 until directory.length).iterator
      .map(index => directory((hand + index) % directory.length)).toSeq.distinct
    segments.takeWhile(_ => wishes()).foreach { segment =>
      segment.foreachSlot { slot =>
        val word = Segment.recordAt(slot)
        if (!ColdRef.isCold(word) && wishes()) Segment.moveRecord(slot, leave(word))
      }
      hand += 1
    }
    hand %= directory.length
  }

  /** Every entry as it stands in its slot: an address, or a reference. */
  def foreachWord(visit: Long => Unit): Unit =
    foreachSegment(_.foreachSlot(slot => visit(Segment.recordAt(slot))))

  /** Whether the key's entry is this reference. */
  def isAt(base: AnyRef, offset: Long, length: Int, ref: Long): Boolean =
    slotOf(base, offset, length, ref) != 0L

  /** Puts `word` in the place of `present`, the key's entry. */
  def exchange(base: AnyRef, offset: Long, length: Int, present: Long, word: Long): Unit =
    Segment.moveRecord(slotOf(base, offset, length, present), word)

  private def slotOf(base: AnyRef, offset: Long, length: Int, word: Long): Long = {
    val hash = hashOf(base, offset, length)
    directory(indexOf(hash)).slotOf(hash, word)
  }

  override def close(): Unit = foreachSegment(_.release())

  private def insert(
      segment: Segment, hash: Long, base: AnyRef, offset: Long, length: Int, record: Long): Unit = {
    if (!segment.isFull) {
      segment.insertAtPosition(hash, record)
    } else {
      if (segment.mustSplit) split(segment, hash) else segment.makeRoom()
      val target = directory(indexOf(hash))
      target.find(hash, base, offset, length)
      insert(target, hash, base, offset, length, record)
    }
  }

  private def split(segment: Segment, hash: Long): Unit = {
    if (segment.depth == depth) {
      val doubled = new Array[Segment](directory.length * 2)
      var index = 0
      while (index < doubled.length) {
        doubled(index) = directory(index >> 1)
        index += 1
      }
      directory = doubled
      depth += 1
    }
    val (low, high) = segment.split()
    val span = 1 << (depth - segment.depth)
    val first = indexOf(hash) / span * span
    var index = 0
    while (index < span) {
      directory(first + index) = if (index < span / 2) low else high
      index += 1
    }
  }

  private def foreachSegment(visit: Segment => Unit): Unit = {
    var index = 0
    while (index < directory.length) {
      val segment = directory(index)
      visit(segment)
      index += 1 << (depth - segment.depth)
    }
  }

  // Two shifts: a shift by 64, at depth 0, would be none at all.
  private def indexOf(hash: Long): Int = ((hash >>> 1) >>> (63 - depth)).toInt

  private def hashOf(base: AnyRef, offset: Long, length: Int): Long =
    if ((length & 7) == 0) XXH64.hashUnsafeWords(base, offset, length, HashLayout.Seed)
    else XXH64.hashUnsafeBytes(base, offset, length, HashLayout.Seed)
}

object HashLayout {
  private val Seed = 0x7461696c72616365L
}
