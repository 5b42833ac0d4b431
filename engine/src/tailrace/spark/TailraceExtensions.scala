package tailrace.spark

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

import tailrace.semantics.{Classifier, StoreUse}

/** What `spark.sql.extensions` names: lets the stores know what the query's plan says of them. */
final class TailraceExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectColumnar(session => new PlanReader(session))
}

/**
 * Sees the final plan of every batch, after Spark has given operators their ids and watermarks, and
 * leaves it as it is. What it reads goes to the tasks as local properties of this thread, which is
 * the one that starts the batch's jobs; where another one starts them, the stores know nothing and
 * scan everything.
 */
private final class PlanReader(session: SparkSession) extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = (plan: SparkPlan) => {
    Classifier.read(plan).foreach { use =>
      session.sparkContext.setLocalProperty(StoreUse.property(use.operator), StoreUse.encode(use))
    }
    plan
  }
}
