package tailrace.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeTimeout, ProcessingTimeTimeout}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming.FlatMapGroupsInPandasWithStateExec
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate._
import org.apache.spark.sql.execution.streaming.operators.stateful.join._
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper._
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreId}
import org.apache.spark.sql.streaming.{GroupStateTimeout, OutputMode}
import org.apache.spark.sql.tailrace.operators._
import org.apache.spark.sql.types.{DataType, StructType}

import tailrace.layout.time.TimeColumn
import tailrace.semantics._

/**
 * Reads the physical plan of a batch: which stateful operators there are, how each uses its
 * stores, and up to which time it is about to evict.
 *
 * Rule: a scan other than `All` is said of a family only where the operator scans it for no other
 * rows than those that the scan still gives. Spark tests every row that a scan gives with its own
 * predicate, so a row too many does no harm; a row too few would be lost.
 */
object Classifier {
  import Pattern._

  def read(plan: SparkPlan): Seq[OperatorUse] = {
    val looking = plan.collect {
      case ahead: LookaheadExec => ahead.stateInfo.operatorId
      case ahead: JoinLookaheadExec => ahead.stateInfo.operatorId
    }.toSet
    plan.collect {
      case operator: StatefulOperator if !isReader(operator) && operator.stateInfo.isDefined =>
        val info = operator.stateInfo.get
        OperatorUse(info.queryRunId.toString, info.operatorId, info.storeVersion,
          nameOf(operator), hinted(operator, storesOf(operator)), looking(info.operatorId))
    }
  }

  /** Where the plan does not tell, because a function of the user's decides, a hint does. */
  private def hinted(operator: StatefulOperator, stores: Seq[StoreUse]): Seq[StoreUse] =
    Hint.in(operator.children.flatMap(_.output)).pattern match {
      case Some(pattern) => stores.map { use =>
        if (use.pattern == Unknown || operator.isInstanceOf[FlatMapGroupsWithStateExecBase]) {
          use.copy(pattern = pattern, reason = "the hint says so")
        } else {
          use
        }
      }
      case None => stores
    }

  /** The first half of an operator that Spark plans in two; both have the same stores. */
  private def isReader(operator: SparkPlan): Boolean = operator match {
    case _: StateStoreRestoreExec | _: SessionWindowStateStoreRestoreExec => true
    case _ => false
  }

  private def nameOf(operator: StatefulOperator): String = operator match {
    case _: StateStoreSaveExec | _: MergeStateExec | _: WindowRowsExec => "aggregation"
    case _: SessionWindowStateStoreSaveExec | _: SessionRowsExec => "session window aggregation"
    case _: StreamingDeduplicateExec => "deduplication"
    case _: StreamingDeduplicateWithinWatermarkExec => "deduplication within the watermark"
    case _: StreamingSymmetricHashJoinExec => "stream-stream join"
    case _: FlatMapGroupsWithStateExecBase => "state of groups"
    case other => other.nodeName
  }

  private def storesOf(operator: StatefulOperator): Seq[StoreUse] = operator match {
    case save: StateStoreSaveExec if save.outputMode.contains(OutputMode.Complete()) =>
      Seq(only(Update, "complete mode: every batch shows all rows", None, None))
    case rows: WindowRowsExec => Seq(byKey(rows).copy(pattern = AlignedAppend,
      reason = "aggregates that need all rows of a window, shown when it closes"))
    case merge: MergeStateExec => Seq(byKey(merge))
    case save: StateStoreSaveExec => Seq(byKey(save))
    case session: SessionWindowStateStoreSaveExec => sessions(session)
    case rows: SessionRowsExec => sessionRows(rows)
    case dedup: StreamingDeduplicateExec => Seq(byKey(dedup))
    case dedup: StreamingDeduplicateWithinWatermarkExec =>
      Seq(only(WindowedUpdate, "a key is kept until the watermark passes its expiry",
        Some(value(columns = 1, ordinal = 0, TimeColumn.Micros)),
        dedup.eventTimeWatermarkForEviction.map(_ * 1000)))
    case groups: FlatMapGroupsWithStateExec =>
      timeouts(groups.timeoutConf, groups.stateManager.stateSchema, groups.stateFormatVersion,
        groups.batchTimestampMs, groups.eventTimeWatermarkForEviction)
    case groups: FlatMapGroupsInPandasWithStateExec =>
      timeouts(groups.timeoutConf, groups.stateManager.stateSchema, groups.stateFormatVersion,
        groups.batchTimestampMs, groups.eventTimeWatermarkForEviction)
    case join: StreamingSymmetricHashJoinExec => joined(join)
    case other => Seq(only(Unknown, s"${other.nodeName} is not known", None, None))
  }

