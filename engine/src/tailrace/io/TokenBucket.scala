package tailrace.io

import scala.collection.mutable

/**
 * Bytes per second, for all jobs together. A job takes tokens when they are there and no more urgent
 * job waits for some. A job that waits has taken nothing: it asks again.
 *
 * A tenth of a second's tokens may be saved up while no job waits. Not thread-safe: the scheduler's
 * lock guards it.
 */
private[io] final class TokenBucket[J](clock: Clock)(implicit mostUrgentFirst: Ordering[J]) {
  private var rate = 0L
  private var since = 0L // the tokens that were earned from this time on have not been taken
  private val waiting = mutable.TreeSet.empty[J]

  /** Bytes per second; 0: as many as there are. */
  def bytesPerSecond: Long = rate

  /** Jobs that wait have to ask again after it. */
  def bytesPerSecond_=(bytes: Long): Unit = {
    rate = bytes
    since = clock.nanos
  }

  def isWaitedFor: Boolean = waiting.nonEmpty

  /**
   * Returns 0 if the job has taken the tokens. Otherwise it asks again after so many nanoseconds, or
   * when another job has left. The job counts as one that waits until it leaves.
   */
  def take(job: J, bytes: Long): Long = {
    val now = clock.nanos
    if (waiting.isEmpty) since = math.max(since, now - TokenBucket.SavedNanos)
    waiting += job
    val cost = if (rate <= 0L) 0L else (bytes * 1e9 / rate).toLong
    val left =
      if (rate <= 0L) 0L
      else if (waiting.head != job) TokenBucket.UntilNotified
      else math.max(0L, since + cost - now)
    if (left == 0L) since += cost
    left
  }

  /** The job has all its tokens, or does not want them now. */
  def leave(job: J): Unit = waiting -= job
}

private object TokenBucket {
  val SavedNanos: Long = 100L * 1000 * 1000
  val UntilNotified: Long = Long.MaxValue
}
