package tailrace.cold

/**
 * Problem: lists that were written long ago are read one by one when their time comes, each with a
 * random access to the disk.
 *
 * Answer: predictive batch read (FlowKV 4.2). A read that has to go to the disk takes along the
 * lists that are expected to be read next, in the order of the disk; they wait here. A list
 * that was expected wrongly is given up, and read again when it is asked for: estimates cost time,
 * never results.
 *
 * Invariant: an entry here is one that lives in the log; the family that gives up a reference says so
 * (`forget`).
 */
final class ReadAhead(log: ColdLog) {
  import ReadAhead._

  private val waiting = new java.util.LinkedHashMap[Long, Waiting] // by the reference's word
  private var bytes = 0L
  private var hitCount = 0L
  private var missCount = 0L
  private var wrongCount = 0L
  private var askedBytes = 0L

  def hits: Long = hitCount

  def misses: Long = missCount

  /** Entries that were read ahead and given up before a list was read that needs them. */
  def wrong: Long = wrongCount

  /** Bytes of the entries that were asked for; the log counts those that were read. */
  def usedBytes: Long = askedBytes

  /** @param next the entries that are expected to be read after this one, soonest first */
  def read(ref: ColdRef, next: => Iterator[ExpectedRead]): ColdEntry = {
    askedBytes += ref.size
    val found = waiting.remove(ref.raw)
    if (found != null) {
      hitCount += 1
      bytes -= found.entry.size
      found.entry
    } else {
      missCount += 1
      readWith(ref, next.filter(each => each.ref != ref && !waiting.containsKey(each.ref.raw)))
    }
  }

  private def readWith(ref: ColdRef, next: Iterator[ExpectedRead]): ColdEntry = {
    var asked: ColdEntry = null
    var room = LargestBuffer - bytes
    val dueOf = next.takeWhile { each =>
      room -= each.ref.size
      room >= 0
    }.map(each => each.ref.raw -> each.due).toMap
    log.readAll(new ColdRefs(dueOf.keysIterator.toArray :+ ref.raw)) { (read, entry) =>
      if (read == ref) {
        asked = entry
      } else {
        waiting.put(read.raw, Waiting(entry, dueOf(read.raw)))
        bytes += entry.size
      }
    }
    asked
  }

  /** The entry has been given up, or is not expected soon any more. */
  def forget(ref: ColdRef): Unit = if (!waiting.isEmpty) {
    val found = waiting.remove(ref.raw)
    if (found != null) {
      wrongCount += 1
      bytes -= found.entry.size
    }
  }

  /** Gives up the entries that are now expected later than when they were read. */
  def review(dueOf: ColdEntry => Long): Unit = if (!waiting.isEmpty) {
    new java.util.ArrayList(waiting.entrySet).forEach { each =>
      if (dueOf(each.getValue.entry) > each.getValue.due) forget(new ColdRef(each.getKey))
    }
  }

  def clear(): Unit = {
    waiting.clear()
    bytes = 0L
  }
}

object ReadAhead {
  private val LargestBuffer = 16L << 20

  private final case class Waiting(entry: ColdEntry, due: Long)
}

/** An entry that is expected to be read, and when. */
final class ExpectedRead(val ref: ColdRef, val due: Long)
