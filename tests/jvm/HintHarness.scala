/*
 * Problem: the parts of keyed prefetching work by chance and by time: a sketch, buffers of hints, a
 * controller that learns from reports.
 * Answer: the real parts, in the hands of a test; messages go through their bytes.
 * Invariant: nothing happens because time has passed.
 */
package org.apache.spark.sql.tailrace.testing

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.SparkEnv
import org.apache.spark.sql.types.StructType

import tailrace.layout.hash.HashLayout
import tailrace.metrics.LatencyHistogram
import tailrace.prefetch._
import tailrace.spark.EngineRuntime

class HintHarness extends Operations {
  import RowCodec.nodes

  private var sketch: CountMinSketch = _
  private var buffers: HintBuffers = _
  private var controller: HintController = _
  private val histogram = new LatencyHistogram
  private val sent = nodes.arrayNode()

  override protected def execute(operation: JsonNode): JsonNode = {
    def number(field: String): Long = operation.path(field).asLong()
    def text(field: String): String = operation.path(field).asText()
    def numbers(field: String): Seq[JsonNode] = operation.path(field).elements().asScala.toSeq
    text("op") match {
      case "sketch" =>
        sketch = new CountMinSketch(number("threshold").toInt, number("ages_after").toInt)
      case "hot" => // of each of these hashes, one after the other, whether it is hot
        val found = nodes.arrayNode()
        numbers("hashes").foreach(hash => found.add(sketch.isHot(hash.asInt())))
        return found
      case "buffers" =>
        sent.removeAll()
        buffers = new HintBuffers(number("partitions").toInt,
          new CountMinSketch(number("threshold").toInt), keep)
      case "add" => // pairs of hash and partition
        numbers("rows").foreach { row =>
          val hash = row.get(0).asInt()
          if (buffers.isWanted(hash)) buffers.add(row.get(1).asInt(), hash)
        }
      case "flush" =>
        buffers.flush()
        return sent
      case "latencies" => numbers("nanos").foreach(nanos => histogram.add(nanos.asLong()))
      case "percentile" =>
        return nodes.numberNode(histogram.percentile(operation.path("share").asDouble()))
      case "controller" => controller = new HintController
      case "choose" =>
        val mode = HintMode.all.find(_.name == operation.path("mode").asText("auto")).get
        val choice = controller.choose("run", 0L, number("version"),
          numbers("candidates").map(_.asText()), mode)
        return nodes.objectNode().put("level", choice.level).put("markers", choice.markers)
          .put("reason", choice.reason)
      case "used" => controller.take(HintReport.Used(
        operation.path("executor").asText("1"),
        HintedPartition("run", "root", 0L, number("partition").toInt), number("version"),
        number("cold"), number("found"), number("wait_ms") * 1000000L, number("read"),
        number("in_vain"), number("hinted"), number("access_ms") * 1000000L,
        operation.path("slow").asBoolean(true), number("began")))
      case "passed" => controller.take(
        HintReport.Passed("run", 0L, number("version"), number("level").toInt, number("at")))
      case "listening" =>
        controller.take(HintReport.Listening(text("executor"), text("host"), number("port").toInt))
      case "lost" => controller.executorLost(text("executor"))
      case "hint" => // the stores of this process get these keys, or hashes that are of none
        val codec = new RowCodec(StructType.fromDDL(text("key")))
        val keys = codec.encodeAll(operation.path("keys")).map { key =>
          HashLayout.hashOf(key.getBaseObject, key.getBaseOffset, key.getSizeInBytes)
        }
        val others = numbers("hashes").map(_.asInt()).toArray
        val to = HintedPartition(text("run"), text("root"), 0L, number("partition").toInt)
        EngineRuntime.current.hints.send(
          HintController.Route(SparkEnv.get.executorId, "", 0),
          HintBatch(to, number("version"), keys ++ others, 0L, number("dropped")))
      case "routes" =>
        val found = nodes.arrayNode()
        controller.routes("run", 0L, number("partitions").toInt).foreach { route =>
          if (route == null) found.addNull()
          else found.add(s"${route.executor} ${route.host}:${route.port}")
        }
        return found
    }
    nodes.nullNode()
  }

  private def keep(partition: Int, hashes: Array[Int], hot: Long): Unit = {
    val hints = HintBatch(HintedPartition("a run", "file:/räume", 3L, partition), 7L, hashes, hot)
    val arrived = HintBatch.decode(hints.encode())
    require(arrived.to == hints.to && arrived.version == 7L)
    val values = nodes.arrayNode()
    arrived.hashes.foreach(values.add(_))
    sent.add(nodes.objectNode().put("partition", arrived.to.partition).put("hot", arrived.hot)
      .set[JsonNode]("hashes", values))
  }
}
