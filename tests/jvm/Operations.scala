/*
 * Problem: the tested code lives in the JVM, the tests are written and generated in Python.
 * Answer: one entry point, `run`: a JSON list of operations in, a JSON list of results out.
 * Invariant: every operation gets exactly one result, {"value": ...} or {"error": ...}, in order;
 * a failed operation never hides the ones behind it.
 */
package org.apache.spark.sql.tailrace.testing

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.SparkThrowable

abstract class Operations {
  import RowCodec.{isNull, nodes}

  private val mapper = new ObjectMapper()

  protected def execute(operation: JsonNode): JsonNode

  /** Executes a JSON list of operations in order and returns the JSON list of their results. */
  def run(document: String): String = {
    val results = nodes.arrayNode()
    mapper.readTree(document).elements().asScala.foreach { operation =>
      val result = nodes.objectNode()
      try {
        result.set[JsonNode]("value", execute(operation))
      } catch {
        case failure: VirtualMachineError => throw failure
        case failure: Throwable => result.set[JsonNode]("error", Operations.describe(failure))
      }
      results.add(result)
    }
    mapper.writeValueAsString(results)
  }

  protected def done(action: => Unit): Option[JsonNode] = {
    action
    Some(nodes.nullNode())
  }

  protected def text(node: JsonNode, field: String): Option[String] =
    if (isNull(node.get(field))) None else Some(node.get(field).asText())

  protected def names(values: Seq[String]): JsonNode = {
    val result = nodes.arrayNode()
    values.foreach(result.add(_))
    result
  }
}

private[testing] object Operations {
  import RowCodec.nodes

  def describe(failure: Throwable): ObjectNode = {
    val causes = Iterator.iterate(failure)(_.getCause).takeWhile(_ != null).take(16).toList
    val error = nodes.objectNode()
    error.put("class", failure.getClass.getName)
    error.put("message", String.valueOf(failure.getMessage))
    error.put("condition", failure match {
      case spark: SparkThrowable => spark.getCondition
      case _ => null
    })
    val chain = error.putArray("causes")
    causes.foreach(cause => chain.add(s"${cause.getClass.getName}: ${cause.getMessage}"))
    error.put("frames", causes.last.getStackTrace.take(6).mkString("\n"))
    error
  }
}
