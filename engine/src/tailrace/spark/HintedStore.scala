package tailrace.spark

import java.util.Arrays
import java.util.concurrent.Executor

import org.slf4j.LoggerFactory

import tailrace.cache.Origin
import tailrace.layout.UseClock
import tailrace.prefetch.HintBatch
import tailrace.store.{Family, StateTable}
import tailrace.versions.VersionedStore

/**
 * A store on the executor that owns it, and the hints that arrive for it: the two-stage buffer of
 * Keyed Prefetching (IV-C). Hints that were received are unprocessed; a thread takes them all,
 * each key once, as soon as no task uses the store, finds their references in its table, and has
 * [[tailrace.cache.PrefetchManager]] read them, which knows those that are in flight.
 *
 * A hint that comes when the task of its batch has begun is dropped: the task looks ahead itself, in
 * the order of its rows. A hint for another version than the one the store is at is stale; one for a
 * version that no batch can begin at yet is passed over, and those that are right still count.
 *
 * Invariant: hints change nothing but what is read ahead.
 */
private[spark] final class HintedStore(store: VersionedStore, threads: Executor, name: String) {
  import HintedStore._

  // Guarded by this.
  private var version = -1L
  private var unprocessed = Array.emptyIntArray
  private var count = 0
  private var isScheduled = false
  private var receivedCount, inTimeCount, lateCount, hotCount, droppedCount, byteCount = 0L
  private var lastMillis = 0L

  /** Keys of which hints were received, those that came in time, and those that did not. */
  def received: Long = synchronized(receivedCount)

  def inTime: Long = synchronized(inTimeCount)

  def late: Long = synchronized(lateCount)

  /** Keys that the senders left out because they are hot. */
  def hot: Long = synchronized(hotCount)

  /** Hints that could not be sent. */
  def dropped: Long = synchronized(droppedCount)

  /** Bytes of the messages. */
  def bytes: Long = synchronized(byteCount)

  /**
   * From the last hint for the batch that begins at this version to its first look-up, in
   * milliseconds; 0: there was no hint, or it came later.
   */
  def slackMillis(of: Long, began: Long): Long = synchronized {
    if (of == version && lastMillis > 0L && began > lastMillis) began - lastMillis else 0L
  }

  def take(hints: HintBatch): Unit = synchronized {
    val isPossible = store.mayBeginAt(hints.version)
    if (hints.version > version && isPossible) {
      version = hints.version
      lastMillis = 0L
      lateCount += count
      count = 0
    }
    receivedCount += hints.hashes.length
    hotCount += hints.hot
    byteCount += hints.size
    droppedCount += hints.dropped
    if (hints.version < version || !isPossible) {
      lateCount += hints.hashes.length
    } else {
      add(hints.hashes)
      lastMillis = System.currentTimeMillis()
      if (!isScheduled) {
        isScheduled = true
        threads.execute(() => process())
      }
    }
  }

  private def add(hashes: Array[Int]): Unit = {
    if (count + hashes.length > unprocessed.length) {
      unprocessed = Arrays.copyOf(unprocessed, math.max(FirstSize, 2 * (count + hashes.length)))
    }
    System.arraycopy(hashes, 0, unprocessed, count, hashes.length)
    count += hashes.length
  }

  private def process(): Unit = try {
    var (of, hashes) = takeAll()
    while (hashes.length > 0) {
      val isInTime = store.whileFree(of)(expect(_, hashes))
      synchronized(if (isInTime) inTimeCount += hashes.length else lateCount += hashes.length)
      val next = takeAll()
      of = next._1
      hashes = next._2
    }
  } catch {
    case error: Exception =>
      synchronized { isScheduled = false }
      log.warn(s"Hints for $name were dropped; look-ups read for themselves.", error)
  }

  private def expect(table: StateTable, hashes: Array[Int]): Unit = {
    table.families.filter(family => isFoundByKey(family)).foreach { family =>
      var at = 0
      while (at < hashes.length) {
        family.expectHash(hashes(at), table.clock.stampFor(UseClock.Unknown, at))
        at += 1
      }
    }
    table.fetchExpected(Origin.Hints)
  }

  /** Of a join's families those with the counts; the others have longer keys. */
  private def isFoundByKey(family: Family): Boolean =
    !family.kind.internal && !s"$name/${family.name}".contains(LongerKeys)

  /** All that is unprocessed, in the order of the table, each once. */
  private def takeAll(): (Long, Array[Int]) = synchronized {
    val taken = Arrays.copyOf(unprocessed, count)
    count = 0
    if (taken.isEmpty) {
      isScheduled = false
      unprocessed = Array.emptyIntArray
    }
    (version, HintedStore.distinct(taken))
  }
}

private[spark] object HintedStore {
  private val log = LoggerFactory.getLogger(classOf[HintedStore])
  private val FirstSize = 1024
  private val LongerKeys = "keyWithIndexToValue"

  private def distinct(hashes: Array[Int]): Array[Int] = {
    Arrays.sort(hashes)
    var kept = 0
    var at = 0
    while (at < hashes.length) {
      if (kept == 0 || hashes(at) != hashes(kept - 1)) {
        hashes(kept) = hashes(at)
        kept += 1
      }
      at += 1
    }
    Arrays.copyOf(hashes, kept)
  }
}
