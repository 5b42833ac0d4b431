package tailrace.commit

import java.io.IOException

import tailrace.errors.CheckpointTaken

/**
 * What executors and driver say to each other. The executor always asks; the driver answers at once
 * or, where the answer is worth waiting for, when the time has come. Asking twice does no harm.
 */
object Messages {
  /** A store's place: which one, and the lineage of the version that the batch makes. */
  final case class StoreAt(store: String, lineage: Long)

  /** A batch of one run of a query; `root` is the checkpoint, by which driver and executor name it. */
  final case class BatchId(root: String, run: String, number: Long)

  /**
   * A task is about to apply a store's batch: registration, and the gate before its output.
   * @param named Spark remembers the lineages itself (checkpoint format version 2), so that several
   *              runs of a task may stand side by side
   */
  final case class Enter(batch: BatchId, store: StoreAt, named: Boolean, executor: String)

  /** For output that leaves a task before its stores are committed: the gate alone. */
  final case class AwaitGate(batch: BatchId)

  sealed trait Entry
  /** The batch before is published: apply, and hand the changes to the pipeline. */
  final case class Proceed(hiddenMillis: Long, unpublished: Int, retries: Int) extends Entry
  /** Nobody will publish this batch through the ledger: make it durable before you return. */
  case object BeSynchronous extends Entry
  /** @param taken another query writes to the same checkpoint: trying again does not help */
  final case class Refused(
      problem: String, because: String, remedy: String, taken: Boolean = false) extends Entry {
    def asError: IOException =
      if (taken) new CheckpointTaken(problem, because) else new CommitFailed(this)
  }

  /** Which of its parts is an executor to write? Answered when all the batch's tasks are done. */
  final case class AwaitOrders(batch: BatchId, executor: String)

  sealed trait Orders
  final case class Write(stores: Seq[StoreAt]) extends Orders
  case object Discard extends Orders

  /** These are on the checkpoint file system, in this pack. */
  final case class Durable(
      batch: BatchId, executor: String, pack: String, stores: Seq[StoreAt], retries: Int)

  /** This could not be written, in spite of retries. */
  final case class NotWritten(batch: BatchId, executor: String, problem: String, because: String)

  /** Answered when no write of this batch is pending any more: its files can be read. */
  final case class AwaitDurable(root: String, batch: Long)

  /** No version before this one of the store will be loaded any more. */
  final case class OldestNeeded(root: String, store: String, version: Long)

  case object Heard
}
