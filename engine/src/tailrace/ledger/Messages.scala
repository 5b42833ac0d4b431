package tailrace.ledger

import java.io.IOException

import org.apache.spark.SparkThrowable

import tailrace.errors.{CheckpointTaken, SparkCondition, StoreError}

/**
 * The messages between executors and driver. The executor always asks; the driver answers at once
 * or, where the answer is worth waiting for, when the time has come. Asking twice does no harm.
 */
object Messages {
  /** A store's place: which one, and the lineage of the version that the batch makes. */
  final case class StoreAt(store: String, lineage: Long)

  /** A batch of one run of a query; `root` is the checkpoint, by which driver and executor name it. */
  final case class BatchId(root: String, run: String, number: Long) {
    def before: BatchId = copy(number = number - 1)
  }

  /** A message of an executor. */
  sealed trait Message

  /**
   * A task is about to apply a store's batch: registration, and the gate before its output.
   * @param named Spark remembers the lineages itself (checkpoint format version 2), so that several
   *              runs of a task may stand side by side
   */
  final case class Register(batch: BatchId, store: StoreAt, named: Boolean, executor: String)
    extends Message

  /** For output that a task shows before its stores are committed: the gate alone. */
  final case class AwaitGate(batch: BatchId) extends Message

  sealed trait Admission
  /** The batch before is published: apply. The first task also takes the report of that batch. */
  final case class Admitted(hiddenMillis: Long, unpublished: Int, retries: Int) extends Admission
  /** The ledger does not publish this batch: make it durable before the commit returns. */
  case object WriteNow extends Admission
  /** @param taken another query writes to the same checkpoint: trying again does not help */
  final case class Refused(
      problem: String, because: String, remedy: String, taken: Boolean = false) extends Admission {
    def asError: IOException =
      if (taken) new CheckpointTaken(problem, because) else new CommitFailed(this)
  }

  /** Which of its parts is an executor to write? Answered when all the batch's tasks are done. */
  final case class AwaitOrders(batch: BatchId, executor: String) extends Message

  sealed trait Orders
  final case class Write(stores: Seq[StoreAt]) extends Orders
  case object Discard extends Orders

  /** These are on the checkpoint file system, in this pack. */
  final case class Durable(
      batch: BatchId, executor: String, pack: String, stores: Seq[StoreAt], retries: Int)
    extends Message

  /** This could not be written, in spite of retries. */
  final case class NotWritten(batch: BatchId, executor: String, problem: String, because: String)
    extends Message

  /** Answered when no write of this batch is pending any more: its files can be read. */
  final case class AwaitDurable(root: String, batch: Long) extends Message

  /** No version before this one of the store will be loaded any more. */
  final case class OldestNeeded(root: String, store: String, version: Long) extends Message

  /** The answer to a message that asks for nothing. */
  case object Acknowledged
}

/** A batch cannot be made durable or published; an IOException, as any failed write. */
final class CommitFailed(val refused: Messages.Refused)
  extends IOException(StoreError.text(refused.problem, refused.because, refused.remedy))
  with SparkThrowable {
  override def getCondition: String = SparkCondition.Write
}
