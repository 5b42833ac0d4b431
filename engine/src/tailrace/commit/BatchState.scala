package tailrace.commit

/**
 * How far a batch has come, as the driver's ledger sees it. The three words of the protocol:
 * '''applied''' (in the live stores; the next batch reads it), '''durable''' (on the checkpoint
 * file system) and '''published''' (`commits/N` is there: Spark never runs the batch again).
 */
sealed abstract class BatchState(val name: String)

object BatchState {
  /** Its tasks commit their stores, one after the other. */
  case object Running extends BatchState("running")
  /** All its tasks are done and Spark has handed over `commits/N`; what is pending is being written. */
  case object Applied extends BatchState("applied")
  case object Durable extends BatchState("durable")
  case object Published extends BatchState("published")
  /** Something could not be written or was lost; the query fails, a restart runs the batch again. */
  case object Failed extends BatchState("failed")

  private val allowed: Map[BatchState, Set[BatchState]] = Map(
    Running -> Set(Applied, Failed),
    Applied -> Set(Durable, Failed),
    Durable -> Set(Published, Failed),
    Published -> Set.empty,
    Failed -> Set.empty)

  def move(from: BatchState, to: BatchState): BatchState =
    if (allowed(from)(to)) to
    else throw new IllegalStateException(s"A batch that is ${from.name} cannot become ${to.name}.")
}
