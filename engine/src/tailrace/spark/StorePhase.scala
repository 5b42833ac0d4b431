package tailrace.spark

import org.apache.spark.sql.execution.streaming.state.StateStoreErrors

import tailrace.phases.{Phase, PhaseTable}

/** The life of a store instance, from a task's point of view. */
sealed abstract class StorePhase(val name: String) extends Phase

object StorePhase extends PhaseTable[StorePhase] {
  case object Reading extends StorePhase("reading")
  case object Updating extends StorePhase("updating")
  case object Committed extends StorePhase("committed")
  case object Aborted extends StorePhase("aborted")
  case object Released extends StorePhase("released")

  override protected val allowed: Map[StorePhase, Set[StorePhase]] = Map(
    Reading -> Set(Updating, Released, Aborted),
    Updating -> Set(Committed, Aborted, Released),
    Committed -> Set.empty,
    Aborted -> Set.empty,
    Released -> Set.empty)

  override protected def illegalMove(from: StorePhase, to: StorePhase): RuntimeException =
    illegal(s"Cannot become ${to.name} after ${from.name}")

  def illegal(message: String): RuntimeException =
    StateStoreErrors.stateStoreOperationOutOfOrder(message)
}
