package tailrace.ledger

import tailrace.ledger.LedgerState.Token
import tailrace.ledger.Messages._

/** An event for the ledger. A token names the caller that waits for an answer. */
sealed trait LedgerEvent

object LedgerEvent {
  // ---- on the driver: Spark's log files
  /** A query has listed its logs and goes on with batch `next`. */
  final case class RunBegan(root: String, run: String, next: Long) extends LedgerEvent
  /** `offsets/N` was taken from Spark. */
  final case class OffsetsTaken(batch: BatchId) extends LedgerEvent
  /** `commits/N` was taken from Spark: all tasks of the batch are done. */
  final case class CommitTaken(batch: BatchId, token: Token) extends LedgerEvent
  /** A batch that did not go through the ledger is in `commits`. */
  final case class CommittedDirectly(batch: BatchId) extends LedgerEvent
  final case class TidyAsked(batch: BatchId, token: Token) extends LedgerEvent
  final case class PublishedAsked(batch: BatchId, token: Token) extends LedgerEvent
  final case class QuietAsked(root: String, token: Token) extends LedgerEvent
  /** The caller does not wait any more. */
  final case class QuietGivenUp(root: String, token: Token) extends LedgerEvent
  final case class RunEnded(run: String) extends LedgerEvent
  case object SessionEnded extends LedgerEvent
  final case class ExecutorLost(executor: String) extends LedgerEvent

  // ---- from the executors
  final case class Registering(message: Register, token: Token) extends LedgerEvent
  final case class GateAsked(batch: BatchId, token: Token) extends LedgerEvent
  final case class OrdersAsked(message: AwaitOrders, token: Token) extends LedgerEvent
  final case class PartsDurable(message: Durable) extends LedgerEvent
  final case class PartsNotWritten(message: NotWritten) extends LedgerEvent
  final case class DurableAsked(message: AwaitDurable, token: Token) extends LedgerEvent
  final case class NeededFrom(message: OldestNeeded) extends LedgerEvent

  // ---- from the ledger's own steps on other threads
  final case class StepDone(step: Step, retries: Int) extends LedgerEvent
  final case class StepFailed(step: Step, failure: Refused) extends LedgerEvent
}

/** Work of the ledger on another thread, because it touches files. */
sealed trait Step {
  def batch: BatchId
}

object Step {
  /** All of `commits/N` but the last step, beside the writing of the batch's state. */
  final case class PrepareCommit(batch: BatchId) extends Step
  /**
   * `commits/N` becomes visible.
   * @param written in a run's first batch the packs of it: others of its version are deleted first
   */
  final case class PublishCommit(batch: BatchId, written: Option[Set[String]]) extends Step
  /** All of `offsets/N` but the last step, beside the batch. */
  final case class PrepareOffsets(batch: BatchId) extends Step
  /** `offsets/N` becomes visible. */
  final case class PublishOffsets(batch: BatchId) extends Step
}

/** An effect that the ledger asks for. */
sealed trait LedgerEffect

object LedgerEffect {
  final case class Answer(token: Token, answer: Any) extends LedgerEffect
  final case class Start(step: Step) extends LedgerEffect
  /** The entry will not be published: its temporary file can be deleted. */
  final case class DropOffsets(batch: BatchId) extends LedgerEffect
  final case class DropCommit(batch: BatchId) extends LedgerEffect
  final case class DeletePacks(root: String, upTo: Long) extends LedgerEffect
  final case class LogError(text: String) extends LedgerEffect
  final case class Warn(text: String) extends LedgerEffect
}

/** Answers to callers on the driver; executors get those of [[Messages]]. */
object LedgerAnswer {
  case object Done
  /** Whether packs of an earlier run have to be deleted now. */
  final case class Tidy(now: Boolean)
  /** Nothing is pending; the failure of a write, if there was one. */
  final case class Quiet(failure: Option[Refused])
}
