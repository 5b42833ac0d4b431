package tailrace.spark

import org.apache.spark.sql.execution.streaming.state._

import tailrace.cache.Origin
import tailrace.metrics.BatchMeter
import tailrace.store.{Family, StateTable}

/**
 * Problem: a metric that is declared, listed and filled in three places can be missing in one.
 *
 * Answer: one table. A row has the metric's name in a query's progress, its kind, its meaning, and
 * how it is read; Spark's list, a store's report and docs/metrics.md are made from it.
 */
object StoreMetrics {
  /** The parts of a store and of its batch that metrics are read from. */
  private final case class Source(
      table: StateTable, meter: BatchMeter, hinted: Option[HintedStore]) {
    def families: Iterable[Family] = table.families
    def hints(count: HintedStore => Long): Long = hinted.fold(0L)(count)
  }

  private final case class Metric(
      name: String, kind: Kind, meaning: String, read: Source => Long) {
    val declared: StateStoreCustomMetric = kind.declare(name, s"tailrace: $meaning")
  }

  /** Spark adds up the values of all stores of an operator, whatever the kind. */
  private sealed abstract class Kind(val name: String) {
    def declare(name: String, text: String): StateStoreCustomMetric
  }

  /** In the batch. */
  private case object Count extends Kind("count") {
    override def declare(name: String, text: String) = StateStoreCustomSumMetric(name, text)
  }

  /** Milliseconds in the batch. */
  private case object Time extends Kind("ms") {
    override def declare(name: String, text: String) = StateStoreCustomTimingMetric(name, text)
  }

  /** Bytes in the batch. */
  private case object Bytes extends Kind("bytes") {
    override def declare(name: String, text: String) = StateStoreCustomSizeMetric(name, text)
  }

  /** Nanoseconds in the batch. */
  private case object Nanos extends Kind("ns") {
    override def declare(name: String, text: String) = StateStoreCustomSizeMetric(name, text)
  }

  /** How much there is at the end of the batch. */
  private case object Level extends Kind("now") {
    override def declare(name: String, text: String) =
      StateStoreCustomSizeMetric(name, text, isSnapshot = true)
  }

  /** How much there was since the store was opened. */
  private case object Total extends Kind("so far") {
    override def declare(name: String, text: String) =
      StateStoreCustomSizeMetric(name, text, isSnapshot = true)
  }

