package tailrace.prefetch

/** Whether hints are sent from before an operator's own task. */
sealed abstract class HintMode(val name: String)

object HintMode {
  /** While tasks wait for records in spite of their own look-ahead. */
  case object Auto extends HintMode("auto")
  /** Whenever some state is in files. */
  case object On extends HintMode("on")
  case object Off extends HintMode("off")

  val all: Seq[HintMode] = Seq(Auto, On, Off)
}
