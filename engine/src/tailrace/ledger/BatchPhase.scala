package tailrace.ledger

import tailrace.phases.{Phase, PhaseTable}

/**
 * How far a batch has come, as the driver's ledger sees it. The three words of the protocol:
 * '''applied''' (in the live stores; the next batch reads it), '''durable''' (on the checkpoint
 * file system) and '''published''' (`commits/N` is there: Spark never runs the batch again).
 */
sealed abstract class BatchPhase(val name: String) extends Phase

object BatchPhase extends PhaseTable[BatchPhase] {
  /** Its tasks commit their stores, one after the other. */
  case object Running extends BatchPhase("running")
  /** All its tasks are done and Spark has handed over `commits/N`; its state is being written. */
  case object Applied extends BatchPhase("applied")
  case object Durable extends BatchPhase("durable")
  case object Published extends BatchPhase("published")
  /** A part or a log entry was lost or not written; the query fails, a restart runs the batch again. */
  case object Failed extends BatchPhase("failed")

  override protected val allowed: Map[BatchPhase, Set[BatchPhase]] = Map(
    Running -> Set(Applied, Failed),
    Applied -> Set(Durable, Failed),
    Durable -> Set(Published, Failed),
    Published -> Set.empty,
    Failed -> Set.empty)

  val all: Seq[BatchPhase] = Seq(Running, Applied, Durable, Published, Failed)

  override protected def illegalMove(from: BatchPhase, to: BatchPhase): RuntimeException =
    new IllegalStateException(s"A batch that is ${from.name} cannot become ${to.name}.")
}
