package tailrace.layout.hash

import org.apache.spark.unsafe.Platform

import tailrace.cold.{ColdRef, ColdSlots, RefVisitor, SlotEntries}
import tailrace.layout.{ColdRecords, Epoch, Record, SlotWord, WordVisitor}
import tailrace.memory.Budget

/**
 * One piece of the hash table: open addressing with linear probing, 12 bytes a slot in two arrays.
 *
 * {{{
 *   segment := hash(u32; 0 is empty)*  word(u64, see SlotWord)*
 * }}}
 *
 * A probe walks over the hashes, sixteen to a cache line; the word is read where they agree, and
 * the record's key decides. Hashes are in the slots, so a segment grows or splits without touching
 * a record. The `depth` top bits are the same for all entries (the directory finds the segment by
 * them); the bits after them, as a fraction of the capacity, give an entry's home. So entries are in
 * the order of their hashes but for those that had to step aside, and capacities need not be powers of
 * two. How full slots may be depends on memory: 0.65 while it is ample, because probes are short then;
 * 0.85 afterwards.
 *
 * A removal moves the entries behind it back, so that no probe ever walks over removed ones.
 *
 * When slots were spilled (RFC 13), `base` is the file that has them. An entry is in the slots, or it
 * is in the base and its reference is live: a look-up goes to the slots first, and an entry that is
 * fetched from the base is in the slots from then on.
 *
 * @param lowest    the smallest hash that an entry of this segment can have
 * @param overdraws whether the first slots are made in any case: larger ones are freed for them
 */
