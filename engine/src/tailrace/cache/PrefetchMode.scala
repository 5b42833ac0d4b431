package tailrace.cache

/** Whether spilled records are read before they are looked up. */
sealed abstract class PrefetchMode(val name: String)

object PrefetchMode {
  /** While it gains time. One look-up in `Probes` still reads for itself, which shows how long. */
  case object Auto extends PrefetchMode("auto")
  /** Whenever some state is in files. */
  case object On extends PrefetchMode("on")
  case object Off extends PrefetchMode("off")
  /**
   * Asynchronous I/O, to compare with: a task asks for the records of the rows at hand alone, a small
   * group at a time, and goes on with the rows of the group whose records are in memory.
   */
  case object Demand extends PrefetchMode("demand")

  val Probes = 256

  val all: Seq[PrefetchMode] = Seq(Auto, On, Off, Demand)
}
