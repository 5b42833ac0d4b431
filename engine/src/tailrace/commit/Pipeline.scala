package tailrace.commit

import java.util.concurrent.Executor

import scala.collection.mutable

import org.apache.hadoop.fs.FSError
import org.slf4j.LoggerFactory

import tailrace.errors.StoreError
import tailrace.faults.Failpoints
import tailrace.files.Retries
import tailrace.io.{IoJob, IoKind, IoScheduler}
import tailrace.ledger.Messages._

/** The way from an executor to the driver's ledger. Calls wait for the answer. */
trait LedgerLink {
  def executor: String
  def register(message: Register): Admission
  def awaitGate(batch: BatchId): Admission
  def awaitOrders(batch: BatchId): Orders
  def durable(batch: BatchId, pack: String, stores: Seq[StoreAt], retries: Int): Unit
  def notWritten(batch: BatchId, problem: String, because: String): Unit
  def awaitDurable(root: String, batch: Long): Unit
  def oldestNeeded(root: String, store: String, version: Long): Unit
}

/** Where the packs of a checkpoint are written, by jobs that are paced by the bytes they write. */
trait PackTarget {
  /** For errors. */
  def nameOf(pack: String): String
  /** First acknowledgement: a copy on this machine, from which a restart here can load. */
  def writeLocal(pack: SealedPack, io: IoJob): Unit
  /** Second acknowledgement: on the checkpoint file system. Writing the same again is harmless. */
  def upload(pack: SealedPack, io: IoJob): Unit
}

/**
 * Problem: a batch must not wait for its state to be written.
 *
 * Answer: tasks submit sealed batches and go on. All that this executor has for one batch of a
 * query becomes one pack. [[PipelineMachine]] decides the steps; here they are
 * done, each on a thread of `threads`, and the outcome is the next event.
 *
 * Invariants: not more than `limit` bytes are kept: a task that brings more waits, so that a slow
 * file system slows the query down. A thread that dies is noticed, and its pack begun again. A step
 * that takes long is named in a warning.
 */
