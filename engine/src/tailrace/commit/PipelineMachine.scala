package tailrace.commit

import scala.collection.immutable.ListMap

import tailrace.ledger.Messages._

/** All that the pipeline of an executor has to do, without the bytes. */
final case class PipelineState(packs: ListMap[BatchId, PipelineState.Pack]) {
  def keptBytes: Long = packs.valuesIterator.map(_.bytes).sum

  /**
   * Whether a part has to wait for memory. Only other batches give memory back while this one goes
   * on, and only those whose tasks are done: two queries that run at the same time would otherwise
   * wait for each other.
   */
  def mustWait(batch: BatchId, bytes: Long, limit: Long): Boolean = {
    val kept = keptBytes
    kept > 0 && kept + bytes > limit &&
      packs.exists { case (other, pack) => other != batch && pack.isOrdered }
  }

  def isIdle: Boolean = !packs.valuesIterator.exists(_.isOrdered)

  /** How many parts of other batches wait, for the first part of a batch. */
  def waitingBeside(batch: BatchId): Int =
    if (packs.contains(batch)) 0 else packs.valuesIterator.map(_.parts.size).sum
}

object PipelineState {
  val Empty: PipelineState = PipelineState(ListMap.empty)

  /**
   * @param ordered the parts that the ledger wants, once it has said so
   * @param failure problem and cause, where it could not be written
   */
  final case class Pack(
      phase: PackPhase, parts: ListMap[StoreAt, Long], ordered: Option[Seq[StoreAt]], deaths: Int,
      failure: Option[(String, String)] = None) {
    def bytes: Long = parts.valuesIterator.sum

    def isOrdered: Boolean = ordered.nonEmpty

    def to(next: PackPhase): Pack = copy(phase = PackPhase.move(phase, next))
  }
}

sealed trait PipelineEvent {
  def batch: BatchId
}

object PipelineEvent {
  /** A task has submitted its part; a later attempt replaces an earlier one with the same result. */
  final case class PartGiven(batch: BatchId, at: StoreAt, bytes: Long) extends PipelineEvent
  final case class OrdersCame(batch: BatchId, orders: Orders) extends PipelineEvent
  final case class Copied(batch: BatchId) extends PipelineEvent
  final case class Uploaded(batch: BatchId, retries: Int) extends PipelineEvent
  /** The ledger has the acknowledgement, or the report of a failure. */
  final case class Told(batch: BatchId) extends PipelineEvent
  /** A step cannot be done, in spite of retries. */
  final case class StepFailed(batch: BatchId, problem: String, because: String)
    extends PipelineEvent
  /** The thread of a step has died; whether the step was done is not known. */
  final case class StepDied(batch: BatchId) extends PipelineEvent
}

sealed trait PipelineEffect {
  def batch: BatchId
}

object PipelineEffect {
  final case class AskOrders(batch: BatchId) extends PipelineEffect
  final case class CopyHere(batch: BatchId, stores: Seq[StoreAt]) extends PipelineEffect
  final case class Upload(batch: BatchId, stores: Seq[StoreAt]) extends PipelineEffect
  final case class Acknowledge(batch: BatchId, stores: Seq[StoreAt], retries: Int)
    extends PipelineEffect
  final case class Report(batch: BatchId, problem: String, because: String) extends PipelineEffect
  /** Nothing of the batch is needed any more. */
  final case class Forget(batch: BatchId) extends PipelineEffect
}

/**
 * An executor's side of the commit protocol as a function: (state, event) gives (state, effects).
 * The packs of all batches go the same way:
 *  1. Ask for orders: all tasks of the batch are done, and these parts count.
 *  2. Local copy (first acknowledgement).
 *  3. One pack on the checkpoint file system (second acknowledgement).
 *  4. Report to the ledger.
 * A step whose thread died is begun again with 1: the ledger knows whether it still wants the pack,
 * and a pack that was written already is found by its name, which stands for its content.
 *
 * Invariant: a submitted part is kept until step 4, or until the ledger wants it no more.
 */
object PipelineMachine {
  import PipelineEffect._
  import PipelineEvent._
  import PipelineState.Pack

