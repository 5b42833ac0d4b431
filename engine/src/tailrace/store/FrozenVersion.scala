package tailrace.store

import java.util.concurrent.{CountDownLatch, TimeUnit}

import tailrace.cold.FrozenLog
import tailrace.io.IoTicket
import tailrace.layout.Record
import tailrace.memory.AddressList

/**
 * Problem: a snapshot is written beside the batches that change the store. Its writer may wait long
 * for a permit, or for a checkpoint that does not answer.
 *
 * Answer: a frozen version has the addresses of the version's records in memory, and the log of those
 * that were spilled. The snapshot writer writes the records in memory first. It reads them inside
 * `reading` only, and nothing is written to the checkpoint there, so the owner can take them back at
 * any time (`cancel`).
 *
 * Invariant: until they are written, or the snapshot is cancelled, the table frees no record that the
 * frozen version shows; until the writer is done, the log deletes no file. `done` is reached also if
 * the writer never begins.
 */
final class FrozenVersion(
    val version: Long,
    val lineage: Long,
    val families: Seq[FrozenVersion.Part],
    val log: FrozenLog) {
  import FrozenVersion._

  private val finished = new CountDownLatch(1)
  private val records = new CountDownLatch(1)
  private val lock = new Object
  // Guarded by `lock`.
  private var ticket: IoTicket[Unit] = null
  private var dropped: Cancelled => Unit = _ => ()
  private var cancelled: Cancelled = null
  private var isTaken = false // by the writer, or by the thread that cancelled it before it began
  private var steps = 0L // of the writer

  def isDone: Boolean = finished.getCount == 0

  /** Whether the writer needs no record in memory any more. */
  def isPastRecords: Boolean = records.getCount == 0

  // ---- for the writer

  /** It is to be written by this job; `ifDropped` is called if it is cancelled before it begins. */
  def submitted(job: IoTicket[Unit])(ifDropped: Cancelled => Unit): Unit = {
    lock.synchronized {
      ticket = job
      dropped = ifDropped
    }
    // A job for which there was no thread has ended, and never began.
    if (job.isDone) cancel(forMemory = false)
  }

  /** The writer begins. False: it was cancelled, and is done already. */
  def begins(): Boolean = lock.synchronized {
    val isFirst = !isTaken
    isTaken = true
    steps += 1
    isFirst
  }

  /** Why the writer was asked to stop, if it was. */
  def cancellation: Option[Cancelled] = lock.synchronized(Option(cancelled))

  def stopIfCancelled(): Unit = lock.synchronized(if (cancelled != null) throw cancelled)

  /** Reads records in memory, and does nothing else: the owner may wait for it. */
  def reading[T](body: => T): T = lock.synchronized {
    stopIfCancelled()
    steps += 1
    body
  }

  /** The writer has written all that was in memory. */
  def pastRecords(): Unit = records.countDown()

  /** For the writer at its end, whatever happened. */
  def done(): Unit = {
    finished.countDown()
    records.countDown()
  }

  // ---- for the owner

  /**
   * The owner needs memory. Waits for the records as long as the writer goes on; a writer that stands
   * still, or has not begun, is cancelled.
   */
  def awaitRecords(): Unit = {
    var (seen, hasBegun) = progress
    while (!records.await(if (hasBegun) WriterMillis else BeginMillis, TimeUnit.MILLISECONDS)) {
      val (now, begun) = progress
      if (now == seen) cancel(forMemory = true)
      seen = now
      hasBegun = begun
    }
  }

  private def progress: (Long, Boolean) = lock.synchronized((steps, isTaken))

  /** Asks the writer to stop as soon as it can, and waits until it has let go. */
  def cancelAndWait(): Unit = {
    cancel(forMemory = false)
    finished.await()
  }

  /** From now on the writer reads no record in memory; one that has not begun never will. */
  private def cancel(forMemory: Boolean): Unit = {
    val isMine = lock.synchronized {
      if (cancelled == null) cancelled = new Cancelled(forMemory)
      val isFirst = !isTaken
      isTaken = true
      isFirst
    }
    if (ticket != null) ticket.cancel()
    if (isMine) {
      try dropped(cancelled) finally done()
    }
    records.countDown()
  }

  /** Frees the lists; the table calls it after the writer is done. */
  private[store] def close(): Unit = families.foreach(_.records.close())
}

object FrozenVersion {
  /** So long a writer may stand still, or not begin, while the owner waits for memory. */
  private val WriterMillis = 1000L
  private val BeginMillis = 100L

  /** @param forMemory a task needs the memory of the records: the snapshot is put off */
  final class Cancelled(val forMemory: Boolean)
    extends InterruptedException("the snapshot is not needed any more, or is put off")

  /** @param spilled how many of the family's records are in the log */
  final case class Part(family: Family, records: AddressList, spilled: Long) {
    def size: Long = records.size + spilled

    def record(index: Long): Record = new Record(records(index))

    /** Whether its records are found by their hashes, and one by one: they are listed in that order. */
    def isByHash: Boolean = family.kind.isByHash
  }
}
