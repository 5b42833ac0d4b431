/*
 * Problem: stores of a test commit outside of any query, where the ledger tells them to write
 * changes files of their own; packs come only from queries.
 * Answer: what a query's driver does for its stores, and nothing else: a run is announced to the
 * session's own ledger, and each batch is handed over with an entry for `commits`. Everything
 * between the store and the pack on disk is real.
 * Invariant: `publish` returns when `commits/N` is there.
 */
package org.apache.spark.sql.tailrace.testing

import java.nio.file.{Files, Path => LocalPath, Paths}

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.conf.Configuration

import tailrace.commit.{HeldFile, Ledger}
import tailrace.commit.Messages.BatchId
import tailrace.spark.{CheckpointPacks, CommitServices}

class QueryHarness extends Operations {
  import RowCodec.nodes

  private def ledger: Ledger = CommitServices.ledger.getOrElse(
    throw new IllegalStateException("the session runs without tailrace's plugin"))

  override protected def execute(operation: JsonNode): JsonNode = {
    val root = operation.path("root").asText()
    val run = operation.path("run").asText()
    val batch = BatchId(root, run, operation.path("batch").asLong())
    operation.path("op").asText() match {
      case "begin" =>
        val packs = CheckpointPacks.filesOf(root, new Configuration)
        ledger.listed(root, run, operation.path("committed").asLong(), Nil, packs, packs.exist)
      case "publish" =>
        ledger.handOver(batch, new Entry(Paths.get(root, "commits", batch.number.toString)))
        ledger.awaitPublished(batch)
      case "await_quiet" => ledger.awaitQuiet(root, 20000).foreach(left => throw left.asError)
    }
    nodes.nullNode()
  }

  private final class Entry(path: LocalPath) extends HeldFile {
    override def name: String = path.toString
    override def prepare(): Unit = Files.createDirectories(path.getParent)
    override def publish(): Unit = {
      prepare()
      Files.writeString(path, "v1\n{}")
    }
    override def isPublished: Boolean = Files.exists(path)
  }
}
