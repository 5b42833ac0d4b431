package tailrace.spark

import org.apache.spark.SparkEnv
import org.apache.spark.sql.execution.streaming.state.StateStoreId

import tailrace.prefetch.{HintedPartition, HintReport}
import tailrace.store.StateTable

/**
 * Tells the driver, after each batch in which some state is in files, how the look-ups of a store found
 * their records: the controller of hints decides by it. It also shows who owns the partition.
 */
private[spark] final class PrefetchReporter(
    run: String, id: StateStoreId, table: StateTable, hinted: HintedStore) {
  import PrefetchReporter.Counts

  private val partition = PrefetchReporter.partition(run, id)
  private var before = Counts(0L, 0L, 0L, 0L, 0L)

  /** Used by the thread that owns the store, before it lets go of it. */
  def batchOver(version: Long, beganMillis: Long): Unit =
    if (!table.coldLog.isEmpty || before.cold > 0L) {
      val prefetch = table.prefetch
      // What still waits was not taken, though a later batch may.
      val counts = prefetch.counts
      val now = Counts(counts.hits + counts.late + counts.misses, counts.hits,
        counts.arrived, counts.inVain + prefetch.waiting, hinted.inTime)
      EngineRuntime.current.hints.report(HintReport.Used(
        SparkEnv.get.executorId, partition, version,
        cold = now.cold - before.cold, found = now.found - before.found,
        waitNanos = counts.waitNanos, read = now.read - before.read,
        inVain = now.inVain - before.inVain, hinted = now.hints - before.hints,
        accessNanos = prefetch.requestNanos, isSlow = prefetch.isWorthwhile,
        beganMillis = if (beganMillis > 0L) beganMillis else System.currentTimeMillis()))
      before = now
    }
}

private[spark] object PrefetchReporter {
  /** Since the store was opened. */
  private final case class Counts(cold: Long, found: Long, read: Long, inVain: Long, hints: Long)

  def partition(run: String, id: StateStoreId): HintedPartition =
    HintedPartition(run, id.checkpointRootLocation, id.operatorId, id.partitionId)
}
