/*
 * Problem: stores of a test commit outside of any query, where the ledger has them write
 * changes files of their own; packs come only from queries.
 * Answer: a query's driver, as far as its stores need it: a run is announced to the
 * session's own ledger, and each batch is handed over with an entry for `commits`. Everything
 * between the store and the pack on disk is real.
 * Invariant: `publish` returns when `commits/N` is there.
 */
package org.apache.spark.sql.tailrace.testing

import java.nio.file.{Files, Path => LocalPath, Paths}

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.conf.Configuration

import tailrace.ledger.{HeldFile, Ledger}
import tailrace.ledger.Messages.BatchId
import tailrace.spark.{CheckpointName, CheckpointPacks, EngineRuntime}

class QueryHarness extends Operations {
  import RowCodec.nodes

  private def ledger: Ledger = EngineRuntime.current.services.ledger.getOrElse(
    throw new IllegalStateException("the session runs without tailrace's plugin"))

  override protected def execute(operation: JsonNode): JsonNode = {
    val root = CheckpointName.of(operation.path("root").asText(), new Configuration)
    val run = operation.path("run").asText()
    val batch = BatchId(root, run, operation.path("batch").asLong())
    operation.path("op").asText() match {
      case "begin" =>
        val packs = CheckpointPacks.filesOf(root, new Configuration)
        ledger.beginRun(root, run, operation.path("committed").asLong() + 1, packs)
      case "publish" =>
        val folder = operation.path("root").asText()
        ledger.takeCommit(batch, new Entry(Paths.get(folder, "commits", s"${batch.number}")))
        ledger.awaitPublished(batch)
      case "await_quiet" => ledger.awaitQuiet(root, 20000).foreach(left => throw left.asError)
    }
    nodes.nullNode()
  }

  private final class Entry(path: LocalPath) extends HeldFile {
    override def name: String = path.toString
    override def prepare(): Unit = Files.createDirectories(path.getParent)
    override def isPrepared: Boolean = Files.exists(path.getParent)
    override def publish(): Unit = {
      prepare()
      Files.writeString(path, "v1\n{}")
    }
    override def drop(): Unit = {}
    override def isPublished: Boolean = Files.exists(path)
  }
}
