package tailrace.layout.hash

import org.apache.spark.unsafe.Platform

import tailrace.cold.ColdRef
import tailrace.layout.{Away, Record}
import tailrace.memory.Budget

/**
 * One piece of the hash table: open addressing with linear probing over slots of 16 bytes.
 *
 * {{{ slot := hash(u64) record(u64; 0 is empty, 1 is a removed entry, or a ColdRef) }}}
 *
 * The whole hash is in the slot, so a segment grows or splits without touching a record.
 * `depth` top bits of the hash are the same for all entries; the directory finds the segment by
 * them. A record that has left memory is brought back by the look-up that has to compare its key.
 */
private[hash] final class Segment(
    budget: Budget, val depth: Int, initialCapacity: Int, away: Away) {
  import Segment._

  private var base = allocate(initialCapacity)
  private var mask = initialCapacity - 1
  private var live = 0
  private var occupied = 0 // live entries and removed ones: what a probe has to walk over

  /** The slot that the last `find` stopped at: the entry's, or where it would go. */
  private var position = 0L

  def size: Int = live

  def bytes: Long = (mask + 1L) * SlotSize

  def find(hash: Long, keyBase: AnyRef, keyOffset: Long, keyLength: Int): Long = {
    var index = hash.toInt & mask
    var reusable = 0L
    while (true) {
      val slot = base + (index.toLong << 4)
      val record = Platform.getLong(null, slot + 8)
      if (record == Empty) {
        position = if (reusable != 0L) reusable else slot
        return 0L
      } else if (record == Removed) {
        if (reusable == 0L) reusable = slot
      } else if (Platform.getLong(null, slot) == hash) {
        val found = if (ColdRef.isCold(record)) bringBack(slot, record) else record
        if (Record.keyEquals(found, keyBase, keyOffset, keyLength)) {
          position = slot
          return found
        }
      }
      index = (index + 1) & mask
    }
    0L
  }

  private def bringBack(slot: Long, ref: Long): Long = {
    val record = away.bringBack(ref)
    Platform.putLong(null, slot + 8, record)
    record
  }

  /** The slot that has this word, or 0. Nothing is brought back. */
  def slotOf(hash: Long, word: Long): Long = {
    var index = hash.toInt & mask
    while (true) {
      val slot = base + (index.toLong << 4)
      val found = Platform.getLong(null, slot + 8)
      if (found == word) return slot
      if (found == Empty) return 0L
      index = (index + 1) & mask
    }
    0L
  }

  /** After a `find` that found the entry. */
  def replaceFound(record: Long): Unit = Platform.putLong(null, position + 8, record)

  /** After a `find` that did not find the entry. */
  def insertAtPosition(hash: Long, record: Long): Unit = {
    if (Platform.getLong(null, position + 8) == Empty) occupied += 1
    Platform.putLong(null, position, hash)
    Platform.putLong(null, position + 8, record)
    live += 1
  }

  /** After a `find` that found the entry. */
  def removeFound(): Unit = {
    // A removed entry before an empty slot stops no probe: it can be empty at once.
    val following = base + ((((position - base) >> 4).toInt + 1) & mask).toLong * SlotSize
    if (Platform.getLong(null, following + 8) == Empty) {
      Platform.putLong(null, position + 8, Empty)
      occupied -= 1
    } else {
      Platform.putLong(null, position + 8, Removed)
    }
    live -= 1
  }

  /** Whether one more entry needs room to be made first. */
  def isFull: Boolean = (occupied + 1) * 4L > (mask + 1L) * 3L

  /** Whether making room means to split: twice the live entries would be too large a segment. */
  def mustSplit: Boolean = live * 2L + 2 > MaximumCapacity

  /** Makes room in place: drops removed entries, doubles if more than half is live. */
  def makeRoom(): Unit = {
    val capacity = capacityFor(live * 4L / 3 + 1)
    val entries = snapshotSlots()
    val larger = allocate(capacity)
    release()
    base = larger
    mask = capacity - 1
    occupied = 0
    live = 0
    var index = 0
    while (index < entries.length) {
      insertNew(entries(index), entries(index + 1))
      index += 2
    }
  }

  /** Two segments of one depth more: entries whose next hash bit is 0, and those with 1. */
  def split(): (Segment, Segment) = {
    val capacity = mask + 1
    val low = new Segment(budget, depth + 1, capacity, away)
    val high = new Segment(budget, depth + 1, capacity, away)
    val entries = snapshotSlots()
    var index = 0
    while (index < entries.length) {
      val hash = entries(index)
      val target = if (((hash << depth) >>> 63) == 0L) low else high
      target.insertNew(hash, entries(index + 1))
      index += 2
    }
    release()
    (low, high)
  }

  def foreachSlot(visit: Long => Unit): Unit = {
    var index = 0L
    while (index <= mask) {
      val slot = base + (index << 4)
      if ((Platform.getLong(null, slot + 8) & ~Removed) != Empty) visit(slot)
      index += 1
    }
  }

  def release(): Unit = if (base != 0L) {
    Platform.freeMemory(base)
    budget.release(bytes)
    base = 0L
  }

  /** Inserts a key that is certainly not there, where there is room. */
  def insertNew(hash: Long, record: Long): Unit = {
    var index = hash.toInt & mask
    while (Platform.getLong(null, base + (index.toLong << 4) + 8) != Empty) {
      index = (index + 1) & mask
    }
    val slot = base + (index.toLong << 4)
    Platform.putLong(null, slot, hash)
    Platform.putLong(null, slot + 8, record)
    live += 1
    occupied += 1
  }

  private def snapshotSlots(): Array[Long] = {
    val entries = new Array[Long](live * 2)
    var filled = 0
    foreachSlot { slot =>
      entries(filled) = Platform.getLong(null, slot)
      entries(filled + 1) = Platform.getLong(null, slot + 8)
      filled += 2
    }
    entries
  }

  private def allocate(capacity: Int): Long = {
    val size = capacity * SlotSize
    budget.reserve(size)
    val address = Platform.allocateMemory(size)
    Platform.setMemory(address, 0.toByte, size)
    address
  }
}

private[hash] object Segment {
  private val Empty = 0L
  private val Removed = 1L
  private val SlotSize = 16L
  /** A megabyte of slots: what one split costs is bounded, whatever the table's size. */
  private val MaximumCapacity = 1 << 16
  val InitialCapacity = 16
  /** Entries with which a segment of the largest size still has room for growth. */
  val ComfortableSize: Long = MaximumCapacity / 2

  /** The smallest capacity that holds this many entries at two thirds at the most. */
  def capacityFor(entries: Long): Int = {
    var capacity = InitialCapacity
    while (capacity * 2L < entries * 3L) capacity <<= 1
    capacity
  }

  def recordAt(slot: Long): Long = Platform.getLong(null, slot + 8)

  def moveRecord(slot: Long, record: Long): Unit = Platform.putLong(null, slot + 8, record)
}
