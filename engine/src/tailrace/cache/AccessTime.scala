package tailrace.cache

/**
 * How long a look-up waits that reads a spilled record for itself, and whether that is long enough for
 * reading ahead to gain time.
 *
 * Problem: to take rows ahead, and to hand reads over to other threads, costs some microseconds a row.
 * A read from the disk takes ten times that, one from the page cache less. On a busy machine one read
 * in a hundred takes milliseconds, because its thread lost its core: a mean would say nothing of the
 * others.
 *
 * Answer: an estimate of the median, which each read moves up or down by a 64th. Reading ahead begins
 * above one bound and ends below another, half as high, so that it does not begin and end all the time.
 * While it goes on, some look-ups still read for themselves, and say how long it takes (see
 * [[PrefetchMode]]).
 */
private[cache] final class AccessTime {
  import AccessTime._

  private var median = StartAt
  private var wasLong = false

  def add(nanos: Long): Unit = {
    val step = math.max(1L, median / Part)
    median = math.max(Least, if (nanos > median) median + step else median - step)
    wasLong = median > (if (wasLong) EndBelow else BeginAbove)
  }

  def isLong: Boolean = wasLong
}

private object AccessTime {
  val BeginAbove = 20000L
  val EndBelow = 10000L
  private val Part = 64
  /** Some dozens of reads decide in the beginning. */
  private val StartAt = 10000L
  private val Least = 100L
}
