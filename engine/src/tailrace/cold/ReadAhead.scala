package tailrace.cold

/**
 * Problem: lists that were written long ago are read one by one when their time comes, each with a
 * random access to the disk.
 *
 * Answer: predictive batch read (FlowKV 4.2). A read that has to go to the disk takes along the
 * lists that are expected to be read next, in the order of the disk; they wait here. What was
 * expected wrongly is given up, and read again when it is asked for: estimates cost time, never
 * results.
 *
 * Invariant: an entry here is one that lives in the log; whoever gives up a reference says so
 * (`forget`).
 */
final class ReadAhead(log: ColdLog) {
  import ReadAhead._

  private val waiting = new java.util.LinkedHashMap[Long, Expected]
  private var bytes = 0L
  private var hitCount = 0L
  private var missCount = 0L
  private var wrongCount = 0L
  private var askedBytes = 0L

  def hits: Long = hitCount

  def misses: Long = missCount

  /** Entries that were read ahead and given up before anybody asked for them. */
  def wrong: Long = wrongCount

  /** Bytes of the entries that were asked for; the log counts those that were read. */
  def usedBytes: Long = askedBytes

  /** @param next what is expected to be asked for after this one, and when, soonest first */
  def read(ref: Long, next: => Iterator[(Long, Long)]): ColdEntry = {
    askedBytes += ColdRef.size(ref)
    val found = waiting.remove(ref)
    if (found != null) {
      hitCount += 1
      bytes -= found.entry.size
      found.entry
    } else {
      missCount += 1
      readWith(ref, next.filter { case (each, _) => each != ref && !waiting.containsKey(each) })
    }
  }

  private def readWith(ref: Long, next: Iterator[(Long, Long)]): ColdEntry = {
    var asked: ColdEntry = null
    var room = LargestBuffer - bytes
    val taken = next.takeWhile { case (each, _) =>
      room -= ColdRef.size(each)
      room >= 0
    }.toMap
    log.readAll(taken.keysIterator.toArray :+ ref) { (read, entry) =>
      if (read == ref) {
        asked = entry
      } else {
        waiting.put(read, Expected(entry, taken(read)))
        bytes += entry.size
      }
    }
    asked
  }

  /** The entry has been given up, or is not expected soon any more. */
  def forget(ref: Long): Unit = if (!waiting.isEmpty) {
    val found = waiting.remove(ref)
    if (found != null) {
      wrongCount += 1
      bytes -= found.entry.size
    }
  }

  /** Gives up what is now expected later than when it was read. */
  def review(dueOf: ColdEntry => Long): Unit = if (!waiting.isEmpty) {
    new java.util.ArrayList(waiting.entrySet).forEach { each =>
      if (dueOf(each.getValue.entry) > each.getValue.due) forget(each.getKey)
    }
  }

  def clear(): Unit = {
    waiting.clear()
    bytes = 0L
  }
}

object ReadAhead {
  private val LargestBuffer = 16L << 20

  private final case class Expected(entry: ColdEntry, due: Long)
}
