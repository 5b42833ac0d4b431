package tailrace.layout.hash

import org.apache.spark.sql.catalyst.expressions.XXH64

import tailrace.cold.{ColdSlots, RefVisitor}
import tailrace.layout.{ColdRecords, Cursor, Epoch, Layout, PendingRecords, Record, RecordMover}
import tailrace.layout.{SlotVictims, SlotWord, Spillable, SweepVisitor, WordVisitor}
import tailrace.memory.{AddressList, Budget}

/**
 * Problem: point access to millions of keys, with no pause when the table grows.
 *
 * Answer: extendible hashing. The top bits of a key's hash choose a segment through the directory,
 * those after them a slot in it. A full segment grows alone and, at 768 KiB or less where memory is
 * little, splits in two; only the directory, one reference per segment, is ever copied as a whole.
 *
 * Invariants: no locks, one thread at a time; entries of a segment agree in their `segment.depth`
 * top hash bits, and 2^(depth - segment.depth) neighbouring entries of the directory name it.
 */
final class HashLayout(budget: Budget, cold: ColdRecords, epoch: Epoch)
  extends Layout with Spillable {
  private var depth = 0
  private var directory = Array(newSegment(0, 0, Segment.InitialCapacity))
  private var entries = 0L
  private val hand = new ClockHand
  private var askedHash = 0 // of the last `get`; its segment remembers the slot
  private var pending: PendingRecords = null

  override def size: Long = if (pending == null) entries else entries + pending.rows

  // ---- records that a restart has left in a snapshot

  /** Records that are not in the table yet; null: there are none any more. */
  def setPending(records: PendingRecords): Unit = pending = records

  /** Those in the table, spilled ones included. */
  def present: Long = entries

  def has(hash: Int, base: AnyRef, offset: Long, length: Int): Boolean =
    segmentOf(hash).find(hash, base, offset, length).exists

  /** A pending record whose key is not in the table. */
  def addPending(hash: Int, record: Record): Unit = {
    while (directory(indexOf(hash)).isFull) grow(directory(indexOf(hash)), hash)
    directory(indexOf(hash)).insertNew(hash, record.word)
    entries += 1
  }

  /** The records of this hash are in the table. */
  private def bring(hash: Int): Unit = if (pending != null) pending.bring(hash)

  override def putOver(base: AnyRef, offset: Long, length: Int, record: Record): Record = {
    val hash = hashOf(base, offset, length)
    if (pending != null) pending.passOver(hash, base, offset, length, removed = false)
    put(hash, base, offset, length, record)
  }

  override def removeOver(base: AnyRef, offset: Long, length: Int): Record = {
    val hash = hashOf(base, offset, length)
    if (pending != null) pending.passOver(hash, base, offset, length, removed = true)
    remove(hash, base, offset, length)
  }

  override def overheadBytes: Long = {
    var total = 0L
    foreachSegment(segment => total += segment.bytes)
    total
  }

  override def get(base: AnyRef, offset: Long, length: Int): Record = {
    askedHash = hashOf(base, offset, length)
    bring(askedHash)
    segmentOf(askedHash).find(askedHash, base, offset, length)
  }

  override def putAfterGet(
      base: AnyRef, offset: Long, length: Int, found: Record, record: Record): Unit = {
    val segment = directory(indexOf(askedHash))
    if (found.exists) {
      segment.replaceFound(record)
    } else {
      insert(segment, askedHash, record)
      entries += 1
    }
  }

  override def put(base: AnyRef, offset: Long, length: Int, record: Record): Record = {
    val hash = hashOf(base, offset, length)
    bring(hash)
    put(hash, base, offset, length, record)
  }

  private def put(
      hash: Int, base: AnyRef, offset: Long, length: Int, record: Record): Record = {
    val segment = segmentOf(hash)
    val replaced = segment.find(hash, base, offset, length)
    if (replaced.exists) {
      segment.replaceFound(record)
    } else {
      insert(segment, hash, record)
      entries += 1
    }
    replaced
  }

  override def reserve(records: Long): Unit = if (entries == 0L && mayTake(records)) {
    var wanted = 0
    while ((records >> wanted) > Segment.comfortableSize(budget)) wanted += 1
    val capacity = Segment.capacityFor((records >> wanted) + 1, budget)
    val made = new Array[Segment](1 << wanted)
    try made.indices.foreach { index =>
      made(index) = newSegment(wanted, (index.toLong << (32 - wanted)).toInt, capacity)
    } catch {
      case error: Throwable => // memory is at its end; the layout is as it was
        made.filter(_ != null).foreach(_.release())
        throw error
    }
    foreachSegment(_.release())
    depth = wanted
    directory = made
  }

  /** A table that needs a large part of the store's memory grows step by step, and can be spilled. */
  private def mayTake(records: Long): Boolean =
    records * Segment.bytesAnEntry(budget) <= budget.share / HashLayout.ReservedPart

  override def add(base: AnyRef, offset: Long, length: Int, record: Record): Unit = {
    val hash = hashOf(base, offset, length)
    val segment = directory(indexOf(hash))
    if (segment.isFull) {
      put(hash, base, offset, length, record)
    } else {
      segment.insertNew(hash, record.word)
      entries += 1
    }
  }

  override def remove(base: AnyRef, offset: Long, length: Int): Record = {
    val hash = hashOf(base, offset, length)
    bring(hash)
    remove(hash, base, offset, length)
  }

  private def remove(hash: Int, base: AnyRef, offset: Long, length: Int): Record = {
    val segment = segmentOf(hash)
    val removed = segment.find(hash, base, offset, length)
    if (removed.exists) {
      segment.removeFound()
      entries -= 1
    }
    removed
  }

  /**
   * Copies one segment's addresses at a time and goes on with the segment that owns the first hash
   * after it, so that growth and splits behind or before the cursor lose and repeat nothing. The
   * records of the segment count as used: they are not spilled before they are shown.
   */
  override def cursor(): Cursor = {
    if (pending != null) pending.bringAll()
    new SegmentCursor
  }

  private final class SegmentCursor extends Cursor {
    private var nextIndex = 0L // position in the directory, scaled to `scale` bits
    private var scale = depth
    private var words = Array.emptyLongArray
    private var at = 0
    private lazy val view = cold.newView()

    override def next(): Record = {
      while (at == words.length) {
        if (!loadSegment()) return Record.None
      }
      at += 1
      val word = new SlotWord(words(at - 1))
      if (word.isCold) view(word.ref) else word.record
    }

    private def loadSegment(): Boolean = {
      if (scale < depth) { // the directory has grown since: the same place, in finer steps
        nextIndex <<= (depth - scale)
        scale = depth
      }
      if (nextIndex >= directory.length) return false
      val segment = directory(nextIndex.toInt)
      val found = new scala.collection.mutable.ArrayBuilder.ofLong
      segment.foreachWord { word =>
        if (!word.isCold) epoch.touch(word.record)
        found += word.raw
      }
      segment.foreachInBase(word => found += word.raw)
      words = found.result()
      at = 0
      val span = 1L << (depth - segment.depth)
      nextIndex = (nextIndex / span + 1) * span
      true
    }
  }

  override def copyTo(addresses: AddressList): Unit =
    foreachInMemory(word => if (word.isRecord) addresses.add(word.record.address))

  override def relocate(move: RecordMover): Unit = foreachSegment { segment =>
    var index = 0
    while (index < segment.slots) {
      val word = segment.wordAt(index)
      if (word.isRecord) segment.setWord(index, move(word.record).word)
      index += 1
    }
  }

  // ---- spilled records

  /** Entries whose records are in memory. */
  override def spillable: Option[Spillable] = Some(this)

  override def resident: Long = {
    var total = 0L
    foreachSegment(segment => total += segment.resident)
    total
  }

  override def sweep(visit: SweepVisitor): Boolean = hand.sweep(visit)

  /** Slots that the hand has passed so far. */
  def sweptSlots: Long = hand.passed

  /** The words that are in slots. */
  def foreachInMemory(visit: WordVisitor): Unit = foreachSegment(_.foreachWord(visit))

  override def foreachWord(visit: WordVisitor): Unit = foreachSegment { segment =>
    segment.foreachWord(visit)
    segment.foreachInBase(visit)
  }

  override def expectAt(hash: Int, stamp: Int, visit: RefVisitor): Boolean =
    directory(indexOf(hash)).expectAt(hash, stamp, visit)

  override def restamp(renamed: Array[Int]): Unit = foreachSegment(_.restamp(renamed))

  /** Hashes are random, so some segments of a large table stand for all. */
  override def countStamps(counts: Array[Int]): Unit = {
    val every = math.max(1L, entries / HashLayout.EnoughToCount).toInt
    var passed = 0
    foreachSegment { segment =>
      if (passed % every == 0) segment.countStamps(counts)
      passed += 1
    }
  }

  override def isAt(hash: Int, word: SlotWord): Boolean = {
    val segment = directory(indexOf(hash))
    segment.slotOf(hash, word) >= 0 || segment.isInBase(word)
  }

  /**
   * A record is exchanged where it is: spilling installs in the middle of look-ups, which remember a
   * slot. Room is made only for an entry that was in the base.
   */
  override def exchange(hash: Int, present: SlotWord, word: SlotWord, latest: Int): Boolean = {
    val segment = directory(indexOf(hash))
    val slot = segment.slotOf(hash, present)
    if (slot >= 0) {
      val isOldEnough = segment.stampAt(slot) <= latest
      if (isOldEnough) segment.setWord(slot, word)
      isOldEnough
    } else if (segment.isInBase(present)) {
      segmentOf(hash).insertNew(hash, word) // the base has a reference that is given up now
      true
    } else {
      false
    }
  }

  // ---- slots that are spilled

  override def slotsAt(hash: Int): ColdSlots = {
    val slots = directory(indexOf(hash)).slotFile
    if (slots != null && slots.mayHave(hash)) slots else null
  }

  override def slotBytes: Long = overheadBytes

  override def pickSlots(few: Boolean): SlotVictims = {
    val least = if (few) 1 else Segment.maximumCapacity(budget) / 8
    var chosen: Segment = null
    foreachSegment { segment =>
      if (segment.coldSlots >= least && (chosen == null || segment.coldSlots > chosen.coldSlots)) {
        chosen = segment
      }
    }
    if (chosen != null && mustSplitFile(chosen)) {
      val at = chosen.lowest
      split(chosen, at)
      chosen = directory(indexOf(at))
    }
    if (chosen == null) null else new SpilledSlots(chosen, cold)
  }

  /** One file is read and written at a time: it does not grow without bound. */
  private def mustSplitFile(segment: Segment): Boolean = segment.slotFile != null &&
    segment.slotFile.size / segment.slotFile.ownerCount + segment.coldSlots >
      Segment.maximumCapacity(budget) && budget.spare > 2 * segment.bytes

  override def close(): Unit = {
    if (pending != null) {
      pending.close()
      pending = null
    }
    foreachSegment(_.release())
  }

  /**
   * A point of the hash space. Entries lie in the order of their hashes, so a table that has grown
   * or split since the last sweep is gone on with where it was left.
   */
  private final class ClockHand {
    private var at = 0L // a hash, as an unsigned number
    var passed = 0L

    def sweep(visit: SweepVisitor): Boolean = {
      // The rest of the first segment, all others, the beginning of the first.
      val first = segmentHere
      val start = slotIn(first)
      if (!walk(first, start, first.slots, visit)) return false
      var segment = segmentHere
      while (segment ne first) {
        if (!walk(segment, 0, segment.slots, visit)) return false
        segment = segmentHere
      }
      walk(first, 0, start, visit)
    }

    private def segmentHere: Segment = directory(indexOf(at.toInt))

    private def walk(
        segment: Segment, from: Int, until: Int, visit: SweepVisitor): Boolean = {
      var slot = from
      var goesOn = true
      if (segment.resident == 0) slot = until
      while (goesOn && slot < until) {
        val word = segment.wordAt(slot)
        if (word.isRecord) goesOn = visit(segment.hashAt(slot), word.record, segment.stampAt(slot))
        slot += 1
      }
      if (segment.resident > 0) passed += slot - from
      val span = 1L << (32 - segment.depth)
      at = (at / span * span + ((slot.toLong << 32) / segment.slots >>> segment.depth)) & 0xffffffffL
      goesOn
    }

    /** The first slot that the hand has not passed. */
    private def slotIn(segment: Segment): Int = {
      val fraction = (at << segment.depth) & 0xffffffffL
      ((fraction * segment.slots + 0xffffffffL) >>> 32).toInt
    }
  }

  /** After a `find` of this hash that found nothing. */
  private def insert(segment: Segment, hash: Int, record: Record): Unit = {
    if (!segment.isFull) {
      segment.insertAtPosition(hash, record)
    } else {
      grow(segment, hash)
      val target = directory(indexOf(hash))
      target.seek(hash)
      insert(target, hash, record)
    }
  }

  private def grow(segment: Segment, hash: Int): Unit =
    if (segment.mustSplit) split(segment, hash) else segment.makeRoom()

  /**
   * The segment that has this hash. A look-up may put an entry into it that it finds in its base, so
   * there is room for one.
   */
  private def segmentOf(hash: Int): Segment = {
    var segment = directory(indexOf(hash))
    while (segment.slotFile != null && segment.isFull) {
      grow(segment, hash)
      segment = directory(indexOf(hash))
    }
    segment
  }

  private def split(segment: Segment, hash: Int): Unit = {
    val (low, high) = segment.split()
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

  private def newSegment(depth: Int, lowest: Int, capacity: Int): Segment =
    new Segment(budget, depth, lowest, capacity, cold, epoch)

  // Two shifts: a shift by 32, at depth 0, would be none at all.
  private def indexOf(hash: Int): Int = (hash >>> 1) >>> (31 - depth)

  override def hashOf(base: AnyRef, offset: Long, length: Int): Int =
    HashLayout.hashOf(base, offset, length)
}

object HashLayout {
  /** More entries are not between an entry and its place in the order of hashes (`copyTo`). */
  val LargestSegment: Int = Segment.MaximumCapacity

  /** Of the store's share: a table that takes more is not made in its final size. */
  private val ReservedPart = 8
  private val EnoughToCount = 1L << 17
  private val Seed = 0x7461696c72616365L

  /** The hash of a key, by which its entry can be named together with its word. */
  def hashOf(base: AnyRef, offset: Long, length: Int): Int = {
    val hash =
      if ((length & 7) == 0) XXH64.hashUnsafeWords(base, offset, length, Seed)
      else XXH64.hashUnsafeBytes(base, offset, length, Seed)
    val top = (hash >>> 32).toInt
    if (top == Segment.Empty) 1 else top
  }
}
