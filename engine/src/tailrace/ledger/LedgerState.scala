package tailrace.ledger

import scala.collection.immutable.{ListMap, TreeMap}

import tailrace.ledger.Messages._

/** All that the ledger knows. Values only: [[LedgerMachine]] makes a new one from an old one. */
final case class LedgerState(
    checkpoints: Map[String, Checkpoint], lostExecutors: Set[String], isClosed: Boolean) {

  /** The checkpoint, if this is its current run. */
  def current(batch: BatchId): Option[Checkpoint] = current(batch.root, batch.run)

  def current(root: String, run: String): Option[Checkpoint] =
    checkpoints.get(root).filter(_.run == run)
}

object LedgerState {
  val Empty: LedgerState = LedgerState(Map.empty, Set.empty, isClosed = false)

  /** Names a call whose answer may come later. */
  type Token = Long
}

/**
 * A checkpoint and the run of the query that writes to it.
 *
 * @param published      the newest batch whose `commits` entry is there
 * @param next           the batch whose tasks may register
 * @param offsets        batches whose `offsets` entry was taken from Spark and is not visible yet
 * @param isAsynchronous the batch before committed stores through the ledger, so the next one will
 * @param isTidied       the deletion of an earlier run's packs of this run's first batch is ordered
 * @param report         the numbers that the first task of the next batch reports
 * @param stores         the stores of the last batch
 * @param oldestNeeded   by store, from which version on it needs the packs
 * @param steps          steps on other threads that have not ended, of earlier runs too
 */
final case class Checkpoint(
    root: String,
    run: String,
    endedRuns: Set[String],
    published: Long,
    next: Long,
    batches: TreeMap[Long, Batch] = TreeMap.empty,
    offsets: Map[Long, OffsetsPhase] = Map.empty,
    failure: Option[Refused] = None,
    isAsynchronous: Boolean = false,
    isTidied: Boolean = false,
    report: Report = Report.Empty,
    slowInARow: Int = 0,
    stores: Set[String] = Set.empty,
    oldestNeeded: Map[String, Long] = Map.empty,
    packsDeletedUpTo: Long = 0L,
    steps: Int = 0,
    awaitingQuiet: Vector[LedgerState.Token] = Vector.empty) {

  def gateIsOpen(batch: Long): Boolean = published >= batch - 1 && !offsets.contains(batch)

  def unpublished: Int = batches.valuesIterator.count(_.isPending)

  /** Nothing is being written, and nothing will be before another batch is handed over. */
  def isQuiet: Boolean = steps == 0 && unpublished == 0 && offsets.isEmpty

  def updated(batch: Batch): Checkpoint = copy(batches = batches + (batch.number -> batch))
}

/** Where an `offsets` entry is that was taken from Spark. */
sealed trait OffsetsPhase

object OffsetsPhase {
  /** It waits until the batch before is published. */
  case object Taken extends OffsetsPhase
  /** It is being made visible. */
  case object Publishing extends OffsetsPhase
}

/** The cost of one batch beside the next, for the metrics of that one. */
final case class Report(hiddenMillis: Long, unpublished: Int, retries: Int)

object Report {
  val Empty: Report = Report(0L, 0, 0)
}

/**
 * A batch that is not published yet.
 *
 * @param stores       by store, or by store and lineage where Spark remembers the lineages
 * @param isFirstOfRun beside its packs there may be some of an earlier run: they are deleted
 *                     before it is published, and its version is not loaded before that
 */
final case class Batch(
    number: Long,
    phase: BatchPhase = BatchPhase.Running,
    stores: ListMap[Batch.Key, Batch.Registered] = ListMap.empty,
    atGate: Vector[(LedgerState.Token, Long)] = Vector.empty,
    awaitingOrders: Vector[(LedgerState.Token, String)] = Vector.empty,
    awaitingDurable: Vector[LedgerState.Token] = Vector.empty,
    awaitingPublished: Vector[LedgerState.Token] = Vector.empty,
    packs: Set[String] = Set.empty,
    isFirstOfRun: Boolean = false,
    appliedNanos: Long = 0L,
    retries: Int = 0) {

  def isRegistered: Boolean = stores.nonEmpty

  def isPending: Boolean = phase == BatchPhase.Applied || phase == BatchPhase.Durable

  def allDurable: Boolean = stores.valuesIterator.forall(_.durable)

  def to(next: BatchPhase): Batch = copy(phase = BatchPhase.move(phase, next))

  /** The parts that this executor has to write. None, if its parts are durable or were all replaced. */
  def ordersFor(executor: String): Orders = {
    val parts = stores.valuesIterator.filter(s => s.executor == executor && !s.durable).map(_.at).toSeq
    if (parts.isEmpty) Discard else Write(parts)
  }
}

object Batch {
  final case class Key(store: String, lineage: Option[Long])

  final case class Registered(at: StoreAt, executor: String, durable: Boolean = false)
}
