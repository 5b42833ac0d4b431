package tailrace.cache

/** Who said that a record will be looked up. */
sealed abstract class Origin(val name: String, private[cache] val index: Int)

object Origin {
  /** The operator's own task, of rows far ahead. */
  case object LookAhead extends Origin("look-ahead", 0)
  /** An operator before it. */
  case object Hints extends Origin("hints", 1)
  /** The task, of rows at hand (see [[PrefetchMode]]). */
  case object Demand extends Origin("demand", 2)

  val all: Seq[Origin] = Seq(LookAhead, Hints, Demand)
}
