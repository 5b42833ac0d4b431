package tailrace.metrics

/**
 * Counts the work of one store in one batch. Every operation is counted; one in 64 is timed, chosen by
 * chance, and the time reported is the sample's, scaled: two clock readings cost as much as a look-up.
 */
final class BatchMeter {
  /** Of gets, puts and removes together. */
  val accesses = new LatencyHistogram
  val gets = new OperationMeter(accesses)
  val puts = new OperationMeter(accesses)
  val removes = new OperationMeter(accesses)
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

final class OperationMeter(latencies: LatencyHistogram) {
  import OperationMeter._

  private var total = 0L
  private var sampled = 0L
  private var sampledNanos = 0L
  private var untilSample = 1
  private var seed = 0x9e3779b9

  def count: Long = total

  /**
   * Returns the time if this operation is one to be timed, otherwise 0. Every 64th would be one with
   * the same place in each group of rows that is read together.
   */
  def start(): Long = {
    total += 1
    untilSample -= 1
    if (untilSample == 0) {
      seed ^= seed << 13
      seed ^= seed >>> 17
      seed ^= seed << 5
      untilSample = 1 + (seed & SampleMask)
      System.nanoTime()
    } else {
      0L
    }
  }

  def stop(started: Long): Unit = if (started != 0L) {
    val nanos = System.nanoTime() - started
    sampled += 1
    sampledNanos += nanos
    latencies.add(nanos)
  }

  def nanos: Long = if (sampled == 0L) 0L else (sampledNanos.toDouble / sampled * total).toLong
}

private object OperationMeter {
  val SampleMask = 127
}
