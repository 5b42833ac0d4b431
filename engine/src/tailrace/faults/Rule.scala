package tailrace.faults

/**
 * The rules of the commit protocol (docs/rfcs/0004) that a test can switch off, to show that
 * without the rule the results are wrong: `TAILRACE_RULES_OFF`, numbers separated by commas.
 * Nothing but a test sets it.
 */
sealed abstract class Rule(val number: Int) {
  final lazy val isOn: Boolean = !Rule.off(number)
}

object Rule {
  /** `commits/N` is written only when every store of batch N is durable. */
  case object PublishAfterDurable extends Rule(1)
  /** The output of batch N+1 is not committed before batch N is published. */
  case object GateBeforeOutput extends Rule(2)
  /** On restart, offsets beyond `commits + 1` are removed. */
  case object RemoveDanglingOffsets extends Rule(3)
  /** A source that forgets is told to commit batch N only when N is published. */
  case object SourcesForgetLate extends Rule(4)
  /** Whatever reads the checkpoint first waits for what is pending. */
  case object ReadersWait extends Rule(5)
  /** A write that fails is retried. */
  case object RetryWrites extends Rule(6)
  /** An executor lost with state that is not durable fails the query. */
  case object LostExecutorFails extends Rule(7)

  private lazy val off: Set[Int] = parse(System.getenv().getOrDefault("TAILRACE_RULES_OFF", ""))

  private val all: Seq[Rule] = Seq(PublishAfterDurable, GateBeforeOutput, RemoveDanglingOffsets,
    SourcesForgetLate, ReadersWait, RetryWrites, LostExecutorFails)

  /** The numbers in a specification; a rule that does not exist is an error, not a no-op. */
  def parse(specification: String): Set[Int] =
    specification.split(',').map(_.trim).filter(_.nonEmpty).map { text =>
      all.map(_.number).find(_.toString == text).getOrElse(throw new IllegalArgumentException(
        s"'$text' is not a rule: TAILRACE_RULES_OFF takes numbers from 1 to ${all.size}"))
    }.toSet
}
