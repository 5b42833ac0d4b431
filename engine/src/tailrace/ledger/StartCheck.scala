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
 * change nothing but that one batch runs again, as in Spark; except where these entries name the
 * state that the next batch reads (checkpoint format 2). An entry of `commits`, a pack or a store's
 * file newer than `offsets` allows means that entries of `offsets` are lost: the query is refused.
 *
 * Invariant: nothing is deleted or changed here.
 */
object StartCheck {
  private val log = LoggerFactory.getLogger("tailrace.ledger.StartCheck")

  /** A file with state, in a folder of this name. Batch N makes version N + 1. */
  final case class StateFile(version: Long, folder: String)

  /** The batch that Spark goes on with. */
  def nextBatch(offsets: Seq[Long], commits: Seq[Long]): Long = {
    val newest = newestOf(offsets)
    if (newestOf(commits) == newest) newest + 1 else newest
  }

  /**
   * Throws if the logs cannot be whole.
   *
   * @param state      files with state; the newest counts
   * @param namesState whether entries of `commits` name the state that the next batch reads
   */
  def verify(
      root: String, offsets: Seq[Long], commits: Seq[Long], state: Seq[StateFile],
      namesState: => Boolean): Unit = {
    val newest = newestOf(offsets)
    val committed = newestOf(commits)
    if (committed > newest) {
      throw missing(root, newest, s"commits/$committed is there: batch $committed was committed.")
    }
    state.maxByOption(_.version).filter(_.version - 1 > newest).foreach { file =>
      throw missing(root, newest, s"${file.folder} has state of batch ${file.version - 1}.")
    }
    if (newest > 0 && !offsets.contains(newest - 1)) {
      throw new LogEntriesMissing(root, s"offsets/${newest - 1} is missing.",
        s"offsets/$newest is there, and batch $newest begins where the batch before it ended.")
    }
    if (committed < newest - 1) {
      if (namesState) {
        throw new LogEntriesMissing(root, "The newest entries of commits are missing.",
          s"offsets/$newest is there, so batch ${newest - 1} was published, and its entry names " +
            s"the state that batch $newest goes on from. But ${last("commits", committed)}.")
      }
      log.warn(s"Entries of $root/commits are missing: the newest is $committed, that of offsets " +
        s"is $newest. Offsets are written only when the batch before is published, so no state is " +
        s"lost; batch $newest runs again.")
    }
  }

  private def newestOf(entries: Seq[Long]): Long = (entries :+ -1L).max

  private def missing(root: String, newest: Long, found: String): LogEntriesMissing =
    new LogEntriesMissing(root, "The newest entries of offsets are missing.",
      s"$found But ${last("offsets", newest)}.")

  private def last(log: String, newest: Long): String =
    if (newest < 0) s"there is no entry of $log" else s"the newest is $log/$newest"
}