  /** How often the thread of a pack may die before the batch is reported as not written. */
  val MaximumDeaths = 3

  def apply(state: PipelineState, event: PipelineEvent): (PipelineState, Seq[PipelineEffect]) =
    (state.packs.get(event.batch), event) match {
      case (None, PartGiven(batch, at, bytes)) =>
        val pack = Pack(PackPhase.AwaitingOrders, ListMap(at -> bytes), None, deaths = 0)
        put(state, batch, pack) -> Seq(AskOrders(batch))
      case (Some(pack), PartGiven(batch, at, bytes)) =>
        put(state, batch, pack.copy(parts = pack.parts + (at -> bytes))) -> Nil
      case (Some(pack), OrdersCame(batch, orders)) if pack.phase == PackPhase.AwaitingOrders =>
        ordered(state, batch, pack, orders)
      case (Some(pack), Copied(batch)) if pack.phase == PackPhase.Copying =>
        put(state, batch, pack.to(PackPhase.Uploading)) -> Seq(Upload(batch, pack.ordered.get))
      case (Some(pack), Uploaded(batch, retries)) if pack.phase == PackPhase.Uploading =>
        put(state, batch, pack.to(PackPhase.Acknowledging)) ->
          Seq(Acknowledge(batch, pack.ordered.get, retries))
      case (Some(_), Told(batch)) => forget(state, batch)
      case (Some(pack), StepFailed(batch, problem, because)) =>
        report(state, batch, pack, problem, because)
      case (Some(pack), StepDied(batch)) => died(state, batch, pack)
      case _ => state -> Nil // of a pack that is done: a step that was begun twice
    }

  private def ordered(
      state: PipelineState, batch: BatchId, pack: Pack,
      orders: Orders): (PipelineState, Seq[PipelineEffect]) = orders match {
    case Discard => forget(state, batch)
    case Write(stores) =>
      stores.find(at => !pack.parts.contains(at)) match {
        case Some(missing) => report(state, batch, pack.copy(ordered = Some(stores)),
          s"The state of batch ${batch.number} of ${batch.root} could not be written.",
          s"The state of store ${missing.store} is not in this executor's memory any more.")
        case None =>
          put(state, batch, pack.to(PackPhase.Copying).copy(ordered = Some(stores))) ->
            Seq(CopyHere(batch, stores))
      }
  }

  private def died(
      state: PipelineState, batch: BatchId, pack: Pack): (PipelineState, Seq[PipelineEffect]) = {
    val deaths = pack.deaths + 1
    if (pack.phase == PackPhase.Reporting) {
      // The driver waits for a word: as long as it can be given, it is tried again.
      val (problem, because) = pack.failure.get
      if (deaths > 2 * MaximumDeaths) forget(state, batch)
      else put(state, batch, pack.copy(deaths = deaths)) -> Seq(Report(batch, problem, because))
    } else if (deaths > MaximumDeaths) {
      report(state, batch, pack, s"The thread that writes batch ${batch.number} of ${batch.root} " +
        s"has died $deaths times.", "See the executor's log.")
    } else {
      put(state, batch, pack.to(PackPhase.AwaitingOrders).copy(deaths = deaths)) ->
        Seq(AskOrders(batch))
    }
  }

  private def report(
      state: PipelineState, batch: BatchId, pack: Pack, problem: String,
      because: String): (PipelineState, Seq[PipelineEffect]) =
    if (pack.phase == PackPhase.Reporting) {
      forget(state, batch) // the driver does not answer the report
    } else {
      val failed = pack.to(PackPhase.Reporting).copy(failure = Some(problem -> because))
      put(state, batch, failed) -> Seq(Report(batch, problem, because))
    }

  private def forget(
      state: PipelineState, batch: BatchId): (PipelineState, Seq[PipelineEffect]) =
    PipelineState(state.packs - batch) -> Seq(Forget(batch))

  private def put(state: PipelineState, batch: BatchId, pack: Pack): PipelineState =
    PipelineState(state.packs + (batch -> pack))
}
