package org.apache.spark.sql.tailrace.testing.simulation

/** The harm that a history came to. `name` is its word in reports. */
sealed abstract class Harm(val name: String)

object Harm {
  /** `commits/N` is visible, and a store has no state of batch N. */
  case object PublishedWithoutState extends Harm("published without state")
  /** `commits/N` is visible, and `offsets/N` is not. */
  case object PublishedWithoutOffsets extends Harm("published without offsets")
  /** A batch was shown twice, with different rows or counts. */
  case object OutputChanged extends Harm("output changed")
  /** Rows were counted or shown not at all, or more than once. */
  case object RowsWrong extends Harm("rows lost or doubled")
  /** A batch needs state that no pack has and that nobody writes. */
  case object StateLost extends Harm("state lost")
  /** A version was read while its batch was still being written. */
  case object PendingRead extends Harm("pending batch read")
  /** Packs of one version were left by different runs. */
  case object PacksOfTwoRuns extends Harm("packs of two runs")
  case object StartRefused extends Harm("start refused")
  /** The source has deleted rows that are needed again. */
  case object SourceForgot extends Harm("source forgot")
  /** The query failed because a write failed that was not repeated. */
  case object WriteGivenUp extends Harm("write given up")
  /** The query failed, and nothing had happened that it may fail for. */
  case object FailedWithoutReason extends Harm("failed without a reason")
  /** The query waits for ever for a part of a batch that was in an executor that died. */
  case object LostWithExecutor extends Harm("lost with an executor")
  /** The query never ends, for another reason. */
  case object NeverEnds extends Harm("never ends")
}

/** A rule of the protocol was broken, or a row was lost, doubled or never counted. */
final class Violation(val harm: Harm, message: String)
  extends RuntimeException(message, null, false, false)
