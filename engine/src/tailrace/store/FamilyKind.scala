package tailrace.store

import tailrace.format.{FamilyShape, KeyOrder}
import tailrace.layout.{ColdRecords, Epoch, Layout}
import tailrace.layout.adaptive.{AdaptiveLayout, Pace}
import tailrace.layout.hash.HashLayout
import tailrace.layout.ordered.{OrderedLayout, SortWord}
import tailrace.memory.Budget

/**
 * The kind of a column family, apart from its records: enough to build its layout again from a
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

  /** Whether a key has one record, which is found by the key's hash and in no other way. */
  def isByHash: Boolean = order.isEmpty && !multiValue

  /** As files name it. */
  def shape: FamilyShape = FamilyShape(
    order.map(word => KeyOrder(word.code, word.parameter)), multiValue, internal, keyTypes,
    valueTypes)

  /** @param isPlanned the query's plan, or a hint, says how the family is used */
  def newLayout(
      budget: Budget, cold: ColdRecords, epoch: Epoch, isPlanned: Boolean,
      pace: Pace): Layout = order match {
    case None => new HashLayout(budget, cold, epoch)
    case Some(word) if isPlanned => new OrderedLayout(budget, word)
    case Some(word) => new AdaptiveLayout(budget, word, cold, epoch, pace)
  }
}

object FamilyKind {
  def of(shape: FamilyShape): FamilyKind = FamilyKind(
    shape.order.map(order => SortWord(order.code, order.parameter)), shape.multiValue,
    shape.internal, shape.keyTypes, shape.valueTypes)
}
