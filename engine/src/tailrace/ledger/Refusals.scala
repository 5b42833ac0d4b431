package tailrace.ledger

import org.apache.hadoop.fs.FileAlreadyExistsException

import tailrace.ledger.Messages.{BatchId, Refused}

/** Why a batch does not go on: problem, cause, remedy. */
object Refusals {
  def tooLate(batch: BatchId): Refused = Refused(
    s"A task wants to commit state of batch ${batch.number} of ${batch.root}, which is over.",
    "It is an earlier attempt that was not noticed to have been given up, or the query was stopped.",
    "Nothing has to be done: the attempt that counts has committed.")

  def sessionEnded(batch: BatchId): Refused = Refused(
    s"The Spark session was stopped before batch ${batch.number} of ${batch.root} was over.",
    "Its state cannot be written any more.",
    "Restart the query: it goes on from the last published batch and runs this one again.")

  def notWritten(problem: String, because: String): Refused = Refused(problem, because,
    "Check free space, quota, permissions and reachability of the checkpoint location, then " +
      "restart the query: it goes on from the last published batch (tailrace.supervise does so " +
      "by itself).")

  def logNotWritten(batch: BatchId, cause: Throwable): Refused = {
    val refused = notWritten(s"The log entries of batch ${batch.number} of ${batch.root} could " +
      "not be written.", cause.toString)
    cause match {
      case _: FileAlreadyExistsException => refused.copy(taken = true, because =
        s"Concurrent update to the log. Multiple streaming jobs detected: ${cause.getMessage}")
      case _ => refused
    }
  }

  def lostWith(executor: String, batch: Long): Refused = Refused(
    s"Executor $executor was lost with state of batch $batch that was not durable yet.",
    "Its memory held the only copy of what the batch changed.",
    "Restart the query: it goes on from the last published batch and runs this one again " +
      "(tailrace.supervise does so by itself).")

  def notQuiet(root: String, waitedMillis: Long): Refused = Refused(
    s"Batches of the checkpoint $root are not published yet.",
    s"The checkpoint file system has not taken them within $waitedMillis ms.",
    "Wait until it answers again; a restart goes on from the last published batch.")
}
