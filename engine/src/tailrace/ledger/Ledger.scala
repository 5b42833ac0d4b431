package tailrace.ledger

import java.util.concurrent.{CompletableFuture, Executor, TimeUnit}
import java.util.concurrent.TimeoutException

import scala.collection.mutable

import org.apache.hadoop.fs.FileAlreadyExistsException
import org.slf4j.LoggerFactory

import tailrace.faults.{Failpoints, Rules}
import tailrace.files.Retries
import tailrace.io.Clock
import tailrace.ledger.LedgerEffect._
import tailrace.ledger.LedgerEvent._
import tailrace.ledger.Messages._

/**
 * The driver's ledger: the phase of every batch of every checkpoint, and the calls that wait for it.
 * [[LedgerMachine]] decides; here its effects are carried out: answers are given, files are touched
 * on `work`, and the outcome is the next event.
 *
 * Invariant: events are taken one at a time. No method blocks but those whose name begins with
 * `await`.
 */
final class Ledger(
    work: Executor, retries: Retries, rules: Rules, failpoints: Failpoints, clock: Clock) {
  import Ledger._

  private val machine = new LedgerMachine(rules)
  private var state = LedgerState.Empty
  private var lastToken = 0L
  private val callers = mutable.LongMap.empty[Any => Unit]
  private val files = mutable.Map.empty[(Log, BatchId), HeldFile]
  private val packs = mutable.Map.empty[String, PackFiles]

  // ---- from Spark's log files, on the driver

  /** A query has listed its logs and goes on with batch `next`: the ledger takes its batches. */
  def beginRun(root: String, run: String, next: Long, packFiles: PackFiles): Unit = synchronized {
    packs(root) = packFiles
    take(RunBegan(root, run, next))
  }

  /** Whether batches of this run go through the ledger, as far as is known before they begin. */
  def isAsynchronous(root: String, run: String): Boolean =
    synchronized(state.current(root, run).exists(_.isAsynchronous))

  /** Whether this batch's log entries cannot be there yet, unless another query writes them. */
  def isNew(batch: BatchId): Boolean = synchronized {
    state.current(batch).exists(known => known.isAsynchronous && batch.number >= known.next)
  }

  /** Whether tasks of this batch have registered, so that its `commits` entry is held back. */
  def isRegistered(batch: BatchId): Boolean = synchronized {
    state.current(batch).flatMap(_.batches.get(batch.number)).exists(_.isRegistered)
  }

  /** Whether the ledger takes the batches of this run. */
  def knows(root: String, run: String): Boolean = synchronized {
    state.checkpoints.get(root).exists(known => known.run == run || known.endedRuns(run))
  }

  /** Whether no batch of this run has been committed yet. */
  def isFirstOfRun(batch: BatchId): Boolean =
    synchronized(state.current(batch).exists(!_.isTidied))

  /** Fails if this run cannot go on. */
  def verify(root: String, run: String): Unit = synchronized {
    state.current(root, run).flatMap(_.failure).foreach(refused => throw refused.asError)
  }

  /** `offsets/N` is written beside the batch; its tasks are admitted when it is there. */
  def takeOffsets(batch: BatchId, held: HeldFile): Unit = synchronized {
    if (state.current(batch).nonEmpty) {
      files((Log.Offsets, batch)) = held
      take(OffsetsTaken(batch))
    }
  }

  /** All tasks of the batch are done. */
  def takeCommit(batch: BatchId, held: HeldFile): Unit = synchronized {
    files((Log.Commits, batch)) = held
    var refused: Option[Refused] = None
    take(CommitTaken(batch, call[Any] {
      case reason: Refused => refused = Some(reason)
      case _ =>
    }))
    refused.foreach { reason =>
      files -= ((Log.Commits, batch))
      throw reason.asError
    }
  }

  /** Before the first batch of a run is published: removes packs of it from before a crash. */
  def tidyBefore(batch: BatchId): Unit = {
    val due = synchronized {
      var now = false
      take(TidyAsked(batch, call[LedgerAnswer.Tidy](answer => now = answer.now)))
      if (now) packs.get(batch.root) else None
    }
    due.foreach(_.deleteOthers(batch.number + 1, Set.empty))
  }

  /** A batch that did not go through the ledger is in `commits`. */
  def committedDirectly(batch: BatchId): Unit = synchronized(take(CommittedDirectly(batch)))

  /** Returns when the batch is published; throws when it never will be. */
  def awaitPublished(batch: BatchId): Unit =
    ask(PublishedAsked(batch, _)).get() match {
      case refused: Refused => throw refused.asError
      case _ =>
    }

  /** Returns when no batch of this checkpoint is pending, with the failure of a write, if any. */
  def awaitQuiet(root: String, timeoutMillis: Long): Option[Refused] = {
    var token = 0L
    val asked = ask { given =>
      token = given
      QuietAsked(root, given)
    }
    try {
      asked.get(timeoutMillis, TimeUnit.MILLISECONDS).asInstanceOf[LedgerAnswer.Quiet].failure
    } catch {
      case _: TimeoutException =>
        synchronized {
          callers -= token
          take(QuietGivenUp(root, token))
        }
        throw new CommitFailed(Refusals.notQuiet(root, timeoutMillis))
    }
  }

  /** The same for all checkpoints below (or at) this path; null is all. */
  def awaitQuietBelow(path: String, timeoutMillis: Long): Seq[Refused] = {
    val roots = synchronized(state.checkpoints.keys.filter { root =>
      path == null || root == path || root.startsWith(if (path.endsWith("/")) path else path + "/")
    }.toSeq)
    roots.flatMap(awaitQuiet(_, timeoutMillis))
  }

  /**
   * The session ends. Batches that were handed over are still written; the executors of all others are
   * lost, so that those must not be published.
   */
  def close(): Unit = synchronized(take(SessionEnded))

  /** A run is over: the parts of its unfinished batch are dropped. */
  def ended(run: String): Unit = synchronized(take(RunEnded(run)))

  def executorLost(executor: String): Unit = synchronized(take(ExecutorLost(executor)))

  // ---- from the executors

  def register(message: Register)(reply: Admission => Unit): Unit = synchronized {
    take(Registering(message, call[Admission](reply)))
  }

  def gate(batch: BatchId)(reply: Admission => Unit): Unit = synchronized {
    take(GateAsked(batch, call[Admission](reply)))
  }

  def orders(message: AwaitOrders)(reply: Orders => Unit): Unit = synchronized {
    take(OrdersAsked(message, call[Orders](reply)))
  }

  def durable(message: Durable): Unit = {
    failpoints.pass("ledger.before")
    synchronized(take(PartsDurable(message)))
    failpoints.pass("ledger.after")
  }

  def notWritten(message: NotWritten): Unit = synchronized(take(PartsNotWritten(message)))

  def durableOrGone(message: AwaitDurable)(reply: () => Unit): Unit = synchronized {
    take(DurableAsked(message, call[Any](_ => reply())))
  }

  def oldestNeeded(message: OldestNeeded): Unit = synchronized(take(NeededFrom(message)))

  // ---- events and effects, under the lock

  private def take(event: LedgerEvent): Unit = {
    val (after, effects) = machine(state, event, clock.nanos)
    state = after
    effects.foreach(carryOut)
  }

  private def carryOut(effect: LedgerEffect): Unit = effect match {
    case Answer(token, answer) => callers.remove(token).foreach(_(answer))
    case Start(step) => work.execute(() => run(step))
    case DropOffsets(batch) => drop(Log.Offsets, batch)
    case DropCommit(batch) => drop(Log.Commits, batch)
    case DeletePacks(root, upTo) => packs.get(root).foreach(deletePacks(root, _, upTo))
    case LogError(text) => log.error(text)
    case Warn(text) => log.warn(text)
  }

  /** The machine answers each kind of call with answers of one kind. */
  private def call[T](reply: T => Unit): Long = {
    lastToken += 1
    callers(lastToken) = answer => reply(answer.asInstanceOf[T])
    lastToken
  }

  private def ask(event: Long => LedgerEvent): CompletableFuture[Any] = synchronized {
    val answer = new CompletableFuture[Any]
    take(event(call[Any](given => answer.complete(given))))
    answer
  }

  // ---- steps, on other threads

  private def run(step: Step): Unit = {
    val outcome = try StepDone(step, perform(step)) catch {
      case error: Throwable => StepFailed(step, Refusals.logNotWritten(step.batch, error))
    }
    synchronized {
      step match {
        case Step.PublishCommit(batch, _) => files -= ((Log.Commits, batch))
        case Step.PublishOffsets(batch) => files -= ((Log.Offsets, batch))
        case _ =>
      }
      take(outcome)
    }
  }

  /** Returns the number of retries. */
  private def perform(step: Step): Int = step match {
    case Step.PrepareCommit(batch) => prepare(Log.Commits, batch, "commit.prepare")
    case Step.PrepareOffsets(batch) => prepare(Log.Offsets, batch, "offset.prepare")
    case Step.PublishOffsets(batch) =>
      val waited = fileOf(Log.Offsets, batch).exists(_.isPrepared)
      (if (waited) 0 else prepare(Log.Offsets, batch, "offset.prepare")) +
        publish(Log.Offsets, batch, "offset")
    case Step.PublishCommit(batch, firstOfRun) =>
      firstOfRun.foreach(tidy(batch, _))
      publish(Log.Commits, batch, "publish")
  }

  /** Packs of this batch from a run that crashed are deleted before the batch is published. */
  private def tidy(batch: BatchId, written: Set[String]): Unit = {
    // A batch that is published already is another query's, and its packs are not ours to tidy.
    fileOf(Log.Commits, batch).filter(_.isTaken).foreach { held =>
      throw new FileAlreadyExistsException(s"${held.name} exists already")
    }
    synchronized(packs.get(batch.root)).foreach { files =>
      retries(s"Tidying the packs of ${batch.root}")(files.deleteOthers(batch.number + 1, written))
    }
  }

  private def prepare(log: Log, batch: BatchId, point: String): Int = {
    failpoints.pass(s"$point.before")
    val repeated = fileOf(log, batch).fold(0) { held =>
      retries(s"Preparing ${held.name}")(held.prepare())
    }
    failpoints.pass(s"$point.after")
    repeated
  }

  /** A step that seemed to fail may have been done: from the second attempt on, look first. */
  private def publish(log: Log, batch: BatchId, point: String): Int = {
    failpoints.pass(s"$point.before")
    var attempts = 0
    val repeated = fileOf(log, batch).fold(0) { held =>
      retries(s"Writing ${held.name}") {
        attempts += 1
        if (attempts == 1 || !held.isPublished) held.publish()
      }
    }
    failpoints.pass(s"$point.after")
    repeated
  }

  private def fileOf(log: Log, batch: BatchId): Option[HeldFile] =
    synchronized(files.get((log, batch)))

  private def drop(log: Log, batch: BatchId): Unit = files.remove((log, batch)).foreach { held =>
    inBackground(s"What was prepared of ${held.name} is left behind.")(held.drop())
  }

  private def deletePacks(root: String, files: PackFiles, upTo: Long): Unit =
    inBackground(s"Old packs of $root were not deleted.")(files.deleteUpTo(upTo))

  /** Work whose failure costs nothing but space. */
  private def inBackground(otherwise: String)(body: => Unit): Unit = work.execute { () =>
    try body catch { case error: Exception => log.warn(otherwise, error) }
  }
}

object Ledger {
  private val log = LoggerFactory.getLogger(classOf[Ledger])

  private sealed trait Log
  private object Log {
    case object Offsets extends Log
    case object Commits extends Log
  }
}
