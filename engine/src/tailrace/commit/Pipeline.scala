package tailrace.commit

import java.io.IOException
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable

import org.slf4j.LoggerFactory

import tailrace.commit.Messages._
import tailrace.errors.StoreError
import tailrace.faults.Failpoint

/** The way from an executor to the driver's ledger. Calls wait for the answer. */
trait LedgerLink {
  def executor: String
  def enter(message: Enter): Entry
  def awaitGate(batch: BatchId): Entry
  def awaitOrders(batch: BatchId): Orders
  def durable(batch: BatchId, pack: String, stores: Seq[StoreAt], retries: Int): Unit
  def notWritten(batch: BatchId, problem: String, because: String): Unit
  def awaitDurable(root: String, batch: Long): Unit
  def oldestNeeded(root: String, store: String, version: Long): Unit
}

/** Where the packs of a checkpoint are written. */
trait PackTarget {
  /** For errors. */
  def nameOf(pack: String): String
  /** First acknowledgement: a copy on this machine, from which a restart here can load. */
  def writeLocal(pack: SealedPack): Unit
  /** Second acknowledgement: on the checkpoint file system. Writing the same again is harmless. */
  def upload(pack: SealedPack): Unit
}

/**
 * Problem: a batch must not wait for its state to be written.
 *
 * Answer: tasks leave sealed batches here and go on. All that this executor has for one batch of a
 * query is a group; a thread of its own takes it through:
 *  1. Wait for orders: all tasks of the batch are done, and these parts count.
 *  2. Local copy (first acknowledgement).
 *  3. One pack on the checkpoint file system (second acknowledgement), with retries.
 *  4. Tell the ledger.
 *
 * Invariants: what was submitted is kept until step 4 or until the ledger wants it no more. Not more
 * than `limit` bytes are kept: a task that brings more waits, so that a slow file system slows the
 * query down. A thread that dies is noticed by the watchdog, and its group starts again; a pack that
 * was written already is found by its name, which stands for its content.
 */
final class Pipeline(link: () => LedgerLink) {
  import Pipeline._

  private val groups = mutable.LinkedHashMap.empty[BatchId, Group]
  private var keptBytes = 0L
  private var watchdog: Thread = _

  /**
   * Leaves a sealed batch; waits while too much is kept. The first part of a batch is told how many
   * parts of other batches are still waiting to be written.
   */
  def submit(
      batch: BatchId, part: SealedBatch, target: PackTarget, limit: Long, retries: Retries): Int =
    synchronized {
      while (keptBytes > 0 && keptBytes + part.bytes.length > limit && awaitsWriting(batch)) wait()
      val waiting = if (groups.contains(batch)) 0 else groups.valuesIterator.map(_.parts.size).sum
      val group = groups.getOrElseUpdate(batch, {
        val made = new Group(batch, target, retries)
        startWorker(made)
        made
      })
      val replaced = group.parts.put(StoreAt(part.store, part.lineage), part)
      keptBytes += part.bytes.length - replaced.fold(0L)(_.bytes.length)
      if (watchdog == null) startWatchdog()
      waiting
    }

  /** Waits until everything that has been ordered is written. */
  def awaitIdle(timeoutMillis: Long): Boolean = synchronized {
    val deadline = System.nanoTime() + timeoutMillis * 1000000L
    var left = timeoutMillis
    while (groups.valuesIterator.exists(_.isOrdered) && left > 0) {
      wait(left)
      left = (deadline - System.nanoTime()) / 1000000L
    }
    !groups.valuesIterator.exists(_.isOrdered)
  }

  /**
   * Only other batches give memory back while this one goes on, and only those whose tasks are done:
   * two queries that run at the same time would otherwise wait for each other.
   */
  private def awaitsWriting(batch: BatchId): Boolean = groups.exists { case (id, group) =>
    id != batch && group.isOrdered
  }

  // ---- a group's thread

  private def startWorker(group: Group): Unit = {
    group.worker = new Thread(() => run(group), s"tailrace-commit-${count.incrementAndGet()}")
    group.worker.setDaemon(true)
    group.worker.start()
  }

