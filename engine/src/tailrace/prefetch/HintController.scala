package tailrace.prefetch

import scala.collection.mutable

/**
 * The prefetching controller of Keyed Prefetching (IV-A, IV-C), on the driver: which of the candidates
 * in a query's plan tells the keys of rows to come. It is asked when a batch is planned, and learns
 * from reports of the batch before.
 *
 * Candidates are numbered from the operator to the source. Level 0 is the task's own look-ahead, which
 * needs no controller. The rules, for each operator:
 *
 *  1. Hints begin when tasks wait for records in spite of that: at the first candidate, the one that is
 *     nearest to the source.
 *  2. A candidate whose hints are not used (more than a twentieth of the records that were read, in two
 *     batches) sees other keys than the operator. It is left for the next one, for good, and with it
 *     those before it.
 *  3. The last candidate that leaves enough time is the best one: its slack, measured by markers, is
 *     above the time of an access at the 99th percentile and a margin.
 *  4. Hints end when no look-up has met a record that is not in memory for a while.
 *
 * Invariant: reports that are lost, late or doubled change which candidate is chosen, and no result.
 */
final class HintController {
  import HintController._

  private val operators = mutable.Map.empty[(String, Long), Operator]
  private val addresses = mutable.Map.empty[String, (String, Int)]

  /**
   * For the batch that begins at this version.
   *
   * @param candidates their names, from the operator to the source; the first is the task itself
   */
  def choose(
      run: String, operator: Long, version: Long, candidates: Seq[String],
      mode: HintMode): Choice = synchronized {
    val known = operators.getOrElseUpdate((run, operator), new Operator)
    known.decide(version, candidates, mode)
    Choice(known.level, known.takesMarkers(version), known.reason)
  }

  def take(report: HintReport): Unit = synchronized {
    report match {
      case HintReport.Listening(executor, host, port) => addresses(executor) = host -> port
      case used: HintReport.Used =>
        operators.get((used.partition.run, used.partition.operator)).foreach(_.take(used))
      case passed: HintReport.Passed =>
        operators.get((passed.run, passed.operator)).foreach(_.take(passed))
    }
  }

  /** By partition, where its stores were used last: executor, host and port; or null. */
  def routes(run: String, operator: Long, partitions: Int): Array[Route] = synchronized {
    val owners = operators.get((run, operator)).fold(Map.empty[Int, String])(_.owners.toMap)
    Array.tabulate(partitions) { partition =>
      owners.get(partition).map { executor =>
        val (host, port) = addresses.getOrElse(executor, ("", 0))
        Route(executor, host, port)
      }.orNull
    }
  }

  /** The last choice for an operator, and why; None: nothing was chosen yet. */
  def chosen(run: String, operator: Long): Option[(String, String)] = synchronized {
    operators.get((run, operator)).filter(_.candidates.nonEmpty)
      .map(known => (known.candidates(known.level), known.reason))
  }

  def executorLost(executor: String): Unit = synchronized {
    addresses -= executor
    operators.valuesIterator.foreach(_.owners.filterInPlace((_, owner) => owner != executor))
  }

  def ended(run: String): Unit = synchronized {
    operators.filterInPlace((key, _) => key._1 != run)
  }
}

object HintController {
  /** @param level 0: no hints are sent; `markers`: all candidates say when their last row passes */
  final case class Choice(level: Int, markers: Boolean, reason: String)

  final case class Route(executor: String, host: String, port: Int)

  private val LeastWaitNanos = 1000000L
  private val InVainPart = 20
  private val InVainBatches = 2
  /** Of reports: fewer records say nothing. */
  private val EnoughRead = 200L
  private val QuietBatches = 20
  private val MarginMillis = 5L
  private val MarkersEvery = 16
  private val Remembered = 4

  /** The reports of one batch together. */
  private final class Batch {
    var tasks, cold, found, waitNanos, read, inVain, hinted = 0L
    var accessNanos = 0L
    var isSlow = false
    var firstBegan: Long = Long.MaxValue
    val passed = mutable.Map.empty[Int, Long]

    def waitedLong: Boolean = waitNanos > tasks * LeastWaitNanos
  }

  private final class Operator {
    var candidates: Seq[String] = Nil
    var level = 0
    var reason = "look-ups do not wait"
    val owners = mutable.Map.empty[Int, String]
    private val batches = mutable.LinkedHashMap.empty[Long, Batch]
    private var decidedFor = -1L
    private var top = Int.MaxValue // candidates above it see other keys
    private var begun = -1L
    private var badBatches = 0
    private var quietBatches = 0
    // Milliseconds from the last row at a candidate to the first task that needs it.
    private val slack = mutable.Map.empty[Int, Long]

