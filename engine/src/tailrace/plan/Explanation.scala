package tailrace.plan

import org.apache.spark.sql.execution.SparkPlan

import tailrace.layout.time.TimeColumn
import tailrace.semantics.{OperatorUse, Scan, StoreUse}
import tailrace.spark.EngineRuntime

/** The classifier's findings, as rows of text for Python: `tailrace.explain`. */
object Explanation {
  /**
   * For each store: operator's id and name, store, family, pattern, eviction, lookahead, its reason,
   * the reason of the pattern.
   */
  def of(plan: SparkPlan): Array[Array[String]] = for {
    operator <- Classifier.read(plan).sortBy(_.operator).toArray
    (lookahead, why) = lookaheadOf(operator)
    use <- operator.stores
  } yield Array(operator.operator.toString, operator.name, use.store, use.family,
    use.pattern.name, evictionOf(use), lookahead, why, use.reason)

  /** Of a query that runs, the last choice of the controller of hints. */
  private def lookaheadOf(operator: OperatorUse): (String, String) = {
    val controller = EngineRuntime.current.hints.controller
    controller.flatMap(_.chosen(operator.run, operator.operator)).getOrElse(
      if (operator.looksAhead) ("in the task", "the rows of a batch are there when it begins")
      else ("no", "its keys are not known from its rows, or its state is not spilled"))
  }

  private def evictionOf(use: StoreUse): String = (use.time, use.scan) match {
    case (Some(TimeColumn.Estimated), _) => "with its owner; read by estimates"
    case (Some(_), _) => "what is due"
    case (None, _: Scan.KeysDueIn) => "keys with rows that are due"
    case _ => "nothing"
  }
}
