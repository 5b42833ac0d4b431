package tailrace.spark

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import tailrace.layout.hash.HashLayout
import tailrace.prefetch.{HintBatch, HintBuffers, HintController, HintedPartition, HintReport}

/**
 * The hints of one task for the stores of a stateful operator downstream.
 *
 * @param routes by partition, its owner; null: not known, and there are no hints for it
 */
final class HintSender(
    run: String, root: String, operator: Long, version: Long, level: Int, threshold: Int,
    routes: Array[HintController.Route]) {
  private val services = EngineRuntime.current.hints
  private val buffers = new HintBuffers(
    routes.length, services.sketch(run, operator, threshold), send)
  private val dropped = new Array[Long](routes.length)
  private var hash = 0

  /** Whether the key needs a hint; `add` is for the key that was asked about last. */
  def isWanted(key: UnsafeRow): Boolean = {
    hash = HashLayout.hashOf(key.getBaseObject, key.getBaseOffset, key.getSizeInBytes)
    buffers.isWanted(hash)
  }

  def add(partition: Int): Unit = if (routes(partition) != null) buffers.add(partition, hash)

  /** The task has no more rows. */
  def end(): Unit = buffers.flush()

  private def send(partition: Int, hashes: Array[Int], hot: Long): Unit = {
    val to = HintedPartition(run, root, operator, partition)
    val isSent =
      services.send(routes(partition), HintBatch(to, version, hashes, hot, dropped(partition)))
    if (isSent) dropped(partition) = 0L else dropped(partition) += hashes.length
  }
}

object HintSender {
  /** The last row of a task has passed a candidate. */
  def passed(run: String, operator: Long, version: Long, level: Int): Unit =
    EngineRuntime.current.hints.report(
      HintReport.Passed(run, operator, version, level, System.currentTimeMillis()))
}
