package tailrace.bench

import java.util.concurrent.atomic.{AtomicLong, LongAdder}
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._

/**
 * The line between this process and a remote file system: a round-trip time, and a bandwidth
 * that all streams of the process share, separately for the two directions (a network is duplex).
 *
 * Invariant: bytes pass in the order in which they were sent, and at no time more of them than the
 * bandwidth times the time since the line was last idle. Every counted byte was also waited for.
 */
final class RemoteLink(firstRoundTripNanos: Long, bytesPerSecond: Long) {
  @volatile private var roundTripNanos = firstRoundTripNanos
  private val operations = new ConcurrentHashMap[String, LongAdder]
  private val waited = new LongAdder
  private[bench] val sending = new Direction
  private[bench] val receiving = new Direction

  /** One question to the other side, and its answer. */
  private[bench] def roundTrip(operation: String): Unit = {
    operations.computeIfAbsent(operation, _ => new LongAdder).increment()
    pause(roundTripNanos)
  }

  /** From now on a round trip takes so long: the other side has moved. */
  def moves(newRoundTripNanos: Long): Unit = roundTripNanos = newRoundTripNanos

  /** `name=value` pairs since the start: operations by kind, bytes, nanoseconds waited. */
  def counts: String = {
    val kinds = operations.asScala.toSeq.sortBy(_._1).map { case (kind, n) => s"$kind=${n.sum}" }
    (kinds ++ Seq(
      s"bytes_written=${sending.bytes.sum}",
      s"bytes_read=${receiving.bytes.sum}",
      s"waited_nanos=${waited.sum}")).mkString(" ")
  }

  private def pause(nanos: Long): Unit = if (nanos > 0) {
    waited.add(nanos)
    val until = System.nanoTime() + nanos
    var left = nanos
    while (left > 0) {
      TimeUnit.NANOSECONDS.sleep(left)
      left = until - System.nanoTime()
    }
  }

  /** A token bucket without depth: each send begins when the one before it is through. */
  private[bench] final class Direction {
    val bytes = new LongAdder
    private val freeAt = new AtomicLong(System.nanoTime())

    def transfer(count: Long): Unit = {
      bytes.add(count)
      if (bytesPerSecond > 0 && count > 0) {
        val nanos = (count * 1e9 / bytesPerSecond).toLong
        val now = System.nanoTime()
        val through = freeAt.updateAndGet(free => math.max(free, now) + nanos)
        pause(through - now)
      }
    }
  }
}
