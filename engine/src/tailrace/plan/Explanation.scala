package tailrace.plan

import org.apache.spark.sql.execution.SparkPlan

import tailrace.layout.time.TimeColumn
import tailrace.semantics.{Scan, StoreUse}

/** The classifier's findings, as rows of text for Python: `tailrace.explain`. */
object Explanation {
  /** For each store: operator's id and name, store, family, pattern, eviction, lookahead, reason. */
  def of(plan: SparkPlan): Array[Array[String]] = for {
    operator <- Classifier.read(plan).sortBy(_.operator).toArray
    use <- operator.stores
  } yield Array(operator.operator.toString, operator.name, use.store, use.family,
    use.pattern.name, evictionOf(use), if (operator.looksAhead) "in the task" else "no", use.reason)

  private def evictionOf(use: StoreUse): String = (use.time, use.scan) match {
    case (Some(TimeColumn.Estimated), _) => "with its owner; read by estimates"
    case (Some(_), _) => "what is due"
    case (None, _: Scan.KeysDueIn) => "keys with rows that are due"
    case _ => "nothing"
  }
}
