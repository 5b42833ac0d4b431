package tailrace.io

import java.util.concurrent.ThreadFactory

import scala.collection.mutable
import scala.util.{Failure, Success, Try}

import org.slf4j.LoggerFactory

import tailrace.faults.Failpoints

/**
 * Problem: uploads, spilling, cleaning and snapshots share one disk and a few cores with the batches.
 * Each with threads of its own, they get in each other's way: a snapshot slows down the upload that
 * the next batch waits for.
 *
 * Answer: one scheduler per process. A job runs in a thread of the scheduler while it holds one of a
 * few permits; permits go to the most urgent kind, inside a kind to the job that came first. A job
 * paces itself as it moves bytes: there it pauses when a more urgent one waits for a permit, and
 * takes its tokens of the bandwidth.
 *
 * Invariants: not more jobs run than there are permits, and no kind holds them all. Some jobs need no
 * permit, because tasks wait for them, and uploads or snapshots to a checkpoint that does not answer
 * must not be in their way: one that spills, and a few that read, each of which mostly waits for the
 * disk. Tokens go to the most urgent job that waits for some. The outcome of a job is in its ticket,
 * and an error is in the log, too. No lock is held while a job's own code runs.
 *
 * @param queueLimit jobs of a kind that wait to begin; a thread that submits more waits
 * @param failpoints where a test ends the process, or fails a job, while somebody waits for it
 */