  // ---- aggregation and deduplication: the time is in the key

  private def byKey(operator: WatermarkSupport): StoreUse = {
    val keys = operator.keyExpressions
    // Before there is a watermark the column is known already, and nothing is due.
    val evicting = operator.watermarkExpressionForEviction
    val column = evicting.orElse(WatermarkSupport.watermarkExpression(
      WatermarkSupport.findEventTimeColumn(keys, allowMultipleEventTimeColumns = true), Some(0L)))
    val found = for {
      (attribute, bound) <- column.flatMap(attributeIn)
      ordinal = keys.indexWhere(_.exprId == attribute.exprId)
      if ordinal >= 0
    } yield only(WindowedUpdate, s"the key has the event time ${attribute.name}",
      Some(timeColumn(attribute.dataType, inKey = true, keys.length, ordinal)),
      evicting.map(_ => bound))
    found.getOrElse(only(Update, "the key has no event time: rows stay", None, None))
  }

  // ---- sessions: the end moves with every event, so it is in the value

  private def sessions(session: SessionWindowStateStoreSaveExec): Seq[StoreUse] = {
    val rows = session.child.output
    val ordinal = rows.indexWhere(_.exprId == session.sessionExpression.exprId)
    val bound = session.watermarkExpressionForEviction.flatMap(attributeIn).collect {
      case (attribute, time) if attribute.exprId == session.sessionExpression.exprId => time
    }
    if (session.outputMode.contains(OutputMode.Complete()) || ordinal < 0) {
      Seq(only(Range, "sessions are found by their key; all are shown", None, None))
    } else {
      Seq(only(Range, "sessions are found by their key, and expire at their end",
        Some(timeColumn(session.sessionExpression.dataType, inKey = false, rows.length, ordinal)),
        bound))
    }
  }

  /** A directory of sessions, and lists of rows that are read when their session ends. */
  private def sessionRows(rows: SessionRowsExec): Seq[StoreUse] = Seq(
    only(Range, "sessions are found by their key, and expire at their end",
      Some(timeColumn(rows.sessionExpression.dataType, inKey = false, OpenSessionColumns, 0)),
      rows.eventTimeWatermarkForEviction.map(_ * 1000)),
    StoreUse(StateStoreId.DEFAULT_STORE_NAME, SessionRowsExec.RowsFamily, UnalignedAppend,
      "aggregates that need all rows of a session, shown when it ends",
      Some(TimeColumn.Estimated), Scan.All))

  // ---- state of groups: the time-out is in the value, in milliseconds

  private def timeouts(
      timeout: GroupStateTimeout, schema: StructType, format: Int,
      now: Option[Long], watermark: Option[Long]): Seq[StoreUse] = {
    val ordinal = if (format == 1) schema.length - 1 else 1
    val time = value(schema.length, ordinal, TimeColumn.Millis)
      .copy(never = NoTimeout)
    timeout match {
      case ProcessingTimeTimeout =>
        Seq(only(WindowedUpdate, "groups time out by the clock", Some(time), now))
      case EventTimeTimeout =>
        Seq(only(WindowedUpdate, "groups time out by event time", Some(time), watermark))
      case _ => Seq(only(Update, "groups have no time-out: they stay until removed", None, None))
    }
  }

  // ---- joins

  private def joined(join: StreamingSymmetricHashJoinExec): Seq[StoreUse] =
    if (join.stateFormatVersion >= 4) {
      Seq(only(Range, "state format 4 keeps both sides in order of time", None, None))
    } else {
      sideOf(join, LeftSide, join.stateWatermarkPredicates.left, join.leftKeys, join.left.output) ++
        sideOf(join, RightSide, join.stateWatermarkPredicates.right, join.rightKeys,
          join.right.output)
    }

