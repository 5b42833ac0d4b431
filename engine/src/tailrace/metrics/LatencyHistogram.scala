package tailrace.metrics

/**
 * Times by powers of the fourth root of two, for percentiles that are right to a fifth. Old times
 * fade: when there are many, all counts are halved.
 */
final class LatencyHistogram {
  import LatencyHistogram._

  private val counts = new Array[Int](Buckets)
  private var total = 0

  def add(nanos: Long): Unit = synchronized {
    counts(bucketOf(nanos)) += 1
    total += 1
    if (total >= Many) {
      total = 0
      counts.indices.foreach { at =>
        counts(at) >>= 1
        total += counts(at)
      }
    }
  }

  /** The time that this share of all is not above, about; 0: there are none. */
  def percentile(share: Double): Long = synchronized {
    if (total == 0) return 0L
    val wanted = math.ceil(total * share).toInt
    var at = 0
    var seen = counts(0)
    while (seen < wanted && at < Buckets - 1) {
      at += 1
      seen += counts(at)
    }
    upperBoundOf(at)
  }
}

private object LatencyHistogram {
  val Steps = 4
  val Buckets = 64 * Steps
  val Many = 4096

  def bucketOf(nanos: Long): Int =
    if (nanos <= 1L) 0
    else math.min(Buckets - 1, (math.log(nanos.toDouble) / math.log(2) * Steps).toInt + 1)

  def upperBoundOf(bucket: Int): Long = math.pow(2, bucket.toDouble / Steps).toLong
}
