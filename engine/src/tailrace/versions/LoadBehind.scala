package tailrace.versions

import java.util.concurrent.{CompletableFuture, TimeUnit}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}

import org.slf4j.LoggerFactory

import tailrace.errors.{CheckpointError, UnreadableFile}
import tailrace.io.{IoJob, IoKind, IoScheduler}
import tailrace.store.{PendingChunk, StateTable}

/**
 * Problem: after a lazy restart (RFC 16) the rest of the state should come into memory, without being
 * in the way of the batches: a look-up should not read a block that there was time to read before.
 *
 * Answer: while no task uses the store, a job of the I/O scheduler, of a kind that nobody waits for,
 * reads some blocks and installs them; a task that comes waits for one installation at most, some
 * milliseconds. While other stores of the process are in use it goes slowly, because their tasks need
 * the cores.
 *
 * Invariant: at most one job of a store. It installs only as the store's owner.
 *
 * @param whileFree runs code as the owner, if no task is; false: it was not run
 * @param failed    the blocks cannot be read: they have to come from other files
 */
private[versions] final class LoadBehind(
    io: IoScheduler, store: String, whileFree: (StateTable => Unit) => Boolean,
    failed: CheckpointError => Unit) {
  import LoadBehind._

  private val isScheduled = new AtomicBoolean(false)
  private var chunk: PendingChunk = null // read, and not installed yet; for the job

  /** Goes on, if there is anything to do. The store has just been let go. */
  def goOn(): Unit = if (isScheduled.compareAndSet(false, true)) {
    try io.submit(IoKind.Load, s"Loading the rest of $store")(run) catch {
      case error: Throwable =>
        isScheduled.set(false)
        throw error
    }
  }

  private def run(job: IoJob): Unit = {
    var goesOn = true
    var pause = 0L
    try {
      while (goesOn) {
        goesOn = step(job)
        if (goesOn && inUse.get() > 0) {
          goesOn = false
          pause = PauseMillis
        }
      }
    } catch {
      case error: UnreadableFile =>
        log.warn(s"The rest of $store is not loaded at the moment. ${error.problem} ${error.because}")
        pause = TroubleMillis
      case error: CheckpointError => failed(error)
    } finally {
      isScheduled.set(false)
    }
    if (pause > 0) later(pause)
  }

  private def later(millis: Long): Unit =
    CompletableFuture.delayedExecutor(millis, TimeUnit.MILLISECONDS).execute(() => goOn())

  /** Installs some blocks, and picks the next; false: there are none, or a task uses the store. */
  private def step(job: IoJob): Boolean = {
    var next: PendingChunk = null
    val isFree = whileFree { table =>
      if (chunk != null) chunk.install()
      chunk = null
      next = table.nextChunk()
    }
    if (isFree && next != null) {
      job.pace(next.bytes)
      next.fetch()
      chunk = next
    }
    isFree && next != null
  }
}

private[versions] object LoadBehind {
  private val log = LoggerFactory.getLogger(classOf[LoadBehind])
  private val PauseMillis = 20L
  private val TroubleMillis = 1000L

  /** Stores that tasks of this process use now. */
  val inUse = new AtomicInteger
}
