package tailrace.plan

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions, classic}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.tailrace.operators.{Hints, HolisticAggregates, Lookahead}
import org.apache.spark.sql.tailrace.operators.MergedAggregates

import tailrace.cache.PrefetchMode
import tailrace.semantics.StoreUse
import tailrace.spark.{EngineRuntime, StoreOptions, TailraceStateStoreProvider}

/** The class for `spark.sql.extensions`: reads the plan of every batch. */
final class TailraceExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectColumnar(session => new PlanReader(session))
}

/**
 * Sees the final plan of every batch, after Spark has given operators their ids and watermarks.
 *  1. Aggregates that need all their rows get another operator (RFC 6), and most others one that
 *     looks each key up once (RFC 7).
 *  2. Operators that look keys up get their rows from a node that takes some ahead (RFC 12), and the
 *     controller of hints may put another one nearer to the source (RFC 17).
 *  3. The uses of the stores go to the tasks as local properties of this thread, which
 *     is the one that starts the batch's jobs (RFC 5). Where another one starts them, the stores
 *     know nothing and scan everything.
 */
private final class PlanReader(session: SparkSession) extends ColumnarRule {
  private def state = session.asInstanceOf[classic.SparkSession].sessionState
  private val layouts = new LayoutRecord(() => state.newHadoopConf())

  override def preColumnarTransitions: Rule[SparkPlan] = (plan: SparkPlan) => {
    val replaced = if (TailraceStateStoreProvider.isChosenIn(state.conf)) {
      withLookahead(MergedAggregates.replaceIn(
        HolisticAggregates.replaceIn(plan, layouts.keepsRows(_, options.holisticAsRows))))
    } else {
      plan
    }
    Classifier.read(replaced).foreach { use =>
      session.sparkContext.setLocalProperty(StoreUse.property(use.operator), StoreUse.encode(use))
    }
    replaced
  }

  private def withLookahead(plan: SparkPlan): SparkPlan =
    if (Lookahead.suits(plan) && options.prefetch != PrefetchMode.Off) {
      withHints(Lookahead.insertIn(plan, onDemand = options.prefetch == PrefetchMode.Demand))
    } else {
      plan
    }

  private def withHints(plan: SparkPlan): SparkPlan = {
    val chosen = options
    EngineRuntime.current.hints.controller.filter(_ => chosen.takesHints).fold(plan) {
      new Hints(_, chosen.hints, chosen.hintThreshold).insertIn(plan)
    }
  }

  private def options: StoreOptions = StoreOptions(new StateStoreConf(state.conf))
}
