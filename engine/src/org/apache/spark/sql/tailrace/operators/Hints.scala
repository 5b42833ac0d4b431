package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful._

import tailrace.prefetch.{HintController, HintMode}

/** Puts the lookahead operators into a plan that the controller has chosen (RFC 17). */
final class Hints(controller: HintController, mode: HintMode, threshold: Int) {
  import Hints._

  /** For each stateful operator that looks up one key per row. */
  def insertIn(plan: SparkPlan): SparkPlan =
    operatorsOf(plan).map(_.stateInfo.get.operatorId).foldLeft(plan) { (present, id) =>
      // Nodes that were put in for one operator may be below another.
      operatorsOf(present).find(_.stateInfo.get.operatorId == id).fold(present) { operator =>
        insertFor(present, operator.stateInfo.get, Lookahead.inputsOf(operator), LateRows.of(operator))
      }
    }

  private def operatorsOf(plan: SparkPlan): Seq[StatefulOperator] = plan.collect {
    case operator: StatefulOperator
      if operator.stateInfo.isDefined && Lookahead.inputsOf(operator).nonEmpty => operator
  }

  private def insertFor(
      plan: SparkPlan, info: StatefulOperatorStateInfo,
      inputs: Seq[Lookahead.Input], late: LateRows): SparkPlan = {
    val run = info.queryRunId.toString
    val candidates = inputs.map { input =>
      HintCandidates.of(input.child, input.keys, info.numPartitions)
        .filter(candidate => input.inTask || !candidate.inTask)
    }
    val choice = controller.choose(
      run, info.operatorId, info.storeVersion, InTask +: namesOf(candidates), mode)
    if (choice.level == 0) {
      plan
    } else {
      lazy val routes = controller.routes(run, info.operatorId, info.numPartitions).toSeq
      candidates.foldLeft(plan) { (before, ofInput) =>
        ofInput.zipWithIndex.foldLeft(before) { case (present, (candidate, index)) =>
          val level = index + 1
          // An input with fewer candidates than another uses its first one.
          val sends = level == math.min(choice.level, ofInput.length)
          if (!sends && !choice.markers) {
            present
          } else {
            val target = HintTarget(run, info.checkpointLocation, info.operatorId,
              info.storeVersion, level, candidate.name, candidate.inTask, candidate.keys,
              candidate.partition, threshold, late)
            wrap(present, candidate.below)(HintExec(target, if (sends) Some(routes) else None, _))
          }
        }
      }
    }
  }

  /** Puts a node above this one; a plan has each of its nodes once. */
  private def wrap(plan: SparkPlan, below: SparkPlan)(node: SparkPlan => SparkPlan): SparkPlan =
    if (plan eq below) node(plan)
    else plan.withNewChildren(plan.children.map(wrap(_, below)(node)))
}

object Hints {
  private val InTask = "in the task"

  /** Of both inputs of a join together. */
  private def namesOf(inputs: Seq[Seq[HintCandidates.Candidate]]): Seq[String] = {
    val levels = inputs.map(_.length).maxOption.getOrElse(0)
    (0 until levels).map { index =>
      inputs.filter(_.nonEmpty).map(ofInput => ofInput(math.min(index, ofInput.length - 1)).name)
        .distinct.mkString(" / ")
    }
  }
}
