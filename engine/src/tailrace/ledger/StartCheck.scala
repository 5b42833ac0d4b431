package tailrace.ledger

import org.slf4j.LoggerFactory

import tailrace.errors.LogEntriesMissing

/**
 * Problem: files of a checkpoint get lost, in a partial copy, a restore or a clean-up. A query that
 * goes on all the same loses rows or shows them twice.
 *
 * Answer: `offsets/N` becomes visible only when every batch before N is published (RFC 4), and
 * state of batch N is written only when `offsets/N` is visible. So the newest entry of `offsets`
 * says where to go on: batch N runs again, unless `commits/N` is there. Lost entries of `commits`
 * change nothing but that one batch runs again, as in Spark. An entry of `commits` or a pack newer
 * than `offsets` allows means that entries of `offsets` are lost: the query is refused.
 *
 * Invariant: nothing is deleted or changed here.
 */
object StartCheck {
  private val log = LoggerFactory.getLogger("tailrace.ledger.StartCheck")

  /**
   * The batch that Spark goes on with.
   *
   * @param packs the versions of all packs; batch N makes version N + 1
   */
  def nextBatch(root: String, offsets: Seq[Long], commits: Seq[Long], packs: Seq[Long]): Long = {
    val newest = (offsets :+ -1L).max
    val committed = (commits :+ -1L).max
    val written = (packs :+ 0L).max - 1
    if (committed > newest) {
      throw missing(root, newest, s"commits/$committed is there: batch $committed was committed.")
    }
    if (written > newest) {
      throw missing(root, newest, s"state/tailrace has state of batch $written.")
    }
    if (newest > 0 && !offsets.contains(newest - 1)) {
      throw new LogEntriesMissing(root, s"offsets/${newest - 1} is missing.",
        s"offsets/$newest is there, and batch $newest begins where the batch before it ended.")
    }
    if (committed < newest - 1) {
      log.warn(s"Entries of $root/commits are missing: the newest is $committed, that of offsets " +
        s"is $newest. Offsets are written only when the batch before is published, so no state is " +
        s"lost; batch $newest runs again.")
    }
    if (committed == newest) newest + 1 else newest
  }

  private def missing(root: String, newest: Long, found: String): LogEntriesMissing = {
    val last = if (newest < 0) "there is no entry of offsets" else s"the newest is offsets/$newest"
    new LogEntriesMissing(root, "The newest entries of offsets are missing.", s"$found But $last.")
  }
}
