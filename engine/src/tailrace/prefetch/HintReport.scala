package tailrace.prefetch

/** What an executor tells the driver's [[HintController]]; one way, and none of it is needed. */
sealed trait HintReport extends Serializable

object HintReport {
  /** The executor takes hints at this address from now on. */
  final case class Listening(executor: String, host: String, port: Int) extends HintReport

  /**
   * A store of this partition took part in the batch that began at `version`. Counts are of the batch.
   *
   * @param cold        look-ups of records that were not in memory when the batch began
   * @param found       of them, those whose record had been read ahead and was there
   * @param waitNanos   time for which the task waited for the others
   * @param read        records that were read ahead
   * @param inVain      of them, those that no look-up took
   * @param hinted      hints that came in time
   * @param accessNanos time from a request to its records, at the 99th percentile
   * @param isSlow      whether reads take long enough for reading ahead to gain time
   * @param beganMillis when the task opened the store
   */
  final case class Used(
      executor: String, partition: HintedPartition, version: Long,
      cold: Long, found: Long, waitNanos: Long, read: Long, inVain: Long, hinted: Long,
      accessNanos: Long, isSlow: Boolean, beganMillis: Long)
    extends HintReport

  /** The last row of a task has passed this candidate: a marker (IV-C). */
  final case class Passed(run: String, operator: Long, version: Long, level: Int, millis: Long)
    extends HintReport
}
