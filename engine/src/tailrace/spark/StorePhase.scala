package tailrace.spark

import org.apache.spark.sql.execution.streaming.state.StateStoreErrors

/** The life of a store instance, from a task's point of view. */
sealed abstract class StorePhase(val name: String)

object StorePhase {
  case object Reading extends StorePhase("reading")
  case object Updating extends StorePhase("updating")
  case object Committed extends StorePhase("committed")
  case object Aborted extends StorePhase("aborted")
  case object Released extends StorePhase("released")

  private val allowed: Map[StorePhase, Set[StorePhase]] = Map(
    Reading -> Set(Updating, Released, Aborted),
    Updating -> Set(Committed, Aborted, Released),
    Committed -> Set.empty,
    Aborted -> Set.empty,
    Released -> Set.empty)

  def move(from: StorePhase, to: StorePhase): StorePhase =
    if (allowed(from)(to)) to else throw illegal(s"Cannot become ${to.name} after ${from.name}")

  def illegal(message: String): RuntimeException =
    StateStoreErrors.stateStoreOperationOutOfOrder(message)
}