final class IoScheduler(
    firstPermits: Int, queueLimit: Int, clock: Clock, threads: ThreadFactory,
    failpoints: Failpoints = new Failpoints) {
  import IoScheduler._

  private val lock = new Object
  // All that follows is guarded by `lock`.
  private var permitCount = firstPermits
  private val bucket = new TokenBucket[Job[_]](clock)
  private val waiting = mutable.TreeSet.empty[Job[_]] // new and paused ones, most urgent first
  private val assigned = mutable.Queue.empty[Job[_]] // for threads that have nothing to do
  private var idleThreads = 0
  private var running = 0
  private val runningOf = mutable.Map.empty[IoKind, Int].withDefaultValue(0)
  private val queued = mutable.Map.empty[IoKind, Int].withDefaultValue(0)
  private val counts = mutable.Map.empty[IoKind, IoCounts].withDefaultValue(IoCounts())
  private var nextNumber = 0L
  private var isShutDown = false

  def permits: Int = lock.synchronized(permitCount)

  /** Jobs that run above a smaller number pause when they pace themselves next. */
  def permits_=(count: Int): Unit = lock.synchronized {
    permitCount = count
    dispatch()
  }

  /** For all jobs together; 0: no limit. */
  def bytesPerSecond_=(bytes: Long): Unit = lock.synchronized {
    bucket.bytesPerSecond = bytes
    lock.notifyAll()
  }

  def bytesPerSecond: Long = lock.synchronized(bucket.bytesPerSecond)

  /** Waits while too many jobs of the kind have not begun. */
  def submit[T](kind: IoKind, what: String)(body: IoJob => T): IoTicket[T] = lock.synchronized {
    if (queued(kind) >= queueLimit && isIoThread) {
      throw new IllegalStateException(
        s"$what: an I/O thread must not wait for the queue that it is there to empty")
    }
    while (queued(kind) >= queueLimit && !isShutDown) lock.wait()
    val job = new Job[T](kind, what, nextNumber, body)
    nextNumber += 1
    if (isShutDown) {
      job.end(Failure(new IoCancelled(what)))
    } else {
      queued(kind) += 1
      waiting += job
      dispatch()
    }
    job
  }

  def countsOf(kind: IoKind): IoCounts = lock.synchronized(counts(kind))

  /** Jobs of the kind that wait to begin, and those that run now. */
  def queuedOf(kind: IoKind): Int = lock.synchronized(queued(kind))

  def runningNow(kind: IoKind): Int = lock.synchronized(runningOf(kind))

  /** No job is begun any more; returns when those that run have ended. */
  def shutDown(): Unit = lock.synchronized {
    isShutDown = true
    waiting.toSeq.foreach(_.cancel())
    lock.notifyAll()
    while (running > 0 || waiting.nonEmpty) lock.wait()
  }

  // ---- permits

  /** Hands out the free permits. */
  private def dispatch(): Unit = {
    var next = waiting.find(mayRun)
    while (next.isDefined) {
      waiting -= next.get
      grant(next.get)
      next = waiting.find(mayRun)
    }
    lock.notifyAll()
  }

  private def mayRun(job: Job[_]): Boolean =
    isFree(job) || (heldPermits < permitCount && mayHold(job))

  /** Jobs that run, but for those that need no permit. */
  private def heldPermits: Int =
    running - IoKind.all.map(kind => math.min(kind.free, runningOf(kind))).sum

  private def isFree(job: Job[_]): Boolean = runningOf(job.kind) < job.kind.free

  private def mayHold(job: Job[_]): Boolean =
    runningOf(job.kind) < math.max(1, permitCount - 1)

  private def grant(job: Job[_]): Unit = {
    running += 1
    runningOf(job.kind) += 1
    val begins = job.phase == Phase.Queued
    job.moveTo(Phase.Running)
    if (begins) {
      queued(job.kind) -= 1
      if (idleThreads > assigned.size) assigned += job else startThread(job)
    }
  }

  private def giveUp(job: Job[_]): Unit = {
    running -= 1
    runningOf(job.kind) -= 1
  }

  /** Whether a more urgent job would run in the place of this one. */
  private def mustPause(job: Job[_]): Boolean = {
    val isFreeNow = runningOf(job.kind) <= job.kind.free
    !isFreeNow && (heldPermits > permitCount || (heldPermits == permitCount &&
      waiting.exists(other => other.kind.urgency < job.kind.urgency && mayHold(other))))
  }

  // ---- threads

  /** Without a thread the job has failed: its permit is for another one. */
  private def startThread(first: Job[_]): Unit = try {
    threads.newThread(() => {
      inIoThread.set(true)
      var job = first
      while (job != null) {
        job.run()
        job = nextAssigned()
      }
    }).start()
  } catch {
    case error: Throwable => // an OutOfMemoryError, if the machine has no more threads
      log.warn(s"${first.what} failed: there is no thread for it.", error)
      giveUp(first)
      first.end(Failure(error))
  }

  private def nextAssigned(): Job[_] = lock.synchronized {
    idleThreads += 1
    try {
      var left = KeptMillis
      while (assigned.isEmpty && left > 0 && !isShutDown) {
        val before = System.nanoTime()
        lock.wait(left)
        left -= (System.nanoTime() - before) / 1000000L
      }
      if (assigned.isEmpty) null else assigned.dequeue()
    } finally {
      idleThreads -= 1
    }
  }

  private final class Job[T](
      val kind: IoKind, val what: String, val number: Long, body: IoJob => T)
    extends IoTicket[T] with IoJob {
    @volatile var phase: Phase = Phase.Queued
    private var isCancelled = false
    private var result: Try[T] = _
    private val nanosIn = new Array[Long](Phase.Count)
    private var since = clock.nanos

    override def isDone: Boolean = phase == Phase.Ended

    override def await(): T = {
      lock.synchronized(while (!isDone) lock.wait())
      result.get
    }

    override def awaitEnd(): Unit = {
      var interrupted = false
      lock.synchronized {
        while (!isDone) {
          try lock.wait() catch { case _: InterruptedException => interrupted = true }
        }
      }
      if (interrupted) Thread.currentThread().interrupt()
    }

    override def cancel(): Unit = lock.synchronized {
      isCancelled = true
      if (phase == Phase.Queued && waiting.remove(this)) {
        queued(kind) -= 1
        end(Failure(new IoCancelled(what)))
      }
      lock.notifyAll()
    }

    override def pace(bytes: Long): Unit = lock.synchronized {
      counts(kind) = counts(kind).copy(bytes = counts(kind).bytes + bytes)
      var left = bytes
      try {
        makeWay()
        while (left > 0) {
          val piece = math.min(left, IoJob.Piece.toLong)
          val nanos = bucket.take(this, piece)
          if (nanos == 0L) left -= piece else clock.waitOn(lock, nanos)
          if (left > 0) makeWay()
        }
      } finally {
        bucket.leave(this)
        if (bucket.isWaitedFor) lock.notifyAll() // another one is the most urgent now
      }
    }

    private def makeWay(): Unit = {
      stopIfCancelled()
      if (mustPause(this)) pause()
    }

    private def stopIfCancelled(): Unit = if (isCancelled) throw new IoCancelled(what)

    /** Gives the permit up, and has it back when no more urgent job wants it. */
    private def pause(): Unit = {
      giveUp(this)
      bucket.leave(this)
      moveTo(Phase.Paused)
      counts(kind) = counts(kind).copy(pauses = counts(kind).pauses + 1)
      waiting += this
      dispatch()
      while (phase == Phase.Paused && !isCancelled) lock.wait()
      if (phase == Phase.Paused) waiting -= this // it stops without a permit
      stopIfCancelled()
    }

    def run(): Unit = {
      val outcome: Try[T] = try {
        if (!isWanted) throw new IoCancelled(what)
        failpoints.pass(kind.failpoint)
        Success(body(this))
      } catch {
        case cancelled: IoCancelled => Failure(cancelled)
        case error: Throwable => // of every class: a thread that awaits the job must not wait for ever
          log.warn(s"$what failed.", error)
          Failure(error)
      }
      lock.synchronized {
        if (phase == Phase.Running) giveUp(this)
        end(outcome)
        dispatch()
      }
    }

    private def isWanted: Boolean = lock.synchronized(!isCancelled)

    def moveTo(next: Phase): Unit = {
      val now = clock.nanos
      nanosIn(phase.index) += now - since
      since = now
      phase = next
    }

    def end(outcome: Try[T]): Unit = {
      result = outcome
      moveTo(Phase.Ended)
      val before = counts(kind)
      counts(kind) = before.copy(
        jobs = before.jobs + 1,
        failed = before.failed + (if (outcome.isFailure && !wasCancelled) 1 else 0),
        cancelled = before.cancelled + (if (wasCancelled) 1 else 0),
        waitingNanos = before.waitingNanos + nanosIn(Phase.Queued.index),
        runningNanos = before.runningNanos + nanosIn(Phase.Running.index),
        pausedNanos = before.pausedNanos + nanosIn(Phase.Paused.index))
      lock.notifyAll()
    }

    private def wasCancelled: Boolean = result match {
      case Failure(_: IoCancelled) => true
      case _ => false
    }
  }

  private implicit def mostUrgentFirst: Ordering[Job[_]] =
    Ordering.by((job: Job[_]) => (job.kind.urgency, job.number))
}

object IoScheduler {
  private val log = LoggerFactory.getLogger(classOf[IoScheduler])
  private val KeptMillis = 10000L
  val DefaultPermits = 2
  /** Of bytes per second. */
  val NoLimit = 0L
  val DefaultQueueLimit = 1024

  private val inIoThread = ThreadLocal.withInitial[Boolean](() => false)

  /** Whether the calling thread runs jobs of a scheduler. */
  def isIoThread: Boolean = inIoThread.get()

  /** Queued → Running ⇄ Paused → Ended; a job that was cancelled may end from any of them. */
  private sealed abstract class Phase(val index: Int)

  private object Phase {
    case object Queued extends Phase(0)
    case object Running extends Phase(1)
    case object Paused extends Phase(2)
    case object Ended extends Phase(3)
    val Count = 4
  }
}
