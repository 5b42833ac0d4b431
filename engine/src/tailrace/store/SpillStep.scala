package tailrace.store

import java.util.concurrent.{CountDownLatch, TimeUnit}

import tailrace.cold.{ColdEntry, ColdLog}
import tailrace.io.{IoJob, IoKind, IoPieces, IoScheduler, IoTicket}

/**
 * Some records of a store on their way to the log: at most one step of a store at a time.
 *
 * Invariant: the memory of the victims is read until `isCopied`, by an I/O thread; the owner frees
 * none of it before.
 */
private[store] final class SpillStep(
    val victims: Seq[Victims], log: ColdLog, io: IoScheduler, store: String) {
  import SpillStep._

  private val copied = new CountDownLatch(1)
  private val ticket: IoTicket[Unit] =
    io.submit(IoKind.Spill, s"Spilling state of $store")(run)

  def isDone: Boolean = ticket.isDone

  /** Waits until references are there; throws the error of the step. */
  def await(): Unit = ticket.await()

  /** Waits until the victims' memory is not read any more. */
  def awaitCopied(): Unit = {
    var interrupted = false
    // A job that never began gives no notice of its end.
    while (copied.getCount > 0 && !ticket.isDone) {
      try copied.await(LookMillis, TimeUnit.MILLISECONDS) catch {
        case _: InterruptedException => interrupted = true
      }
    }
    if (interrupted) Thread.currentThread().interrupt()
  }

  /** The victims stay where they are. Waits until nothing of them is read. */
  def cancel(): Unit = {
    ticket.cancel()
    ticket.awaitEnd()
  }

  def forget(all: Boolean): Unit = victims.foreach(_.forget(all))

  /** After `await`: returns the bytes that can be freed. */
  def install(freed: Changes): Long = {
    val gained = victims.map(_.install(freed)).sum
    log.spilling.installed()
    gained
  }

  /** After `install`: records and lists that stay because they were asked for meanwhile. */
  def returned: Long = victims.map(_.returned.toLong).sum

  private def run(job: IoJob): Unit = try {
    val entries = new ColdEntry.Builder
    victims.foreach(_.encode(entries))
    copied.countDown()
    val pieces = new IoPieces(job)
    victims.foreach(_.write(entries, log.spilling, pieces))
    pieces.finish()
    log.spilling.flush()
  } finally {
    copied.countDown()
  }
}

private object SpillStep {
  val LookMillis = 50L
}
