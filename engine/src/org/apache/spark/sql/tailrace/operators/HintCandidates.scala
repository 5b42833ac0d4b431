package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, SinglePartition}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec

/**
 * Problem: hints can be taken at any operator before a stateful one whose rows have its key. The nearer
 * to the source, the earlier they come, and the less sure it is that a key is really looked up.
 *
 * Answer: walk from the stateful operator to the source and write the expressions of the key anew
 * below every operator that is passed, as long as that can be done. Only those positions are
 * candidates that differ in time or in keys from the one before: below an aggregation, a sort, a
 * filter, a function of the user's, an exchange. Projections are passed without a candidate.
 *
 * Invariant: at a candidate, the expressions give the bytes of the key under which the operator looks
 * its row up, and the number of the partition that the row goes to.
 */
private[operators] object HintCandidates {
  /** @param below the rows of this plan are looked at */
  final case class Candidate(
      name: String, below: SparkPlan, keys: Seq[Expression], partition: Expression, inTask: Boolean)

  /** From the operator's child to the source. The first is in the task, and may be its only one. */
  def of(child: SparkPlan, keys: Seq[Expression], partitions: Int): Seq[Candidate] = {
    val found = Seq.newBuilder[Candidate]
    var at = Option(Walk(child, keys, Literal(0), inTask = true))
    var passed = "" // what makes the next position another candidate
    var exchanges = 0
    while (at.isDefined) {
      val here = at.get
      val step = here.plan match {
        case exchange: ShuffleExchangeExec =>
          exchanges += 1
          here.throughExchange(exchange, first = exchanges == 1, partitions)
        case other => here.through(other)
      }
      val name = nameOf(here.plan)
      val isLast = step.isEmpty || step.exists(_.plan.children.isEmpty && name.isEmpty)
      if (passed.nonEmpty && (name.nonEmpty || isLast) && isNew(here.plan)) {
        val where = if (isSource(here.plan)) "at the source" else passed
        val stage = if (exchanges > 1) s"$where, in an earlier stage" else where
        val told = if (here.inTask) s"$where, in the task" else stage
        found += Candidate(told, here.plan, here.keys, here.partition, here.inTask)
        passed = ""
      }
      if (name.nonEmpty) passed = name
      at = step
    }
    found.result()
  }

  /** A node of hints is there once. */
  private def isNew(plan: SparkPlan): Boolean = !plan.isInstanceOf[HintExec]

  private def isSource(plan: SparkPlan): Boolean = plan match {
    case _: LeafExecNode => true
    case project: ProjectExec => isSource(project.child)
    case adapter: InputAdapter => isSource(adapter.child)
    case mark: EventTimeWatermarkExec => isSource(mark.child)
    case columnar: ColumnarToRowExec => isSource(columnar.child)
    case _ => false
  }

  /** The position below this operator is another one than above it. Empty: it is not. */
  private def nameOf(plan: SparkPlan): String = plan match {
    case _: ProjectExec | _: InputAdapter | _: EventTimeWatermarkExec | _: ColumnarToRowExec |
        _: LookaheadExec | _: JoinLookaheadExec | _: HintExec | _: LeafExecNode => ""
    case _: ShuffleExchangeExec => "below the exchange"
    case _: BaseAggregateExec => "below the aggregation"
    case _: SortExec => "below the sort"
    case _: FilterExec => "below a filter"
    case other => s"below ${other.nodeName}"
  }

  private final case class Walk(
      plan: SparkPlan, keys: Seq[Expression], partition: Expression, inTask: Boolean) {

    /** To the child that has all the columns; None: there is none, or they are computed there. */
    def through(node: SparkPlan): Option[Walk] = {
      val names = node match {
        case project: ProjectExec => project.projectList
        case aggregate: BaseAggregateExec => aggregate.groupingExpressions
        case _ => Nil
      }
      for {
        below <- rewritten(names)
        child <- node.children.filter(child =>
          below.references.subsetOf(child.outputSet)) match {
          case Seq(only) => Some(only)
          case _ => None // a source, a union, or columns that this node makes
        }
      } yield below.copy(plan = child)
    }

    /** The exchange before the operator says which partition a row goes to. */
    def throughExchange(
        exchange: ShuffleExchangeExec, first: Boolean, partitions: Int): Option[Walk] = {
      val number = if (!first) Some(partition) else exchange.outputPartitioning match {
        case hashed: HashPartitioning if hashed.numPartitions == partitions =>
          Some(hashed.partitionIdExpression)
        case SinglePartition => Some(Literal(0))
        case _ => None
      }
      number.filter(_.references.subsetOf(exchange.child.outputSet))
        .map(Walk(exchange.child, keys, _, inTask = false))
    }

    private def references: AttributeSet = AttributeSet(keys.flatMap(_.references) ++
      partition.references)

    private def rewritten(names: Seq[NamedExpression]): Option[Walk] = {
      val meaning = AttributeMap(names.collect {
        case alias: Alias => alias.toAttribute -> alias.child
      })
      // Upwards: a column may be computed from one of the same name and id (`normalized(a) AS a`), and
      // the meaning of a column is not rewritten once more.
      def rewrite(expression: Expression): Expression = expression.transformUp {
        case attribute: Attribute => meaning.getOrElse(attribute, attribute)
      }
      val below = copy(keys = keys.map(rewrite), partition = rewrite(partition))
      if ((below.keys :+ below.partition).forall(isCheap)) Some(below) else None
    }

    /** It can be computed twice, at any place, and costs little. */
    private def isCheap(expression: Expression): Boolean = expression.deterministic &&
      !expression.exists {
        case _: Attribute => false
        case _: UserDefinedExpression | _: SubqueryExpression | _: Unevaluable => true
        case _ => false
      }
  }
}
