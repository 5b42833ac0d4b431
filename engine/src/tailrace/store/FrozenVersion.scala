package tailrace.store

import java.util.concurrent.CountDownLatch

import tailrace.cold.FrozenLog
import tailrace.layout.Record
import tailrace.memory.AddressList

/**
 * Problem: a snapshot is written beside the batches that change the store.
 *
 * Answer: a frozen version has the addresses of the version's records in memory, and the log of those
 * that were spilled. The snapshot writer writes the records in memory first.
 *
 * Invariant: until they are written, the table frees no record that the frozen version shows; until
 * the writer is done, the log deletes no file.
 */
final class FrozenVersion(
    val version: Long,
    val lineage: Long,
    val families: Seq[FrozenVersion.Part],
    val log: FrozenLog) {
  private val finished = new CountDownLatch(1)
  private val records = new CountDownLatch(1)
  @volatile private var cancelled = false

  def isDone: Boolean = finished.getCount == 0

  def isCancelled: Boolean = cancelled

  /** Whether the writer needs no record in memory any more. */
  def isPastRecords: Boolean = records.getCount == 0

  /** The writer has written all that was in memory. */
  def pastRecords(): Unit = records.countDown()

  /** The writer calls this exactly once, whatever happened. */
  def done(): Unit = {
    finished.countDown()
    records.countDown()
  }

  /** Waits until the writer needs no record in memory any more. */
  def awaitRecords(): Unit = records.await()

  /** Asks the writer to stop at the next block and waits until it has let go. */
  def cancelAndWait(): Unit = {
    cancelled = true
    finished.await()
  }

  /** Frees the lists; the table calls it after the writer is done. */
  private[store] def close(): Unit = families.foreach(_.records.close())
}

object FrozenVersion {
  /** @param spilled how many of the family's records are in the log */
  final case class Part(family: Family, records: AddressList, spilled: Long) {
    def size: Long = records.size + spilled

    def record(index: Long): Record = new Record(records(index))
  }
}