private[hash] final class Segment(
    budget: Budget, val depth: Int, val lowest: Int, firstCapacity: Int, cold: ColdRecords,
    epoch: Epoch, overdraws: Boolean = false) {
  import Segment._

  private var capacity = firstCapacity
  private var hashes = allocate(firstCapacity, overdraws)
  private var words = hashes + wordsOffset(firstCapacity)
  private var live = 0
  private var inMemory = 0
  private var base: ColdSlots = null

  /** The slot that the last `find` stopped at: the entry's, or where it would go. */
  private var position = 0

  /** Entries whose record is in memory. */
  def resident: Int = inMemory

  /** Slots in memory that have a reference. */
  def coldSlots: Int = live - inMemory

  /** The file with the slots that were spilled, or null. */
  def slotFile: ColdSlots = base

  /** The largest hash that an entry of this segment can have. */
  def highest: Int = (lowest.toLong | 0xffffffffL >>> depth).toInt

  def slots: Int = capacity

  def bytes: Long = bytesOf(capacity) +
    (if (base == null) 0L else base.memoryBytes / math.max(1, base.ownerCount))

  def find(hash: Int, keyBase: AnyRef, keyOffset: Long, keyLength: Int): Record = {
    var index = homeOf(hash)
    while (true) {
      val found = Platform.getInt(null, hashes + (index.toLong << 2))
      if (found == hash) {
        val stored = storedAt(index)
        val record =
          if (stored < 0L) fetch(index, new SlotWord(stored).ref) else SlotWord.unstamped(stored).record
        if (record.keyEquals(keyBase, keyOffset, keyLength)) {
          epoch.touch(record)
          if (stored >= 0L) {
            epoch.clock.hits += 1
            if (SlotWord.stampOf(stored) < epoch.clock.stamp) putWord(index, record.word)
          }
          position = index
          return record
        }
      } else if (found == Empty) {
        position = index
        return if (base == null) Record.None else findInBase(hash, keyBase, keyOffset, keyLength)
      }
      index += 1
      if (index == capacity) index = 0
    }
    Record.None
  }

  /** There is room for it: see `HashLayout.segmentOf`. */
  private def findInBase(hash: Int, keyBase: AnyRef, keyOffset: Long, keyLength: Int): Record = {
    if (!base.mayHave(hash)) return Record.None
    val record = cold.fetchFrom(base, hash, keyBase, keyOffset, keyLength)
    if (record.exists) put(position, hash, record.word)
    record
  }

  /** Makes the next insertion of this hash, whose key is in no slot, one that needs no `find`. */
  def seek(hash: Int): Unit = position = emptySlotFor(hash)

  private def emptySlotFor(hash: Int): Int = {
    var index = homeOf(hash)
    while (hashAt(index) != Empty) {
      index += 1
      if (index == capacity) index = 0
    }
    index
  }

  private def fetch(index: Int, ref: ColdRef): Record = {
    val record = cold.fetch(ref)
    putWord(index, record.word)
    inMemory += 1
    record
  }

  /** The slot that has this word, or -1. Nothing is fetched, and nothing counts as used. */
  def slotOf(hash: Int, word: SlotWord): Int = {
    var index = homeOf(hash)
    while (true) {
      val found = Platform.getInt(null, hashes + (index.toLong << 2))
      if (found == hash && wordAt(index) == word) return index
      if (found == Empty) return -1
      index += 1
      if (index == capacity) index = 0
    }
    -1
  }

  /**
   * The references among the entries with this hash. Nothing is fetched; records in memory get the
   * stamp if theirs is older. Whether a slot has an entry with this hash.
   */
  def expectAt(hash: Int, stamp: Int, visit: RefVisitor): Boolean = {
    var index = homeOf(hash)
    var found = hashAt(index)
    var isThere = false
    while (found != Empty) {
      if (found == hash) {
        isThere = true
        val word = wordAt(index)
        if (word.isCold) visit(word.ref)
        else if (stampAt(index) < stamp) putStored(index, SlotWord.stamped(word, stamp))
      }
      index += 1
      if (index == capacity) index = 0
      found = hashAt(index)
    }
    isThere
  }

  def hashAt(index: Int): Int = Platform.getInt(null, hashes + (index.toLong << 2))

  def wordAt(index: Int): SlotWord = SlotWord.unstamped(storedAt(index))

  def stampAt(index: Int): Int = SlotWord.stampOf(storedAt(index))

  /** Entries keep their stamps when they move. */
  private def storedAt(index: Int): Long = Platform.getLong(null, words + (index.toLong << 3))

  private def putStored(index: Int, stored: Long): Unit =
    Platform.putLong(null, words + (index.toLong << 3), stored)

  /** A record is used now. */
  private def putWord(index: Int, word: SlotWord): Unit =
    putStored(index, SlotWord.stamped(word, epoch.clock.stamp))

  /** Gives every record in memory the stamp that takes the place of its own. */
  def restamp(renamed: Array[Int]): Unit = {
    var index = 0
    while (index < capacity) {
      val word = wordAt(index)
      if (word.isRecord) putStored(index, SlotWord.stamped(word, renamed(stampAt(index))))
      index += 1
    }
  }

  /** Counts the records in memory by their stamps. */
  def countStamps(counts: Array[Int]): Unit = if (inMemory > 0) {
    var index = 0
    while (index < capacity) {
      if (wordAt(index).isRecord) counts(stampAt(index)) += 1
      index += 1
    }
  }

  /** Whether the base has this entry. */
  def isInBase(word: SlotWord): Boolean = base != null && word.isCold && cold.isLive(word.ref)

  /** The same entry under another word. A record that was copied keeps its stamp. */
  def setWord(index: Int, word: SlotWord): Unit = {
    val wasRecord = wordAt(index).isRecord
    if (!wasRecord) inMemory += 1
    if (word.isCold) inMemory -= 1
    if (wasRecord) putStored(index, SlotWord.stamped(word, stampAt(index))) else putWord(index, word)
  }

  /** After a `find` that found the entry. */
  def replaceFound(record: Record): Unit = putWord(position, record.word)

  /** After a `find` that did not find the entry. */
  def insertAtPosition(hash: Int, record: Record): Unit = put(position, hash, record.word)

  /** After a `find` that found the entry. */
  def removeFound(): Unit = {
    live -= 1
    inMemory -= 1
    var gap = position
    var index = gap
    while (true) {
      index += 1
      if (index == capacity) index = 0
      val hash = hashAt(index)
      if (hash == Empty) {
        Platform.putInt(null, hashes + (gap.toLong << 2), Empty)
        putStored(gap, SlotWord.Empty.raw)
        return
      }
      // An entry may go back as far as its home, counted round the end of the segment.
      val home = homeOf(hash)
      val fromHome = if (index >= home) index - home else index - home + capacity
      val fromGap = if (index >= gap) index - gap else index - gap + capacity
      if (fromHome >= fromGap) {
        Platform.putInt(null, hashes + (gap.toLong << 2), hash)
        putStored(gap, storedAt(index))
        gap = index
      }
    }
  }

  /** Whether one more entry needs room to be made first. */
  def isFull: Boolean = (live + 1) * Density.Parts > capacity * density(budget).largest

  /** Whether making room means to split. */
  def mustSplit: Boolean = largerCapacity > maximumCapacity(budget)

  private def largerCapacity: Int = math.max(capacity + 4, capacityFor(live + 1L, budget))

  /** Makes room in place. */
  def makeRoom(): Unit = {
    val (hashesBefore, wordsBefore, before) = (hashes, words, capacity)
    val larger = largerCapacity
    hashes = allocate(larger, overdrawing = false)
    words = hashes + wordsOffset(larger)
    capacity = larger
    live = 0
    inMemory = 0
    var index = 0
    while (index < before) {
      val stored = Platform.getLong(null, wordsBefore + (index.toLong << 3))
      if (stored != 0L) insertStored(Platform.getInt(null, hashesBefore + (index.toLong << 2)), stored)
      index += 1
    }
    Platform.freeMemory(hashesBefore)
    budget.release(bytesOf(before))
  }

  /** Two segments of one depth more: entries whose next hash bit is 0, and those with 1. */
  def split(): (Segment, Segment) = {
    val half = capacityFor(live / 2 + 1L, budget)
    var low, high: Segment = null
    try {
      low = new Segment(budget, depth + 1, lowest, half, cold, epoch)
      high = new Segment(budget, depth + 1, lowest | 1 << (31 - depth), half, cold, epoch)
      splitInto(low, high)
    } catch {
      case error: Throwable => // memory is at its end; this segment is as it was
        Seq(low, high).filter(_ != null).foreach(_.release())
        throw error
    }
    if (base != null) Seq(low, high).foreach(_.base = base.share())
    release()
    (low, high)
  }

  private def splitInto(low: Segment, high: Segment): Unit = {
    var index = 0
    while (index < capacity) {
      val stored = storedAt(index)
      if (stored != 0L) {
        val hash = hashAt(index)
        val target = if ((hash << depth) >= 0) low else high
        if (target.isFull) target.makeRoom()
        target.insertStored(hash, stored)
      }
      index += 1
    }
  }

  /** The words in memory. */
  def foreachWord(visit: WordVisitor): Unit = {
    var index = 0
    while (index < capacity) {
      val word = wordAt(index)
      if (!word.isEmpty) visit(word)
      index += 1
    }
  }

  /** The words in the base. */
  def foreachInBase(visit: WordVisitor): Unit = if (base != null) {
    base.foreach(lowest, highest)((_, ref) => if (cold.isLive(ref)) visit(SlotWord.of(ref)))
  }

  // ---- slots that are spilled

  def isReleased: Boolean = hashes == 0L

  /** The references in memory. */
  def copyCold(entries: SlotEntries): Unit = {
    var index = 0
    while (index < capacity) {
      val word = wordAt(index)
      if (word.isCold) entries.add(hashAt(index), word.ref)
      index += 1
    }
  }

  /**
   * The file has these entries, which need no slots any more unless they have changed. Null: no entry
   * is left that was written.
   */
  def replaceBase(written: SlotEntries, slots: ColdSlots): Unit = {
    def stays(index: Int): Boolean = {
      val word = wordAt(index)
      !word.isEmpty && !(word.isCold && written.contains(hashAt(index), word.ref))
    }
    var kept = 0
    var index = 0
    while (index < capacity) {
      if (stays(index)) kept += 1
      index += 1
    }
    val smaller = new Segment(
      budget, depth, lowest, capacityFor(kept + 1L, budget), cold, epoch, overdraws = true)
    index = 0
    while (index < capacity) {
      if (stays(index)) smaller.insertStored(hashAt(index), storedAt(index))
      index += 1
    }
    if (slots != null) budget.overdraw(slots.memoryBytes)
    release()
    hashes = smaller.hashes
    words = smaller.words
    capacity = smaller.capacity
    live = smaller.live
    inMemory = smaller.inMemory
    base = slots
  }

  def release(): Unit = if (hashes != 0L) {
    Platform.freeMemory(hashes)
    budget.release(bytesOf(capacity))
    hashes = 0L
    words = 0L
    if (base != null) {
      val held = base
      base = null
      if (held.release()) budget.release(held.memoryBytes)
    }
  }

  /** Inserts a key that is certainly not there, where there is room. */
  def insertNew(hash: Int, word: SlotWord): Unit = put(emptySlotFor(hash), hash, word)

  /** The same as it is in another segment, with its stamp. */
  private def insertStored(hash: Int, stored: Long): Unit = {
    val index = emptySlotFor(hash)
    put(index, hash, SlotWord.unstamped(stored))
    putStored(index, stored)
  }

  /** Where entries of this hash would be if no other was in their way. */
  def homeOf(hash: Int): Int = ((((hash << depth) & 0xffffffffL) * capacity) >>> 32).toInt

  private def put(index: Int, hash: Int, word: SlotWord): Unit = {
    Platform.putInt(null, hashes + (index.toLong << 2), hash)
    putWord(index, word)
    live += 1
    if (!word.isCold) inMemory += 1
  }

  private def allocate(slots: Int, overdrawing: Boolean): Long = {
    val size = bytesOf(slots)
    if (overdrawing) budget.overdraw(size) else budget.reserve(size)
    val address = Platform.allocateMemory(size)
    Platform.setMemory(address, 0.toByte, size)
    address
  }
}

