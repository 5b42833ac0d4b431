package tailrace.layout.time

import scala.collection.mutable.LongMap

import tailrace.cold.{ColdRef, ColdRefs, RefTest}
import tailrace.layout.{Cursor, Epoch, Record, Records}
import tailrace.memory.{AddressList, Budget}

/**
 * Problem: a closed window's rows must be found without looking at those of the open ones, for
 * every operator: their time may be in the key or in the value, may change with an update, and the
 * records may lie in a hash table or in a sorted one.
 *
 * Answer: buckets of about a second, each a list of the records that expire in it. A record knows
 * its place in its bucket's list (its tail, see [[Record]]), so that an update takes over the place
 * of the old record and a removal fills its place with the list's last record: a few instructions
 * each, and no list ever has a hole. More than [[TimeIndex.MostBuckets]] make buckets wider.
 *
 * Invariants: every record of the family that has a time is in exactly one bucket, at the place
 * that its tail names; a record without one has the tail -1 and is in none.
 */
final class TimeIndex(val column: TimeColumn, budget: Budget, epoch: Epoch) {
  import TimeIndex._

  private var width = column.width
  private var buckets = LongMap.empty[AddressList]
  /** By bucket, references to records that were spilled; some have been fetched or moved since. */
  private var coldBuckets = LongMap.empty[AddressList]
  private var coldWords = 0L
  // The bucket used last: neighbours in a batch often expire together.
  private var lastId = 0L
  private var lastBucket: AddressList = null

  def overheadBytes: Long = {
    var total = 0L
    buckets.foreachValue(total += _.reservedBytes)
    coldBuckets.foreachValue(total += _.reservedBytes)
    total
  }

  def bucketCount: Int = buckets.size

  def add(record: Record): Unit = {
    val time = column.of(record)
    if (time == TimeColumn.Never) record.setTail(Nowhere) else append(bucketOf(time), record)
  }

  def remove(record: Record): Unit = if (record.tail != Nowhere) {
    val id = column.of(record) >> width
    val bucket = existing(id)
    val place = record.tail
    val last = new Record(bucket.removeLast())
    if (last != record) {
      bucket(place) = last.address
      last.setTail(place)
    }
    if (bucket.size == 0) drop(id, bucket)
  }

  /** `made` takes the place of `replaced`, which has the same key. */
  def replace(replaced: Record, made: Record): Unit = {
    val place = replaced.tail
    val time = column.of(made)
    val stays = place != Nowhere && time != TimeColumn.Never &&
      (column.inKey || (column.of(replaced) >> width) == (time >> width))
    if (stays) {
      existing(time >> width)(place) = made.address
      made.setTail(place)
    } else {
      remove(replaced)
      add(made)
    }
  }

  /** The record has moved, as it is, to another address. */
  def relocate(from: Record, to: Record): Unit = {
    val place = from.tail
    to.setTail(place)
    if (place != Nowhere) existing(column.of(to) >> width)(place) = to.address
  }

  /**
   * The records whose time is not after `upTo`, earliest bucket first. Changes made while the
   * cursor moves are allowed: it does not show a record that was replaced or removed meanwhile.
   */
  def dueCursor(upTo: Long): Cursor = new Cursor {
    private val ids = buckets.keysIterator.filter(_ <= (upTo >> width)).toArray.sorted
    private var nextId = 0
    private var records = Records.Empty
    private var at = 0

    override def next(): Record = {
      while (true) {
        while (at < records.length) {
          val record = records(at)
          at += 1
          if (isCurrent(record)) return record
        }
        if (nextId == ids.length) return Record.None
        records = load(ids(nextId))
        at = 0
        nextId += 1
      }
      Record.None
    }

    /** The last first: a record that is removed as it is shown then leaves no gap to be filled. */
    private def load(id: Long): Records = {
      val bucket = buckets.getOrNull(id)
      if (bucket == null) return Records.Empty
      val found = wordsIn(bucket).reverse
      // Records of a bucket that is over need not be looked at.
      new Records(
        if (id < (upTo >> width)) found
        else found.filter(address => column.of(new Record(address)) <= upTo))
    }

    private def isCurrent(record: Record): Boolean = {
      val bucket = buckets.getOrNull(column.of(record) >> width)
      val place = record.tail
      bucket != null && place < bucket.size && bucket(place) == record.address
    }
  }

  // ---- spilled records, and records that may be spilled

  /** Records that are due at `upTo` count as used: they are shown before the batch is over. */
  def touchDue(upTo: Long): Unit = buckets.foreach { case (id, bucket) =>
    if (id <= (upTo >> width)) recordsIn(bucket).foreach(epoch.touch)
  }