  private val metrics: Seq[Metric] = Seq(
    Metric("tailraceRows", Count, "rows, internal ones included",
      of => of.table.rows(internal = false) + of.table.rows(internal = true)),
    Metric("tailraceReservedBytes", Level, "off-heap bytes reserved", _.table.reservedBytes),
    Metric("tailraceLiveBytes", Level, "off-heap bytes of live records", _.table.liveBytes),
    // ---- the operator's calls
    Metric("tailraceGetCount", Count, "gets", _.meter.gets.count),
    Metric("tailraceGetTime", Time, "time in gets (sampled)", of => millis(of.meter.gets.nanos)),
    Metric("tailracePutCount", Count, "puts and merges", _.meter.puts.count),
    Metric("tailracePutTime", Time, "time in puts and merges (sampled)",
      of => millis(of.meter.puts.nanos)),
    Metric("tailraceRemoveCount", Count, "removes", _.meter.removes.count),
    Metric("tailraceRemoveTime", Time, "time in removes (sampled)",
      of => millis(of.meter.removes.nanos)),
    Metric("tailraceScanCount", Count, "scans and iterators", _.meter.scans),
    Metric("tailraceScannedRows", Count, "rows that scans looked at", _.meter.scannedRows),
    Metric("tailraceStores", Count, "stores", _ => 1L),
    Metric("tailraceAccessP50", Nanos, "time of a get, put or remove, at the median (sampled)",
      _.meter.accesses.percentile(0.5)),
    Metric("tailraceAccessP99", Nanos, "the same at the 99th percentile",
      _.meter.accesses.percentile(0.99)),
    Metric("tailraceAccessP999", Nanos, "the same at the 99.9th percentile",
      _.meter.accesses.percentile(0.999)),
    // ---- loading
    Metric("tailraceLoadTime", Time, "time to load from the checkpoint",
      of => millis(of.meter.loadNanos)),
    Metric("tailraceLoadedFiles", Count, "files loaded", _.meter.loadedFiles),
    Metric("tailraceLocalFilesLoaded", Count, "files loaded from copies on this machine",
      _.meter.localFiles),
    Metric("tailraceDamagedFiles", Count,
      "damaged or missing files that others took the place of", _.meter.damagedFiles),
    Metric("tailracePendingRows", Level, "rows that a lazy restart has left in a snapshot so far",
      _.table.pendingRows),
    Metric("tailraceLateBlocks", Total, "blocks of a snapshot that look-ups read themselves",
      _.table.lateBlocks),
    Metric("tailraceLateTime", Time, "time that look-ups waited for blocks of a snapshot",
      of => millis(of.table.lateNanos)),
    // ---- the commit
    Metric("tailraceCommitSealTime", Time, "commit, sealing of changes",
      of => millis(of.meter.sealNanos)),
    Metric("tailraceCommitGateTime", Time,
      "commit, waiting for the batch before to be published", of => millis(of.meter.gateNanos)),
    Metric("tailraceHiddenTime", Time,
      "time in which the batch before was written, not waited for", _.meter.hiddenMillis),
    Metric("tailraceQueuedParts", Count, "parts waiting to be written", _.meter.queuedParts),
    Metric("tailraceUnpublishedBatches", Count, "batches not published",
      _.meter.unpublishedBatches),
    Metric("tailraceRetries", Count, "repeated writes of the batch before", _.meter.retries),
    Metric("tailraceCommitWriteTime", Time, "commit, write of changes (where it is synchronous)",
      of => millis(of.meter.writeNanos)),
    Metric("tailraceCommitApplyTime", Time, "commit, change of version",
      of => millis(of.meter.applyNanos)),
    Metric("tailraceCommitFreezeTime", Time, "commit, freeze for a snapshot",
      of => millis(of.meter.snapshotFreezeNanos)),
    Metric("tailraceFilesWritten", Count, "files that commits wrote themselves",
      _.meter.filesWritten),
    Metric("tailraceBytesWritten", Bytes, "bytes of changes that commits wrote or handed over",
      _.meter.bytesWritten),
    Metric("tailraceEntriesWritten", Count, "changes written", _.meter.entriesWritten),
    // ---- state that is not in memory
    Metric("tailraceColdBytes", Level, "bytes of state not in memory", _.table.coldLog.liveBytes),
    Metric("tailraceColdLogBytes", Level, "bytes of the files it is in",
      _.table.coldLog.totalBytes),
    Metric("tailraceColdSlotBytes", Level, "bytes of files with slots of the table",
      _.table.coldLog.slots.bytes),
    Metric("tailraceColdWrittenBytes", Total, "bytes spilled", _.table.coldLog.writtenBytes),
    Metric("tailraceColdReadBytes", Total, "bytes read back", _.table.coldLog.readBytes),
    Metric("tailraceColdUsedBytes", Total, "bytes of lists that were asked for",
      _.families.map(_.readAhead.usedBytes).sum),
    Metric("tailraceColdRecordsRead", Total, "records fetched",
      _.families.map(_.fetched).sum),
    Metric("tailraceHitsUsedBefore", Total, "look-ups that found their record in memory",
      _.table.clock.hits),
    Metric("tailracePrefetchHits", Total, "records that were read before they were looked up",
      _.table.prefetch.counts.hits),
    Metric("tailraceHitsLookAhead", Total, "of them, those that the operator's own task read ahead",
      _.table.prefetch.counts.hits(Origin.LookAhead)),
    Metric("tailraceHitsHinted", Total, "of them, those that were read for hints",
      _.table.prefetch.counts.hits(Origin.Hints)),
    Metric("tailraceHitsOnDemand", Total, "of them, those that were read on demand",
      _.table.prefetch.counts.hits(Origin.Demand)),
    Metric("tailracePrefetchLate", Total, "records that were being read when they were looked up",
      _.table.prefetch.counts.late),
    Metric("tailracePrefetchMisses", Total, "records that look-ups read themselves",
      _.table.prefetch.counts.misses),
    Metric("tailracePrefetchInVain", Total, "records that were read and not looked up",
      _.table.prefetch.counts.inVain),
    Metric("tailraceHintsInVain", Total, "of them, those that were read for hints",
      _.table.prefetch.counts.inVain(Origin.Hints)),
    Metric("tailracePrefetchedBytes", Level, "bytes of records that were read and wait for look-ups",
      _.table.prefetch.bufferedBytes),
    Metric("tailraceHintsSent", Total, "hints that were sent to the store",
      of => of.hints(_.received) + of.hints(_.dropped)),
    Metric("tailraceHintsDropped", Total, "of them, those for which the way was too narrow",
      _.hints(_.dropped)),
    Metric("tailraceHintsReceived", Total, "hints that reached the store", _.hints(_.received)),
    Metric("tailraceHintsInTime", Total, "hints that came before the task of their batch",
      _.hints(_.inTime)),
    Metric("tailraceHintsLate", Total, "hints that came later, or for another batch",
      _.hints(_.late)),
    Metric("tailraceHintsHot", Total, "keys of which no hint was sent because they are hot",
      _.hints(_.hot)),
    Metric("tailraceHintBytes", Total, "bytes of messages with hints", _.hints(_.bytes)),
    Metric("tailraceHintSlack", Time, "time from the last hint to the first look-up",
      _.meter.hintSlackMillis),
    Metric("tailraceReadAheadTime", Time,
      "time from a request for records to come to their arrival, at the 99th percentile",
      of => millis(of.table.prefetch.requestNanos)),
    Metric("tailraceColdWaitTime", Time, "time that tasks waited for spilled records",
      of => millis(of.table.prefetch.counts.waitNanos)),
    Metric("tailraceReadAheadHits", Total, "lists that were asked for and had been read ahead",
      _.families.map(_.readAhead.hits).sum),
    Metric("tailraceReadAheadMisses", Total, "lists that were asked for and had not",
      _.families.map(_.readAhead.misses).sum),
    Metric("tailraceReadAheadWrong", Total, "lists that were read ahead in vain",
      _.families.map(_.readAhead.wrong).sum),
    Metric("tailraceEstimates", Count, "lists read whose time was estimated", _.meter.estimates),
    Metric("tailraceEstimateError", Time, "by how much their estimates were off",
      _.meter.estimateErrorMicros / 1000),
    Metric("tailraceSpilled", Total, "records and lists spilled", _.table.spilled),
    Metric("tailraceReturned", Total,
      "records and lists that were asked for while they were written, and stayed", _.table.returned),
    Metric("tailraceSpillTime", Time, "time that tasks spent on spilling",
      of => millis(of.table.spillNanos)),
    Metric("tailraceSpillWaitTime", Time, "of it, time spent waiting for memory",
      of => millis(of.table.spillWaitNanos)),
    Metric("tailraceCleanTime", Time, "time that tasks spent on cleaning the files of spilled state",
      of => millis(of.table.cleanNanos)),
    Metric("tailraceFamiliesMoving", Level, "column families that are moving to a hash table",
      _.families.count(_.movesToHash).toLong),
    Metric("tailraceFamiliesMoved", Level, "column families that moved to a hash table",
      _.families.count(_.movedToHash).toLong))

  val all: Seq[StateStoreCustomMetric] = metrics.map(_.declared)

  /** Name, kind and meaning of each; for Python. */
  def described: Array[Array[String]] =
    metrics.map(each => Array(each.name, each.kind.name, each.meaning)).toArray

  def of(
      table: StateTable, meter: BatchMeter, hinted: Option[HintedStore]): StateStoreMetrics = {
    val source = Source(table, meter, hinted)
    StateStoreMetrics(
      numKeys = table.rows(internal = false),
      memoryUsedBytes = table.reservedBytes,
      customMetrics = metrics.map(each => each.declared -> each.read(source)).toMap)
  }

  private def millis(nanos: Long): Long = Math.round(nanos / 1e6)
}
