package tailrace.metrics

/**
 * Counts the work of one store in one batch. Every operation is counted; one in 64 is timed, and the
 * time reported is the sample's, scaled: two clock readings cost as much as a look-up.
 */
final class BatchMeter {
  val gets = new OperationMeter
  val puts = new OperationMeter
  val removes = new OperationMeter
  var scans = 0L
  var scannedRows = 0L
  var hintSlackMillis = 0L
  var estimates = 0L
  var estimateErrorMicros = 0L
  var loadNanos = 0L
  var loadedFiles = 0L
  var localFiles = 0L
  var damagedFiles = 0L
  var sealNanos = 0L
  var writeNanos = 0L
  var applyNanos = 0L
  var gateNanos = 0L
  var hiddenMillis = 0L
  var queuedParts = 0L
  var unpublishedBatches = 0L
  var retries = 0L
  var snapshotFreezeNanos = 0L
  var filesWritten = 0L
  var bytesWritten = 0L
  var entriesWritten = 0L
}

final class OperationMeter {
  private var total = 0L
  private var sampled = 0L
  private var sampledNanos = 0L

  def count: Long = total

  /** Returns the time if this operation is one to be timed, otherwise 0. */
  def start(): Long = {
    total += 1
    if ((total & OperationMeter.SampleMask) == 1L) System.nanoTime() else 0L
  }

  def stop(started: Long): Unit = if (started != 0L) {
    sampled += 1
    sampledNanos += System.nanoTime() - started
  }

  def nanos: Long = if (sampled == 0L) 0L else (sampledNanos.toDouble / sampled * total).toLong
}

private object OperationMeter {
  val SampleMask = 63L
}
