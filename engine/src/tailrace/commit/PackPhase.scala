package tailrace.commit

import tailrace.phases.{Phase, PhaseTable}

/** How far an executor has come with its parts of one batch. */
sealed abstract class PackPhase(val name: String) extends Phase

object PackPhase extends PhaseTable[PackPhase] {
  /** The batch's tasks still run: which parts count is not known. */
  case object AwaitingOrders extends PackPhase("awaiting orders")
  /** First acknowledgement: a copy on this machine. */
  case object Copying extends PackPhase("copying")
  /** Second acknowledgement: the pack on the checkpoint file system. */
  case object Uploading extends PackPhase("uploading")
  case object Acknowledging extends PackPhase("acknowledging")
  case object Reporting extends PackPhase("reporting a failure")

  override protected val allowed: Map[PackPhase, Set[PackPhase]] = Map(
    AwaitingOrders -> Set(AwaitingOrders, Copying, Reporting),
    Copying -> Set(AwaitingOrders, Uploading, Reporting),
    Uploading -> Set(AwaitingOrders, Acknowledging, Reporting),
    Acknowledging -> Set(AwaitingOrders, Reporting),
    Reporting -> Set(Reporting))

  override protected def illegalMove(from: PackPhase, to: PackPhase): RuntimeException =
    new IllegalStateException(s"A pack that is ${from.name} cannot become ${to.name}.")
}