private[hash] object Segment {
  val Empty = 0
  private val SlotBytes = 12L
  /** The cost of one split is bounded, whatever the table's size. */
  val MaximumCapacity: Int = 1 << 16
  private val LeastMaximum = 1 << 10
  /** Of the store's share: a split, and the slots that one file takes, are small beside it. */
  private val SharePart = 64

  def maximumCapacity(budget: Budget): Int = {
    val ofShare = budget.share / SharePart / SlotBytes
    math.max(LeastMaximum.toLong, math.min(MaximumCapacity.toLong, ofShare)).toInt
  }
  val InitialCapacity = 16

  /** The part of the slots that entries use, in twentieths: of new slots, and before there are more. */
  private final class Density(val first: Long, val largest: Long)

  private object Density {
    val Parts = 20L
    val Fast = new Density(first = 9, largest = 13)
    val Small = new Density(first = 14, largest = 17)
  }

  private def density(budget: Budget): Density =
    if (budget.isAmple) Density.Fast else Density.Small

  /** What new slots take for an entry. */
  def bytesAnEntry(budget: Budget): Long = SlotBytes * Density.Parts / density(budget).first

  /** Entries with which a segment of the largest size still has room for growth. */
  def comfortableSize(budget: Budget): Long =
    maximumCapacity(budget) * density(budget).first / Density.Parts

  /** The capacity that holds this many entries with room for growth. */
  def capacityFor(entries: Long, budget: Budget): Int =
    math.max(InitialCapacity.toLong, entries * Density.Parts / density(budget).first + 1).toInt

  private def wordsOffset(slots: Int): Long = ((slots + 1L) & ~1L) << 2

  private def bytesOf(slots: Int): Long = wordsOffset(slots) + (slots.toLong << 3)
}
