package tailrace.layout

/**
 * Problem: rows that were handed out point to their records, so records that the running batch has
 * used must stay in memory until the task is over, while all else may be spilled at any time. And of
 * the rest the records go first that no batch has used for long.
 *
 * Answer: every use writes the running batch's number into the record, in two bits: 1, 2, 3, 1, …
 * The clock hand spares records of the running batch; it takes the number off those of earlier ones
 * (a second chance), and takes those that have none.
 *
 * Invariant: a record that the running batch uses has its number. One that was used three batches
 * ago may have the same; it is spared once, no more.
 */
final class Epoch {
  private var running = 1

  def present: Int = running

  def advance(): Unit = running = running % 3 + 1

  def touch(record: Record): Unit = record.setEpoch(running)

  /** Whether the running batch made or used the record. */
  def isInUse(record: Record): Boolean = record.isFresh || record.epoch == running
}
