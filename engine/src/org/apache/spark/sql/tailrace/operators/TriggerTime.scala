package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Alias, Cast, NamedExpression}
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, Project}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.types.TimestampType

import tailrace.errors.InvalidHint
import tailrace.semantics.Hint

/** The predictor of a hint (see [[Hint]]) as a column over the rows that an operator reads. */
private[tailrace] object TriggerTime {
  def in(input: SparkPlan): Option[NamedExpression] =
    Hint.in(input.output).triggerTime.map { text =>
      val state = input.session.sessionState
      try {
        val wanted = Cast(state.sqlParser.parseExpression(text), TimestampType)
        val asked = Project(Seq(Alias(wanted, "due")()), LocalRelation(input.output))
        val analyzed = state.analyzer.execute(asked)
        state.analyzer.checkAnalysis(analyzed)
        ReplaceExpressions(analyzed).asInstanceOf[Project].projectList.head
      } catch {
        case error: AnalysisException => throw new InvalidHint(
          s"trigger_time is '$text': ${error.getMessage.linesIterator.next()}",
          "Use SQL over columns that the query itself uses; here these are: " +
            s"${input.output.map(_.name).mkString(", ")}.")
      }
    }
}