    def takesMarkers(version: Long): Boolean =
      level > 0 && (version - begun < 2 || version % MarkersEvery == 0)

    def take(used: HintReport.Used): Unit = {
      owners(used.partition.partition) = used.executor
      val batch = batchAt(used.version)
      batch.tasks += 1
      batch.cold += used.cold
      batch.found += used.found
      batch.waitNanos += used.waitNanos
      batch.read += used.read
      batch.inVain += used.inVain
      batch.hinted += used.hinted
      batch.accessNanos = math.max(batch.accessNanos, used.accessNanos)
      batch.isSlow ||= used.isSlow
      batch.firstBegan = math.min(batch.firstBegan, used.beganMillis)
    }

    def take(passed: HintReport.Passed): Unit = {
      val seen = batchAt(passed.version).passed
      seen(passed.level) = math.max(passed.millis, seen.getOrElse(passed.level, 0L))
    }

    private def batchAt(version: Long): Batch = {
      val batch = batches.getOrElseUpdate(version, new Batch)
      while (batches.size > Remembered) batches -= batches.head._1
      batch
    }

    /** A batch that is planned again keeps its choice. */
    def decide(version: Long, found: Seq[String], mode: HintMode): Unit = {
      candidates = found
      val last = found.length - 1
      level = math.min(level, last)
      if (version != decidedFor) {
        decidedFor = version
        val before = batches.get(version - 1)
        if (mode == HintMode.Off || last < 1) turnOff(
          if (last < 1) "no candidate before the task has the key" else "the option hints is off")
        else before.foreach(learn(_, version, math.min(last, top), mode))
      }
    }

    private def learn(batch: Batch, version: Long, first: Int, mode: HintMode): Unit = {
      if (batch.firstBegan != Long.MaxValue) {
        batch.passed.foreach { case (at, millis) => slack(at) = batch.firstBegan - millis }
      }
      quietBatches = if (batch.cold == 0L) quietBatches + 1 else 0
      if (level == 0) begin(batch, version, first, mode)
      else if (quietBatches >= QuietBatches) turnOff("all that is looked up is in memory")
      else if (isInVain(batch)) leave(batch)
      else moveLater(batch)
    }

    // 1.
    private def begin(batch: Batch, version: Long, first: Int, mode: HintMode): Unit = {
      val isDue = batch.cold > 0L && (mode == HintMode.On || batch.isSlow && batch.waitedLong)
      if (isDue && first >= 1) {
        level = first
        begun = version
        quietBatches = 0
        reason = s"look-ups waited ${batch.waitNanos / 1000000} ms in batch ${version - 1}: " +
          "the first candidate that sees the operator's keys"
      } else if (isDue) {
        reason = "every candidate before the task sees other keys than the operator"
      }
    }

    // 2.
    private def isInVain(batch: Batch): Boolean = {
      badBatches =
        if (batch.hinted > 0L && batch.read >= EnoughRead && batch.inVain * InVainPart > batch.read) {
          badBatches + 1
        } else {
          0
        }
      badBatches >= InVainBatches
    }

    private def leave(batch: Batch): Unit = {
      badBatches = 0
      top = level - 1
      val share = 100 * batch.inVain / math.max(1L, batch.read)
      reason = s"$share % of what was read for hints from ${candidates(level)} was not looked up"
      level = top
    }

    // 3.
    private def moveLater(batch: Batch): Unit = {
      val needed = batch.accessNanos / 1000000 + MarginMillis
      val later = (1 until level).find(at => slack.get(at).exists(_ > needed))
      later.foreach { at =>
        reason = s"it leaves ${slack(at)} ms, and an access takes ${batch.accessNanos / 1000000} ms"
        level = at
      }
      if (later.isEmpty && batch.waitedLong && level < math.min(candidates.length - 1, top) &&
          slack.get(level).exists(_ <= needed)) {
        reason = s"${candidates(level)} leaves ${slack(level)} ms, and an access takes " +
          s"${batch.accessNanos / 1000000} ms"
        level += 1
      }
    }

    // 4.
    private def turnOff(why: String): Unit = {
      level = 0
      badBatches = 0
      reason = why
    }
  }
}
