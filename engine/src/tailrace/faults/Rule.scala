package tailrace.faults

/**
 * The rules of the commit protocol (docs/rfcs/0004) that a test can switch off, to show that
 * without the rule the results are wrong.
 */
sealed abstract class Rule(val number: Int)

object Rule {
  /** `commits/N` is written only when every store of batch N is durable. */
  case object PublishAfterDurable extends Rule(1)
  /** The output of batch N+1 is not committed before batch N is published. */
  case object GateBeforeOutput extends Rule(2)
  /** `offsets/N+1` becomes visible only after `commits/N`. */
  case object OffsetsAfterCommits extends Rule(3)
  /** Batch N is committed to a source that forgets only when N is published. */
  case object SourcesForgetLate extends Rule(4)
  /** Code that reads the checkpoint first waits for pending batches. */
  case object ReadersWait extends Rule(5)
  /** A write that fails is retried. */
  case object RetryWrites extends Rule(6)
  /** An executor lost with state that is not durable fails the query. */
  case object LostExecutorFails extends Rule(7)

  val all: Seq[Rule] = Seq(PublishAfterDurable, GateBeforeOutput, OffsetsAfterCommits,
    SourcesForgetLate, ReadersWait, RetryWrites, LostExecutorFails)
}

/** The rules in force. A production process has all of them; only a test makes other sets. */
final class Rules private (off: Set[Rule]) {
  def isOn(rule: Rule): Boolean = !off(rule)
}

object Rules {
  val All: Rules = new Rules(Set.empty)

  /** All but those whose numbers the text names; an unknown rule is an error, not a no-op. */
  def allBut(numbers: String): Rules =
    new Rules(numbers.split(',').map(_.trim).filter(_.nonEmpty).map { text =>
      Rule.all.find(_.number.toString == text).getOrElse(throw new IllegalArgumentException(
        s"'$text' is not a rule: rules have numbers from 1 to ${Rule.all.size}"))
    }.toSet)
}
