package tailrace.cache

/**
 * How look-ups of spilled records found them, since the store was opened. The manager changes it under
 * its lock, and gives copies to others.
 */
final class PrefetchCounters {
  private val hitsBy = new Array[Long](Origin.all.length)
  private val vainBy = new Array[Long](Origin.all.length)
  private[cache] var lateCount, missCount, lostCount, readCount = 0L
  private[cache] var waited = 0L

  /** Records that were there when they were looked up. */
  def hits: Long = hitsBy.sum

  /** Of them, those that were read for this reason. */
  def hits(origin: Origin): Long = hitsBy(origin.index)

  /** Those that the look-up had to wait for, and those that it read itself. */
  def late: Long = lateCount

  def misses: Long = missCount

  /** Records that were read ahead and not taken. */
  def inVain: Long = vainBy.sum

  def inVain(origin: Origin): Long = vainBy(origin.index)

  /** Those that could not be read ahead. */
  def lost: Long = lostCount

  /** Records that arrived, whether they were taken or not. */
  def arrived: Long = readCount

  /** Time in which the running batch waited for spilled records. */
  def waitNanos: Long = waited

  private[cache] def hit(origin: Origin): Unit = hitsBy(origin.index) += 1

  private[cache] def vain(origin: Origin): Unit = vainBy(origin.index) += 1

  private[cache] def copied: PrefetchCounters = {
    val copy = new PrefetchCounters
    System.arraycopy(hitsBy, 0, copy.hitsBy, 0, hitsBy.length)
    copy.lateCount = lateCount
    copy.missCount = missCount
    System.arraycopy(vainBy, 0, copy.vainBy, 0, vainBy.length)
    copy.lostCount = lostCount
    copy.readCount = readCount
    copy.waited = waited
    copy
  }
}
