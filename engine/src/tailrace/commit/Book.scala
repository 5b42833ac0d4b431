package tailrace.commit

import scala.collection.mutable

import tailrace.commit.Messages._

/** `commits/N` as Spark handed it over, on its way to the checkpoint. */
trait HeldFile {
  def name: String
  /** All but the last step, which can run while the batch's state is still being written. */
  def prepare(): Unit
  /** The one step that makes the file visible. */
  def publish(): Unit
  /** Whether a file of this name is there: before we publish, it is another query's. */
  def isTaken: Boolean = false
  /** Whether the file is there with our content: a step that seemed to fail may have been done. */
  def isPublished: Boolean
}

/** One batch in the ledger. All its fields belong to the ledger's lock. */
private[commit] final class Batch(val number: Long) {
  private var current: BatchState = BatchState.Running
  /** By store, or by store and lineage where Spark remembers the lineages. */
  val stores = mutable.LinkedHashMap.empty[Any, Batch.Registered]
  val waitingAtGate = mutable.ArrayBuffer.empty[(Long, Entry => Unit)]
  val waitingForOrders = mutable.ArrayBuffer.empty[(String, Orders => Unit)]
  val waitingForDurable = mutable.ArrayBuffer.empty[() => Unit]
  val packs = mutable.Set.empty[String]
  var held: HeldFile = _
  var appliedNanos = 0L
  var retries = 0

  def state: BatchState = current

  def move(to: BatchState): Unit = current = BatchState.move(current, to)

  def isPending: Boolean = current == BatchState.Applied || current == BatchState.Durable

  def allDurable: Boolean = stores.valuesIterator.forall(_.durable)

  /** What this executor has to write. Nothing, if its parts are durable or were all replaced. */
  def ordersFor(executor: String): Orders = {
    val parts = stores.valuesIterator.filter(s => s.executor == executor && !s.durable).map(_.at).toSeq
    if (parts.isEmpty) Discard else Write(parts)
  }
}

private[commit] object Batch {
  final class Registered(val at: StoreAt, val executor: String) {
    var durable = false
  }
}

/** What the ledger knows of one checkpoint. All its fields belong to the ledger's lock. */
private[commit] final class Book(val root: String) {
  var run: String = _
  val endedRuns = mutable.Set.empty[String]
  val batches = mutable.TreeMap.empty[Long, Batch]
  var published: Long = -1L
  /** The batch whose tasks may enter. */
  var next: Long = 0L
  /** Batches whose `offsets` entry is still being written. */
  val offsetsPending = mutable.Set.empty[Long]
  /** Offsets beyond `commits + 1` that were found when the run began and are still there. */
  var dangling = Seq.empty[Long]
  var failure: Option[Refused] = None
  /** Whether the batch before committed stores through the ledger, so that the next one will, too. */
  var asynchronous = false
  /** Whether packs of this run's first batch were compared with what an earlier run left behind. */
  var swept = false
  // What the first task of the next batch reports.
  var lastHiddenMillis = 0L
  var unpublishedAtEntry = 0
  var lastRetries = 0
  var slowInARow = 0
  /** The stores of the last batch, and from which version on each needs the packs. */
  var stores = Set.empty[String]
  val oldestNeeded = mutable.Map.empty[String, Long]
  var packsDeletedBelow = 0L
  var packs: Ledger.PackFiles = _
  var packsExist = false
  /** Steps on other threads that have not ended. */
  var underWay = 0

  /** Starts behind the newest entry of `commits`; returns what the run before left. */
  def beginRun(
      newRun: String, committed: Long, packFiles: Ledger.PackFiles,
      hasPacks: Boolean): Seq[Batch] = {
    if (run != null) endedRuns += run
    run = newRun
    packs = packFiles
    packsExist = hasPacks
    val left = batches.values.toSeq
    batches.clear()
    offsetsPending.clear()
    failure = None
    published = committed
    next = committed + 1
    asynchronous = false
    swept = false
    // A query that was set back may need older packs than its former run did.
    stores = Set.empty
    oldestNeeded.clear()
    packsDeletedBelow = 0L
    slowInARow = 0
    left
  }

  def gateIsOpen(batch: Long): Boolean = published >= batch - 1 && !offsetsPending(batch)

  def unpublished: Int = batches.valuesIterator.count(_.isPending)

  /** Nothing is being written, and nothing will be before another batch is handed over. */
  def isQuiet: Boolean = underWay == 0 && unpublished == 0
}