final class Pipeline(
    link: () => LedgerLink, threads: Executor, failpoints: Failpoints, io: IoScheduler) {
  import Pipeline._

  private var state = PipelineState.Empty
  private val jobs = mutable.Map.empty[BatchId, Job]
  private var watchdog: Thread = _

  /**
   * Takes a sealed batch; waits while too much is kept. Returns, for the first part of a batch, how
   * many parts of other batches are still waiting to be written.
   */
  def submit(
      batch: BatchId, part: SealedBatch, target: PackTarget, limit: Long, retries: Retries): Int =
    synchronized {
      while (state.mustWait(batch, part.bytes.length, limit)) wait()
      val waiting = state.waitingBeside(batch)
      val at = StoreAt(part.store, part.lineage)
      jobs.getOrElseUpdate(batch, new Job(target, retries)).parts(at) = part
      if (watchdog == null) startWatchdog()
      take(PipelineEvent.PartGiven(batch, at, part.bytes.length))
      waiting
    }

  /** Waits until everything that has been ordered is written. */
  def awaitIdle(timeoutMillis: Long): Boolean = synchronized {
    val deadline = System.nanoTime() + timeoutMillis * 1000000L
    var left = timeoutMillis
    while (!state.isIdle && left > 0) {
      wait(left)
      left = (deadline - System.nanoTime()) / 1000000L
    }
    state.isIdle
  }

  // ---- events and effects

  private def take(event: PipelineEvent): Unit = synchronized {
    val (after, effects) = PipelineMachine(state, event)
    state = after
    effects.foreach {
      case PipelineEffect.Forget(batch) => jobs -= batch
      case step => threads.execute(() => run(step, jobs(step.batch)))
    }
    notifyAll()
  }

  private def run(step: PipelineEffect, job: Job): Unit = {
    val batch = step.batch
    val outcome = try {
      perform(step, job)
    } catch {
      case error @ (_: Exception | _: FSError) =>
        log.error(s"${job.doing} has failed.", error)
        val (problem, because) = error match {
          case known: StoreError => known.problem -> known.because
          case other => s"The state of batch ${batch.number} of ${batch.root} could not be " +
            "written." -> other.toString
        }
        PipelineEvent.StepFailed(batch, problem, because)
      case death: Throwable =>
        log.warn(s"The thread that was ${job.doing} has died; another takes over.", death)
        PipelineEvent.StepDied(batch)
    } finally {
      job.rest()
    }
    take(outcome)
  }

  private def perform(step: PipelineEffect, job: Job): PipelineEvent = step match {
    case PipelineEffect.AskOrders(batch) =>
      // Orders may take as long as the batch: no reason for a warning.
      PipelineEvent.OrdersCame(batch, link().awaitOrders(batch))
    case PipelineEffect.CopyHere(batch, stores) =>
      val pack = synchronized(job.pack(batch, stores))
      job.begin(s"writing a local copy of ${pack.name}")
      failpoints.pass("local.before")
      inIoThread(IoKind.LocalCopy, job)(job.target.writeLocal(pack, _))
      failpoints.pass("local.after")
      PipelineEvent.Copied(batch)
    case PipelineEffect.Upload(batch, stores) =>
      val pack = synchronized(job.pack(batch, stores))
      val name = job.target.nameOf(pack.name)
      val repeated = job.retries(s"Writing $name") {
        job.begin(s"writing $name")
        failpoints.pass("upload.before")
        inIoThread(IoKind.Upload, job)(job.target.upload(pack, _))
      }
      failpoints.pass("upload.after")
      PipelineEvent.Uploaded(batch, repeated)
    case PipelineEffect.Acknowledge(batch, stores, retries) =>
      job.begin(s"telling the driver of batch ${batch.number}")
      failpoints.pass("acknowledge.before")
      link().durable(batch, synchronized(job.pack(batch, stores)).name, stores, retries)
      failpoints.pass("acknowledge.after")
      PipelineEvent.Told(batch)
    case PipelineEffect.Report(batch, problem, because) =>
      link().notWritten(batch, problem, because)
      PipelineEvent.Told(batch)
    case PipelineEffect.Forget(_) => throw new IllegalStateException("there is nothing to do")
  }

  private def inIoThread(kind: IoKind, job: Job)(body: IoJob => Unit): Unit =
    io.submit(kind, job.doing)(body).await()

  // ---- the watchdog

  private def startWatchdog(): Unit = {
    watchdog = new Thread(() => watch(), "tailrace-commit-watchdog")
    watchdog.setDaemon(true)
    watchdog.start()
  }

  private def watch(): Unit = while (true) {
    Thread.sleep(WatchMillis)
    synchronized(jobs.values.toSeq).filter(_.isSilent).foreach { job =>
      job.warned = true
      log.warn(s"A commit thread has been ${job.doing} for ${SilenceMillis / 1000} s; the query " +
        "waits once the next batch is done. Is the checkpoint file system reachable?")
    }
  }
}

object Pipeline {
  private val log = LoggerFactory.getLogger(classOf[Pipeline])
  private val WatchMillis = 1000L
  private val SilenceMillis = 30L * 1000

  /** The bytes of a batch, where they go, and the step that is being done. */
  private final class Job(val target: PackTarget, val retries: Retries) {
    val parts = mutable.LinkedHashMap.empty[StoreAt, SealedBatch]
    private var sealedPack: SealedPack = _
    @volatile var doing = "waiting for orders"
    @volatile var warned = false
    @volatile private var beganNanos = 0L

    /** The heartbeat: the thread begins this step now. */
    def begin(what: String): Unit = {
      doing = what
      beganNanos = System.nanoTime()
    }

    def rest(): Unit = beganNanos = 0L

    def isSilent: Boolean = {
      val began = beganNanos
      began != 0L && !warned && System.nanoTime() - began > SilenceMillis * 1000000L
    }

    /** The same for every step: orders for a batch do not change. */
    def pack(batch: BatchId, stores: Seq[StoreAt]): SealedPack = {
      if (sealedPack == null) sealedPack = SealedPack(batch.number + 1, stores.map(parts))
      sealedPack
    }
  }
}
