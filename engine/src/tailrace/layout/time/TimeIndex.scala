package tailrace.layout.time

import scala.collection.mutable.LongMap

import tailrace.layout.{Cursor, Record}
import tailrace.memory.{AddressList, Budget}

/**
 * Problem: a closed window's rows must be found without looking at those of the open ones, for
 * every operator: their time may be in the key or in the value, may change with an update, and the
 * records may lie in a hash table or in a sorted one.
 *
 * Answer: buckets of about a second, each a list of the records that fall due in it. A record knows
 * its place in its bucket's list (its tail, see [[Record]]), so that an update takes over the place
 * of what it replaces and a removal fills its place with the list's last record: a few instructions
 * each, and no list ever has a hole. More than [[TimeIndex.MostBuckets]] make buckets wider.
 *
 * Invariants: every record of the family that has a time is in exactly one bucket, at the place
 * that its tail names; a record without one has the tail -1 and is in none.
 */
final class TimeIndex(val column: TimeColumn, budget: Budget) {
  import TimeIndex._

  private var width = column.width
  private var buckets = LongMap.empty[AddressList]
  /** By bucket, references to records that are not in memory; some have come back since. */
  private var awayBuckets = LongMap.empty[AddressList]
  // The bucket used last: neighbours in a batch often fall due together.
  private var lastId = 0L
  private var lastBucket: AddressList = null

  def overheadBytes: Long = {
    var total = 0L
    buckets.foreachValue(total += _.reservedBytes)
    awayBuckets.foreachValue(total += _.reservedBytes)
    total
  }

  def bucketCount: Int = buckets.size

  def add(record: Long): Unit = {
    val time = column.of(record)
    if (time == TimeColumn.Never) Record.setTail(record, Nowhere) else append(bucketOf(time), record)
  }

  def remove(record: Long): Unit = if (Record.tail(record) != Nowhere) {
    val id = column.of(record) >> width
    val bucket = existing(id)
    val place = Record.tail(record)
    val last = bucket.removeLast()
    if (last != record) {
      bucket(place) = last
      Record.setTail(last, place)
    }
    if (bucket.size == 0) drop(id, bucket)
  }

  /** `made` takes the place of `replaced`, which has the same key. */
  def replace(replaced: Long, made: Long): Unit = {
    val place = Record.tail(replaced)
    val time = column.of(made)
    val stays = place != Nowhere && time != TimeColumn.Never &&
      (column.inKey || (column.of(replaced) >> width) == (time >> width))
    if (stays) {
      existing(time >> width)(place) = made
      Record.setTail(made, place)
    } else {
      remove(replaced)
      add(made)
    }
  }

  /** The record has moved, as it is, to another address. */
  def relocate(from: Long, to: Long): Unit = {
    val place = Record.tail(from)
    Record.setTail(to, place)
    if (place != Nowhere) existing(column.of(to) >> width)(place) = to
  }

  /**
   * The records whose time is not after `upTo`, earliest bucket first. Changes made while the
   * cursor moves are allowed: it does not show a record that was replaced or removed meanwhile.
   */
  def dueCursor(upTo: Long): Cursor = new Cursor {
    private val ids = buckets.keysIterator.filter(_ <= (upTo >> width)).toArray.sorted
    private var nextId = 0
    private var records = Array.emptyLongArray
    private var at = 0

    override def next(): Long = {
      while (true) {
        while (at < records.length) {
          val record = records(at)
          at += 1
          if (isCurrent(record)) return record
        }
        if (nextId == ids.length) return 0L
        records = load(ids(nextId))
        at = 0
        nextId += 1
      }
      0L
    }

    /** The last first: what is removed as it is shown then leaves no gap to be filled. */
    private def load(id: Long): Array[Long] = {
      val bucket = buckets.getOrNull(id)
      if (bucket == null) return Array.emptyLongArray
      val found = wordsIn(bucket).reverse
      // Records of a bucket that is over need not be looked at.
      if (id < (upTo >> width)) found else found.filter(column.of(_) <= upTo)
    }

    private def isCurrent(record: Long): Boolean = {
      val bucket = buckets.getOrNull(column.of(record) >> width)
      val place = Record.tail(record)
      bucket != null && place < bucket.size && bucket(place) == record
    }
  }

  // ---- what is not in memory, and what may leave it

  /** The record is no longer in memory, but there. */
  def goesAway(record: Long, ref: Long): Unit = {
    remove(record)
    away(column.of(record), ref)
  }

  def away(time: Long, ref: Long): Unit = if (time != TimeColumn.Never) {
    awayBuckets.getOrElseUpdate(time >> width, new AddressList(budget, FirstCapacity)).add(ref)
  }

  /** All references in buckets up to this time's. They are then not in the index any more. */
  def takeAway(upTo: Long): Array[Long] = {
    val ids = awayBuckets.keysIterator.filter(_ <= (upTo >> width)).toArray
    ids.flatMap { id =>
      val refs = wordsIn(awayBuckets(id))
      awayBuckets(id).close()
      awayBuckets -= id
      refs
    }
  }

  def has(record: Long): Boolean = Record.tail(record) != Nowhere

  /** The records in memory that have a time, by bucket. Nothing may change meanwhile but places. */
  def earliestFirst(): Iterator[Long] = inOrder(buckets.keysIterator.toArray.sorted)

  def latestFirst(): Iterator[Long] = inOrder(buckets.keysIterator.toArray.sorted.reverse)

  private def inOrder(ids: Array[Long]): Iterator[Long] =
    ids.iterator.flatMap(id => wordsIn(buckets(id)))

  private def wordsIn(bucket: AddressList): Array[Long] = {
    val words = new Array[Long](bucket.size.toInt)
    words.indices.foreach(place => words(place) = bucket(place.toLong))
    words
  }

  /** Called between batches, when no cursor moves. */
  def settle(): Unit = while (buckets.size > MostBuckets) widen()

  def close(): Unit = {
    buckets.foreachValue(_.close())
    awayBuckets.foreachValue(_.close())
    awayBuckets = LongMap.empty
    buckets = LongMap.empty
    lastBucket = null
  }

  private def append(bucket: AddressList, record: Long): Unit = {
    Record.setTail(record, bucket.size)
    bucket.add(record)
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
          append(wider, bucket(place))
          place += 1
        }
        bucket.close()
      }
    }
    val awayBefore = awayBuckets
    awayBuckets = LongMap.empty
    awayBefore.foreach { case (id, bucket) =>
      wordsIn(bucket).foreach(ref => awayBuckets
        .getOrElseUpdate(id >> WidenBy, new AddressList(budget, FirstCapacity)).add(ref))
      bucket.close()
    }
  }
}

object TimeIndex {
  /** The tail of a record that never falls due. */
  private val Nowhere = -1L
  private val FirstCapacity = 8L
  private val WidenBy = 2
  private[tailrace] val MostBuckets = 4096
}
