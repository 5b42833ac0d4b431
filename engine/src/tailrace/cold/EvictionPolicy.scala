package tailrace.cold

/**
 * Which records are spilled first when memory is short (RFC 18). Lists go by the time of their next
 * read.
 */
sealed abstract class EvictionPolicy(val name: String)

object EvictionPolicy {
  /**
   * Those with the oldest time: of a record that was used, that of its last use; of one that is
   * expected, that of its next use. A time is the rows' event time, where the plan tells it.
   */
  case object Timestamp extends EvictionPolicy("timestamp")
  /** Those that were not used for longest. What is expected does not count. */
  case object Lru extends EvictionPolicy("lru")
  /** The first ones that the clock hand comes to which were not used since it came by last. */
  case object Clock extends EvictionPolicy("clock")

  val all: Seq[EvictionPolicy] = Seq(Timestamp, Lru, Clock)
}
