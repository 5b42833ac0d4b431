package tailrace.spark

import org.apache.spark.sql.execution.streaming.state._

import tailrace.metrics.BatchMeter
import tailrace.store.StateTable

/** The custom metrics in a query's progress. Times are milliseconds, summed over the tasks. */
object StoreMetrics {
  private def count(name: String, text: String) = StateStoreCustomSumMetric(name, text)
  private def time(name: String, text: String) = StateStoreCustomTimingMetric(name, text)
  private def size(name: String, text: String) =
    StateStoreCustomSizeMetric(name, text, isSnapshot = true)

  private val Rows = count("tailraceRows", "tailrace: rows, internal ones included")
  private val ReservedBytes = size("tailraceReservedBytes", "tailrace: off-heap bytes reserved")
  private val LiveBytes = size("tailraceLiveBytes", "tailrace: off-heap bytes of live records")
  private val GetCount = count("tailraceGetCount", "tailrace: gets")
  private val GetTime = time("tailraceGetTime", "tailrace: time in gets (sampled)")
  private val PutCount = count("tailracePutCount", "tailrace: puts and merges")
  private val PutTime = time("tailracePutTime", "tailrace: time in puts and merges (sampled)")
  private val RemoveCount = count("tailraceRemoveCount", "tailrace: removes")
  private val RemoveTime = time("tailraceRemoveTime", "tailrace: time in removes (sampled)")
  private val ScanCount = count("tailraceScanCount", "tailrace: scans and iterators")
  private val ScannedRows = count("tailraceScannedRows", "tailrace: rows that scans looked at")
  private val LoadTime = time("tailraceLoadTime", "tailrace: time to load from the checkpoint")
  private val LoadedFiles = count("tailraceLoadedFiles", "tailrace: files loaded")
  private val LocalFiles = count("tailraceLocalFilesLoaded", "tailrace: files loaded from copies here")
  private val SealTime = time("tailraceCommitSealTime", "tailrace: commit, sealing of changes")
  private val GateTime = time(
    "tailraceCommitGateTime", "tailrace: commit, waiting for the batch before to be published")
  private val HiddenTime = time(
    "tailraceHiddenTime", "tailrace: time in which the batch before was written, not waited for")
  private val QueuedParts = count("tailraceQueuedParts", "tailrace: parts waiting to be written")
  private val Unpublished = count("tailraceUnpublishedBatches", "tailrace: batches not published")
  private val Retried = count("tailraceRetries", "tailrace: repeated writes of the batch before")
  private val WriteTime = time("tailraceCommitWriteTime", "tailrace: commit, write of changes")
  private val ApplyTime = time("tailraceCommitApplyTime", "tailrace: commit, change of version")
  private val FreezeTime = time("tailraceCommitFreezeTime", "tailrace: commit, freeze for snapshot")
  private val FilesWritten = count("tailraceFilesWritten", "tailrace: files written by commits")
  private val BytesWritten = StateStoreCustomSizeMetric(
    "tailraceBytesWritten", "tailrace: bytes written by commits")
  private val EntriesWritten = count("tailraceEntriesWritten", "tailrace: changes written")

  private val ColdBytes = size("tailraceColdBytes", "tailrace: bytes of state not in memory")
  private val ColdLogBytes = size("tailraceColdLogBytes", "tailrace: bytes of the files they are in")
  private val ColdWritten = size("tailraceColdWrittenBytes", "tailrace: bytes that left memory so far")
  private val ColdRead = size("tailraceColdReadBytes", "tailrace: bytes read back so far")
  private val ColdUsed = size("tailraceColdUsedBytes", "tailrace: bytes of lists asked for so far")
  private val ColdRecords = size("tailraceColdRecordsRead", "tailrace: records brought back so far")
  private val AheadHits = size("tailraceReadAheadHits", "tailrace: lists that were read ahead so far")
  private val AheadMisses = size("tailraceReadAheadMisses", "tailrace: lists that were not, so far")
  private val AheadWrong = size("tailraceReadAheadWrong", "tailrace: lists read ahead in vain so far")
  private val Estimates = count("tailraceEstimates", "tailrace: lists read whose time was estimated")
  private val EstimateError = time(
    "tailraceEstimateError", "tailrace: by how much their estimates were off")

