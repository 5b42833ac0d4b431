package tailrace.layout

/**
 * Problem: rows that were handed out point to their records, so records that the running batch has
 * used must stay in memory until the task is over, while all else may be spilled at any time. And of
 * the rest the records go first that no batch has used for long.
 *
 * Answer: every use writes the running batch's number into the record, in four bits: 1 to 15, and 1
 * again. The clock hand spares records of the running batch; it takes the number off those of earlier
 * ones (a second chance), and takes those that have none.
 *
 * Invariant: a record that the running batch uses has its number. One that was used fifteen
 * batches ago may have the same; it is spared once, no more.
 *
 * @param clock for stamps, by which records leave memory where they do not leave by the clock hand
 */
final class Epoch(val clock: UseClock) {
  private var running = 1

  def present: Int = running

  def advance(): Unit = running = running % 15 + 1

  def touch(record: Record): Unit = record.setEpoch(running)

  /** Whether the running batch made or used the record. */
  def isInUse(record: Record): Boolean = record.isFresh || record.epoch == running
}
