package org.apache.spark.sql.tailrace.testing.simulation

import scala.collection.immutable.TreeMap
import scala.collection.mutable

import tailrace.errors.LogEntriesMissing
import tailrace.ledger.Messages.StoreAt
import tailrace.ledger.StartCheck

/** A store's state: how many rows it has counted, and the sum of their numbers. */
final case class Counted(rows: Long, sum: Long, lineage: Long) {
  /** The same rows give the same lineage, whichever attempt adds them. */
  def plus(batch: Long, numbers: Seq[Long]): Counted = {
    val more = numbers.sum
    Counted(rows + numbers.size, sum + more,
      (lineage * 31 + batch) * 1000003L + more * 7919L + numbers.size + 1)
  }
}

object Counted {
  val Empty: Counted = Counted(0L, 0L, 0L)
}

final case class Part(parent: Long, state: Counted)

/** @param complete not: a crash has torn it, or it is still being written */
final case class PackFile(version: Long, parts: Map[StoreAt, Part], complete: Boolean)

/** The data that outlives every process: the checkpoint, the sink and the source. */
final class Disk(world: World, val stores: Int, val rows: Long) {
  /** By batch, the number of the first row after it. */
  var offsets = TreeMap.empty[Long, Long]
  var commits = Set.empty[Long]
  val packs = mutable.LinkedHashMap.empty[String, PackFile]
  /** By batch, its output: the rows of each store, and its count after them. */
  val shown = mutable.Map.empty[Long, Seq[(Seq[Long], Long)]]
  /** The source has deleted the rows before this one. */
  var forgotten = 0L

  def startOf(batch: Long): Long = if (batch == 0) 0L else offsets(batch - 1)

  /** Where a new run goes on: the engine's own check. */
  def nextBatch: Long =
    try {
      StartCheck.verify("/checkpoint", offsets.keys.toSeq, commits.toSeq,
        packs.values.map(pack => StartCheck.StateFile(pack.version, "state/tailrace")).toSeq,
        namesState = false)
      StartCheck.nextBatch(offsets.keys.toSeq, commits.toSeq)
    } catch {
      case missing: LogEntriesMissing =>
        throw new Violation(Harm.StartRefused, s"The query is refused: ${missing.getMessage}")
    }

  /** A store's state after `version` batches, from packs that form one chain. */
  def load(store: Int, version: Long): Option[Counted] =
    if (version == 0) {
      Some(Counted.Empty)
    } else {
      val found = packs.values.filter(pack => pack.complete && pack.version == version)
        .flatMap(_.parts.collect { case (at, part) if at.store == s"$store" => at -> part })
      world.require(found.map(_._1.lineage).toSet.size <= 1, Harm.PacksOfTwoRuns,
        s"version $version of store $store is in packs of different runs")
      found.headOption.flatMap { case (_, part) =>
        load(store, version - 1).filter(_.lineage == part.parent).map(_ => part.state)
      }
    }

  /** Rules 1 and 2: every batch in `commits` can be loaded, and was planned for good. */
  def committed(batch: Long): Unit = {
    world.require(offsets.contains(batch), Harm.PublishedWithoutOffsets,
      s"batch $batch is published, and offsets/$batch is not visible")
    (0 until stores).foreach { store =>
      val state = load(store, batch + 1)
      world.require(state.nonEmpty, Harm.PublishedWithoutState,
        s"batch $batch is published, and store $store has no version ${batch + 1}")
      val expected = (0L until offsets(batch)).count(_ % stores == store)
      world.require(state.get.rows == expected, Harm.RowsWrong,
        s"after batch $batch store $store has counted ${state.get.rows} of $expected rows")
    }
    commits += batch
    world.note(s"commits/$batch is visible")
  }

  /** A sink that is idempotent in the batch's number: output that was shown must not change. */
  def show(batch: Long, output: Seq[(Seq[Long], Long)]): Unit = {
    shown.get(batch).foreach { before =>
      world.require(before == output, Harm.OutputChanged,
        s"batch $batch was shown again, changed: first $before, then $output")
    }
    shown(batch) = output
    world.note(s"batch $batch is shown: rows ${output.flatMap(_._1).sorted.mkString(" ")}")
  }

  def read(from: Long, until: Long): Unit = world.require(from >= forgotten || from == until,
    Harm.SourceForgot,
    s"rows $from to $until are asked for, and the source has forgotten those before $forgotten")

  /** At the end every row was shown once and is counted once. */
  def verifyEnd(): Unit = {
    val all = shown.values.flatten.flatMap(_._1).toSeq.sorted
    world.require(all == (0L until rows), Harm.RowsWrong,
      s"of $rows rows these were shown: ${all.mkString(" ")}")
    world.require(commits.contains(offsets.lastKey), Harm.NeverEnds, "the last batch is not published")
  }
}