  /** The record is no longer in memory, but there. */
  def spilled(record: Record, ref: ColdRef): Unit = {
    remove(record)
    addCold(column.of(record), ref)
  }

  def addCold(time: Long, ref: ColdRef): Unit = if (time != TimeColumn.Never) {
    coldBucket(time >> width).add(ref.raw)
    coldWords += 1
  }

  /** All references in buckets up to this time's. They are then not in the index any more. */
  def takeCold(upTo: Long): ColdRefs = {
    val ids = coldBuckets.keysIterator.filter(_ <= (upTo >> width)).toArray
    new ColdRefs(ids.flatMap { id =>
      val refs = wordsIn(coldBuckets(id))
      coldBuckets(id).close()
      coldBuckets -= id
      coldWords -= refs.length
      refs
    })
  }

  /** How many references there are, those included that are not valid any more. */
  def coldSize: Long = coldWords

  /** Forgets references that are not valid any more. */
  def pruneCold(isLive: RefTest): Unit = {
    val before = coldBuckets
    coldBuckets = LongMap.empty
    coldWords = 0L
    before.foreach { case (id, bucket) =>
      wordsIn(bucket).foreach { word =>
        if (isLive(new ColdRef(word))) {
          coldBucket(id).add(word)
          coldWords += 1
        }
      }
      bucket.close()
    }
  }

  private def coldBucket(id: Long): AddressList =
    coldBuckets.getOrElseUpdate(id, new AddressList(budget, FirstCapacity, mayOverdraw = true))

  def has(record: Record): Boolean = record.tail != Nowhere

  /** The records in memory that have a time, by bucket. Nothing may change meanwhile but places. */
  def earliestFirst(): Cursor = {
    val addresses = buckets.keysIterator.toArray.sorted.iterator.flatMap(id => wordsIn(buckets(id)))
    () => if (addresses.hasNext) new Record(addresses.next()) else Record.None
  }

  /** The buckets up to this one, latest first, with their records. */
  def bucketsUpTo(id: Long): Iterator[(Long, Records)] =
    buckets.keysIterator.filter(_ <= id).toArray.sorted.reverseIterator
      .map(each => each -> recordsIn(buckets(each)))

  private def recordsIn(bucket: AddressList): Records = new Records(wordsIn(bucket))

  private def wordsIn(bucket: AddressList): Array[Long] = {
    val words = new Array[Long](bucket.size.toInt)
    words.indices.foreach(place => words(place) = bucket(place.toLong))
    words
  }

  /** Merges neighbours while there are too many buckets; called between batches, no cursor moves. */
  def mergeBuckets(): Unit =
    while (math.max(buckets.size, coldBuckets.size) > MostBuckets) widen()

  def close(): Unit = {
    buckets.foreachValue(_.close())
    coldBuckets.foreachValue(_.close())
    coldBuckets = LongMap.empty
    coldWords = 0L
    buckets = LongMap.empty
    lastBucket = null
  }

  private def append(bucket: AddressList, record: Record): Unit = {
    record.setTail(bucket.size)
    bucket.add(record.address)
  }

  private def bucketOf(time: Long): AddressList = {
    val id = time >> width
    if (existing(id) == null) {
      lastBucket = new AddressList(budget, FirstCapacity)
      buckets(id) = lastBucket
    }
    lastBucket
  }

  private def existing(id: Long): AddressList = {
    if (lastBucket == null || id != lastId) {
      lastBucket = buckets.getOrNull(id)
      lastId = id
    }
    lastBucket
  }

  private def drop(id: Long, bucket: AddressList): Unit = {
    bucket.close()
    buckets -= id
    lastBucket = null
  }

  private def widen(): Unit = {
    val before = buckets
    buckets = LongMap.empty
    lastBucket = null
    width += WidenBy
    before.foreach { case (id, bucket) =>
      val wider = buckets.getOrNull(id >> WidenBy)
      if (wider == null) {
        buckets(id >> WidenBy) = bucket
      } else {
        var place = 0L
        while (place < bucket.size) {
          append(wider, new Record(bucket(place)))
          place += 1
        }
        bucket.close()
      }
    }
    val coldBefore = coldBuckets
    coldBuckets = LongMap.empty
    coldBefore.foreach { case (id, bucket) =>
      wordsIn(bucket).foreach(word => coldBucket(id >> WidenBy).add(word))
      bucket.close()
    }
  }
}

object TimeIndex {
  /** The tail of a record that never expires. */
  private val Nowhere = -1L
  private val FirstCapacity = 8L
  private val WidenBy = 2
  private[tailrace] val MostBuckets = 4096
}
