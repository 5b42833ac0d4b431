package tailrace.store

import java.util.concurrent.CountDownLatch

import tailrace.memory.AddressList

/**
 * A frozen picture of a version: the addresses of all its records. Whoever writes a snapshot reads
 * it beside the running batch; the table frees nothing that an image may show until it is done.
 */
final class Image(
    val version: Long,
    val lineage: Long,
    val families: Seq[Image.Part]) {
  private val finished = new CountDownLatch(1)
  @volatile private var cancelled = false

  def isDone: Boolean = finished.getCount == 0

  def isCancelled: Boolean = cancelled

  /** The writer calls this exactly once, whatever happened. */
  def done(): Unit = finished.countDown()

  /** Waits until the writer has let go. */
  def await(): Unit = finished.await()

  /** Asks the writer to stop at the next block and waits until it has let go. */
  def cancelAndWait(): Unit = {
    cancelled = true
    finished.await()
  }

  /** Frees the lists; the table calls it after the writer is done. */
  private[store] def close(): Unit = families.foreach(_.records.close())
}

object Image {
  final case class Part(family: Family, records: AddressList)
}
