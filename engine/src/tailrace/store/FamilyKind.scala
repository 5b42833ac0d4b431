package tailrace.store

import tailrace.layout.{Away, Layout}
import tailrace.layout.adaptive.{AdaptiveLayout, Pace}
import tailrace.layout.hash.HashLayout
import tailrace.layout.ordered.{OrderedLayout, SortWord}
import tailrace.memory.Budget

/**
 * What a column family is, apart from its records: enough to build its layout again from a
 * checkpoint before the query has said anything about it.
 *
 * @param order      None: point access only (hash); Some: sorted by this word, then by bytes
 * @param multiValue a key has a list of values
 * @param internal   Spark's own bookkeeping; its keys are not counted as the user's state
 * @param keyTypes   the types of the key's columns, as Spark names them
 */
final case class FamilyKind(
    order: Option[SortWord],
    multiValue: Boolean,
    internal: Boolean,
    keyTypes: String,
    valueTypes: String) {

  /** @param isPlanned the query's plan, or a hint, says how the family is used */
  def newLayout(budget: Budget, away: Away, isPlanned: Boolean, pace: Pace): Layout = order match {
    case None => new HashLayout(budget, away)
    case Some(word) if isPlanned => new OrderedLayout(budget, word)
    case Some(word) => new AdaptiveLayout(budget, word, away, pace)
  }
}
