package tailrace.layout

import tailrace.cold.EvictionPolicy

/**
 * Problem: which records leave memory first is a matter of when each was used, or will be. A time of
 * its own would cost every record eight bytes, and a list in the order of times sixteen more.
 *
 * Answer: a stamp of 15 bits in the slot's word, where an address has none (see [[SlotWord]]). A stamp
 * is a time, in steps of 2^`shift`^ from `origin`. The time is that of the row that is worked on
 * (`moveTo`), where rows tell one; elsewhere the number of operations so far (`pass`). Records that
 * are used get the present stamp, records that are expected that of their time. Of two stamps the
 * later one counts. When times outgrow the stamps, there are other steps (`rescale`), between two
 * batches.
 *
 * Invariant: of two records the one with the larger stamp has the later time, or one as late within a
 * step. 0 is before all times. A few rows with a time far ahead do not make the steps larger: their
 * stamp is the largest.
 *
 * @param policy Clock: nothing is stamped; Lru: times are numbers of operations, and nothing is
 *               expected
 */
final class UseClock(val policy: EvictionPolicy) {
  import UseClock._

  private var origin = 0L
  private var shift = OperationsShift
  private var hasTimes = false
  private var now = 0L
  // Times since the stamps were looked at, and those that were too late or too early for one.
  private var seen, beyond, before = 0L
  private var earliestBeyond = Long.MaxValue
  private var latestBefore = Long.MinValue

  /** Look-ups that found their record in memory, so far. */
  var hits = 0L

  /** Of records that are used now. */
  var stamp: Int = if (policy == EvictionPolicy.Clock) 0 else 1

  def present: Long = now

  /** So many operations are over. */
  def pass(operations: Int): Unit = if (!hasTimes && policy != EvictionPolicy.Clock) {
    now += operations
    stamp = stampOf(now)
  }

  /** The row that is worked on from now on has this time, which may be before the last one's. */
  def moveTo(time: Long): Unit = if (policy == EvictionPolicy.Timestamp && time != Unknown) {
    if (!hasTimes) {
      hasTimes = true
      shift = TimesShift
      origin = time - (Largest / 2L << shift)
    }
    seen += 1
    if (time != now) {
      now = time
      stamp = stampOf(time)
    }
  }

  /**
   * Of a record that will be used at this time, or, if that is not known, in so many operations. 0:
   * what is expected does not count.
   */
  def stampFor(time: Long, operations: Int): Int =
    if (policy != EvictionPolicy.Timestamp) 0
    else if (!hasTimes) stampOf(now + operations)
    else if (time == Unknown) stamp
    else stampOf(time)

  private def stampOf(time: Long): Int = {
    val steps = (time - origin >> shift) + 1
    if (steps > Largest) {
      beyond += 1
      earliestBeyond = math.min(earliestBeyond, time)
    } else if (steps < 1) {
      before += 1
      latestBefore = math.max(latestBefore, time)
    }
    math.max(1L, math.min(Largest.toLong, steps)).toInt
  }

  // ---- between batches

  /** Whether so many times had no stamp of their own that there should be others. */
  def isOutgrown: Boolean =
    if (hasTimes) {
      val knows = seen >= EnoughSeen
      val isIt = knows && math.max(beyond, before) > seen / FewOfSeen
      if (knows && !isIt) countAnew()
      isIt
    } else {
      beyond > 0
    }

  private def countAnew(): Unit = {
    seen = 0L
    beyond = 0L
    before = 0L
    earliestBeyond = Long.MaxValue
    latestBefore = Long.MinValue
  }

  /**
   * Other steps, from the time of the oldest stamp that a record has, or before it. Of the times that
   * had none the nearest ones count: those far away may be wrong. Returns the new stamp of each old
   * one, by which all records are to be stamped.
   */
  def rescale(oldest: Int): Array[Int] = {
    val (originBefore, shiftBefore) = (origin, shift)
    def timeOf(stamp: Int): Long = originBefore + (stamp - 1L << shiftBefore)
    val first = if (before > seen / FewOfSeen) latestBefore else timeOf(math.max(1, oldest))
    val last = if (!hasTimes) now
      else if (beyond > seen / FewOfSeen) earliestBeyond
      else timeOf(Largest)
    while ((last - first >> shift) >= Largest / 2) shift += 1
    origin = if (before > seen / FewOfSeen) first - (Largest / 4L << shift) else first
    val renamed = Array.tabulate(Largest + 1)(old => if (old == 0) 0 else stampOf(timeOf(old)))
    stamp = stampOf(now)
    countAnew()
    renamed
  }
}

object UseClock {
  val Largest: Int = (1 << SlotWord.StampBits) - 1
  /** In the place of a time. */
  val Unknown: Long = Long.MinValue

  /** One stamp for 64 operations. */
  private val OperationsShift = 6
  /** One for 66 milliseconds, where times are microseconds. */
  private val TimesShift = 16
  private val EnoughSeen = 1024L
  private val FewOfSeen = 64
}
