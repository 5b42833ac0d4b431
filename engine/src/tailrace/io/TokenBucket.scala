package tailrace.io

/**
 * Bytes per second, for all jobs together. A job that takes tokens gets the time when they are there:
 * the bucket goes into debt, so that a piece larger than a second's worth is slow and not impossible.
 *
 * A tenth of a second's tokens may be saved up. Not thread-safe: the scheduler's lock guards it.
 */
private[io] final class TokenBucket(clock: Clock) {
  private var rate = 0L
  private var paidUpTo = 0L // the time at which the last tokens taken are earned

  /** Bytes per second; 0: as many as there are. */
  def bytesPerSecond: Long = rate

  def bytesPerSecond_=(bytes: Long): Unit = {
    rate = bytes
    paidUpTo = clock.nanos
  }

  /** Takes tokens; returns the time from which on the bytes may be moved. */
  def take(bytes: Long): Long = {
    val now = clock.nanos
    if (rate <= 0L) {
      now
    } else {
      paidUpTo = math.max(paidUpTo, now - TokenBucket.SavedNanos) + (bytes * 1e9 / rate).toLong
      paidUpTo
    }
  }
}

private object TokenBucket {
  val SavedNanos = 100L * 1000 * 1000
}