  private def run(group: Group): Unit = {
    val ledger = link()
    try {
      // 1.
      group.beat("waiting for orders")
      ledger.awaitOrders(group.batch) match {
        case Discard =>
        case Write(stores) =>
          synchronized(group.isOrdered = true)
          val pack = synchronized(group.pack(stores))
          // 2.
          group.beat(s"writing a local copy of ${pack.name}")
          Failpoint.pass("local.before")
          group.target.writeLocal(pack)
          Failpoint.pass("local.after")
          // 3.
          group.beat(s"writing ${group.target.nameOf(pack.name)}")
          val repeated = group.retries(s"Writing ${group.target.nameOf(pack.name)}") {
            group.beat(s"writing ${group.target.nameOf(pack.name)}")
            Failpoint.pass("upload.before")
            group.target.upload(pack)
          }
          Failpoint.pass("upload.after")
          // 4.
          Failpoint.pass("acknowledge.before")
          ledger.durable(group.batch, pack.name, stores, repeated)
          Failpoint.pass("acknowledge.after")
      }
      finished(group)
    } catch {
      case error: Exception =>
        val (problem, because) = error match {
          case known: StoreError => known.problem -> known.because
          case other => s"The state of batch ${group.batch.number} of ${group.batch.root} could " +
            "not be written." -> other.toString
        }
        log.error(problem, error)
        try ledger.notWritten(group.batch, problem, because) catch {
          case unheard: Exception => log.error("The driver could not be told.", unheard)
        }
        finished(group)
    }
  }

  private def finished(group: Group): Unit = synchronized {
    if (groups.get(group.batch).exists(_ eq group)) {
      groups -= group.batch
      keptBytes -= group.parts.valuesIterator.map(_.bytes.length).sum
    }
    notifyAll()
  }

  // ---- the watchdog

  private def startWatchdog(): Unit = {
    watchdog = new Thread(() => watch(), "tailrace-commit-watchdog")
    watchdog.setDaemon(true)
    watchdog.start()
  }

  private def watch(): Unit = while (true) {
    Thread.sleep(HeartbeatMillis)
    val (dead, slow) = synchronized {
      groups.values.toSeq.partition(!_.worker.isAlive) match {
        case (gone, alive) => gone -> alive.filter(_.isSilent)
      }
    }
    dead.foreach { group =>
      group.deaths += 1
      if (group.deaths > MaximumDeaths) {
        try {
          link().notWritten(group.batch, s"The thread that writes batch ${group.batch.number} of " +
            s"${group.batch.root} has died ${group.deaths} times.", "See the executor's log.")
        } catch {
          case unheard: Exception => log.error("The driver could not be told.", unheard)
        } finally {
          finished(group)
        }
      } else {
        log.warn(s"The thread that was ${group.doing} has died; another takes over.")
        synchronized(startWorker(group))
      }
    }
    slow.foreach { group =>
      group.warned = true
      log.warn(s"A commit thread has been ${group.doing} for ${SilenceMillis / 1000} s; the query " +
        "waits once the next batch is done. Is the checkpoint file system reachable?")
    }
  }
}

object Pipeline {
  private val log = LoggerFactory.getLogger(classOf[Pipeline])
  private val count = new AtomicInteger
  private val HeartbeatMillis = 250L
  private val SilenceMillis = 30L * 1000
  private val MaximumDeaths = 3

  private final class Group(
      val batch: BatchId, val target: PackTarget, val retries: Retries) {
    val parts = mutable.LinkedHashMap.empty[StoreAt, SealedBatch]
    @volatile var worker: Thread = _
    var isOrdered = false
    var deaths = 0
    @volatile var doing = ""
    @volatile var warned = false
    @volatile private var beatNanos = System.nanoTime()

    /** The heartbeat: what the thread begins to do now. */
    def beat(what: String): Unit = {
      doing = what
      beatNanos = System.nanoTime()
    }

    /** Orders may take as long as the batch; everything else is a matter of seconds. */
    def isSilent: Boolean = isOrdered && !warned &&
      System.nanoTime() - beatNanos > SilenceMillis * 1000000L

    def pack(stores: Seq[StoreAt]): SealedPack = SealedPack(batch.number + 1, stores.map { at =>
      parts.getOrElse(at, throw new IOException(
        s"The state of store ${at.store} is not in this executor's memory any more."))
    })
  }
}