  private val LeaveTime = time("tailraceLeaveTime", "tailrace: time in which state left memory")
  private val CleanTime = time("tailraceCleanTime", "tailrace: time to clean files of such state")
  private val Moved = size("tailraceFamiliesMoved", "tailrace: families that watching moved to hash")

  val all: Seq[StateStoreCustomMetric] = Seq(
    Rows, ReservedBytes, LiveBytes, GetCount, GetTime, PutCount, PutTime, RemoveCount, RemoveTime,
    ScanCount, ScannedRows, LoadTime, LoadedFiles, LocalFiles, SealTime,
    GateTime, HiddenTime, QueuedParts, Unpublished, Retried, WriteTime, ApplyTime, FreezeTime,
    FilesWritten, BytesWritten, EntriesWritten, ColdBytes, ColdLogBytes, ColdWritten, ColdRead,
    ColdUsed, ColdRecords, AheadHits, AheadMisses, AheadWrong, Estimates, EstimateError,
    LeaveTime, CleanTime, Moved)

  def of(table: StateTable, meter: BatchMeter): StateStoreMetrics = StateStoreMetrics(
    numKeys = table.rows(internal = false),
    memoryUsedBytes = table.reservedBytes,
    customMetrics = Map(
      Rows -> (table.rows(internal = false) + table.rows(internal = true)),
      ReservedBytes -> table.reservedBytes,
      LiveBytes -> table.liveBytes,
      GetCount -> meter.gets.count,
      GetTime -> millis(meter.gets.nanos),
      PutCount -> meter.puts.count,
      PutTime -> millis(meter.puts.nanos),
      RemoveCount -> meter.removes.count,
      RemoveTime -> millis(meter.removes.nanos),
      ScanCount -> meter.scans,
      ScannedRows -> meter.scannedRows,
      LoadTime -> millis(meter.loadNanos),
      LoadedFiles -> meter.loadedFiles,
      LocalFiles -> meter.localFiles,
      SealTime -> millis(meter.sealNanos),
      GateTime -> millis(meter.gateNanos),
      HiddenTime -> meter.hiddenMillis,
      QueuedParts -> meter.queuedParts,
      Unpublished -> meter.unpublishedBatches,
      Retried -> meter.retries,
      WriteTime -> millis(meter.writeNanos),
      ApplyTime -> millis(meter.applyNanos),
      FreezeTime -> millis(meter.snapshotFreezeNanos),
      FilesWritten -> meter.filesWritten,
      BytesWritten -> meter.bytesWritten,
      EntriesWritten -> meter.entriesWritten,
      ColdBytes -> table.coldLog.liveBytes,
      ColdLogBytes -> table.coldLog.totalBytes,
      ColdWritten -> table.coldLog.writtenBytes,
      ColdRead -> table.coldLog.readBytes,
      ColdUsed -> table.families.map(_.readAhead.usedBytes).sum,
      ColdRecords -> table.families.map(_.broughtBack).sum,
      AheadHits -> table.families.map(_.readAhead.hits).sum,
      AheadMisses -> table.families.map(_.readAhead.misses).sum,
      AheadWrong -> table.families.map(_.readAhead.wrong).sum,
      LeaveTime -> millis(table.leaveNanos),
      CleanTime -> millis(table.cleanNanos),
      Moved -> table.families.count(_.movedToHash).toLong,
      Estimates -> meter.estimates,
      EstimateError -> meter.estimateErrorMicros / 1000))

  private def millis(nanos: Long): Long = Math.round(nanos / 1e6)
}