  /**
   * A side has two families: how many rows a key has, and the rows by key and number. To evict,
   * Spark scans the first and looks at all rows of every key.
   */
  private def sideOf(
      join: StreamingSymmetricHashJoinExec, side: JoinSide,
      predicate: Option[JoinStateWatermarkPredicate], keys: Seq[Expression],
      output: Seq[Attribute]): Seq[StoreUse] = {
    def use(kind: String, time: Option[(TimeColumn, Long)], scan: Scan, reason: String): StoreUse = {
      val (store, family) = nameOf(join, side, kind)
      StoreUse(store, family, if (time.isEmpty) Update else WindowedUpdate, reason,
        time.map(_._1), time.fold(scan)(found => Scan.DueUpTo(found._2)))
    }
    predicate match {
      case Some(JoinStateKeyWatermarkPredicate(expression, _, _)) =>
        val reason = "the join's key has the event time"
        Seq(use(Counts, keyTime(expression, keys.length), Scan.All, reason),
          use(Rows, None, Scan.All, "found by key and number"))
      case Some(JoinStateValueWatermarkPredicate(expression, _, _)) =>
        val time = rowTime(expression, output, join.stateFormatVersion)
        val (store, family) = nameOf(join, side, Rows)
        val scan = if (time.isEmpty) Scan.All else Scan.KeysDueIn(store, family)
        Seq(use(Counts, None, scan, "the keys whose rows expire are known from the rows"),
          use(Rows, time, Scan.All, "rows expire by the join's range of time"))
      case _ =>
        val reason = "no watermark bounds this side: rows stay"
        Seq(use(Counts, None, Scan.All, reason), use(Rows, None, Scan.All, reason))
    }
  }

  /** Formats 1 and 2 have a store for each, format 3 a column family. */
  private def nameOf(
      join: StreamingSymmetricHashJoinExec, side: JoinSide, kind: String): (String, String) = {
    val name = s"$side-$kind"
    if (join.stateFormatVersion == 3) StateStoreId.DEFAULT_STORE_NAME -> name
    else name -> StateStore.DEFAULT_COL_FAMILY_NAME
  }

  /** From format 2 on a row has one column more: whether it was joined. */
  private def rowTime(
      expression: Expression, output: Seq[Attribute], format: Int): Option[(TimeColumn, Long)] =
    for {
      (attribute, bound) <- attributeIn(expression)
      ordinal = output.indexWhere(_.exprId == attribute.exprId)
      if ordinal >= 0
      columns = if (format == 1) output.length else output.length + 1
    } yield timeColumn(attribute.dataType, inKey = false, columns, ordinal) -> bound

  private def keyTime(expression: Expression, keys: Int): Option[(TimeColumn, Long)] =
    timeIn(expression).collect { case (key: BoundReference, bound) =>
      timeColumn(key.dataType, inKey = true, keys, key.ordinal) -> bound
    }

  // ---- columns

  /** The time and the bound of `time <= bound` or `window.end <= bound`, as Spark makes them. */
  private def timeIn(expression: Expression): Option[(Expression, Long)] = expression match {
    case LessThanOrEqual(GetStructField(window, 1, _), Literal(bound: Long, _)) =>
      Some(window -> bound)
    case LessThanOrEqual(time, Literal(bound: Long, _)) => Some(time -> bound)
    case _ => None
  }

  private def attributeIn(expression: Expression): Option[(Attribute, Long)] =
    timeIn(expression).collect { case (attribute: Attribute, bound) => attribute -> bound }

  /** An event time column: a time, or a window whose end counts. */
  private def timeColumn(kind: DataType, inKey: Boolean, columns: Int, ordinal: Int): TimeColumn =
    kind match {
      case window: StructType =>
        TimeColumn(inKey, columns, ordinal, window.length, 1, NoSpecialValue, TimeColumn.Micros)
      case _ => TimeColumn(inKey, columns, ordinal, 0, 0, NoSpecialValue, TimeColumn.Micros)
    }

  private def value(columns: Int, ordinal: Int, width: Int): TimeColumn =
    TimeColumn(inKey = false, columns, ordinal, 0, 0, NoSpecialValue, width)

  private def only(
      pattern: Pattern, reason: String, time: Option[TimeColumn], due: Option[Long]): StoreUse =
    StoreUse(StateStoreId.DEFAULT_STORE_NAME, StateStore.DEFAULT_COL_FAMILY_NAME, pattern, reason,
      time, due.fold[Scan](Scan.All)(Scan.DueUpTo(_)))

  private val Counts = "keyToNumValues"
  private val Rows = "keyWithIndexToValue"
  private val OpenSessionColumns = OpenSessions.valueSchema.length
  private val NoSpecialValue = TimeColumn.Never
  /** Spark's time-out value of a group without one. */
  private val NoTimeout = -1L
}
