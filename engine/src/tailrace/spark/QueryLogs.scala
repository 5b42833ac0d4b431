package tailrace.spark

import java.io.{ByteArrayOutputStream, FileNotFoundException}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path, PathFilter}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.tailrace.RunningQuery
import org.slf4j.LoggerFactory

import tailrace.commit.Ledger
import tailrace.commit.Messages.BatchId
import tailrace.faults.{Failpoint, Rule}

/**
 * Spark's two logs of a query under the commit protocol (docs/rfcs/0004):
 *  - `commits/N` is taken from Spark at once and becomes visible when batch N is durable.
 *  - `offsets/N` is taken at once, too, and written while the batch runs; for a source that forgets,
 *    only after batch N-1 is published, because Spark tells the source right after.
 *  - Whoever reads either log first waits for what is pending.
 *  - Offsets beyond `commits + 1` are of a batch that has shown no output. Nobody sees them, and
 *    the query that goes on from there removes them once the batch before them is published.
 *
 * Where no store of the query is asynchronous, both logs are written as Spark writes them.
 */
private[spark] final class QueryLogs(below: CheckpointFileManager, conf: Configuration) {
  import QueryLogs._

  /** The one of the session in which the query was started, also when that has ended. */
  private val ledger: Option[Ledger] = CommitServices.ledger

  // ---- writing

  def writeCommit(path: Path, overwrite: Boolean): CancellableFSDataOutputStream =
    inQuery(path) match {
      case Some((ledger, query, batch)) if entered(ledger, query, batch) =>
        new Buffered(bytes => {
          ledger.handOver(batch, new HeldLogFile(below, path, bytes))
          if (query.runsOnce) ledger.awaitPublished(batch)
        })
      case Some((ledger, _, batch)) =>
        ledger.awaitPublished(batch.copy(number = batch.number - 1))
        ledger.sweepBefore(batch)
        followed(below.createAtomic(path, overwrite))(ledger.committedDirectly(batch))
      case None => below.createAtomic(path, overwrite)
    }

  /**
   * Whether stores of the batch were committed through the ledger. A batch that runs again after a
   * crash may find that its sink has it already: Spark's file sink then runs nothing at all, and the
   * state, which in Spark is always written before the sink, has to be made here.
   */
  private def entered(ledger: Ledger, query: RunningQuery, batch: BatchId): Boolean = {
    if (!ledger.hasEntered(batch) && isAsynchronous && query.keepsState) {
      log.info(s"The sink has batch ${batch.number} already; it runs once more for its state.")
      query.runForState()
    }
    ledger.hasEntered(batch)
  }

  private def isAsynchronous: Boolean =
    conf.get(StoreOptions.Prefix + "commit", "async") == "async"

  def writeOffsets(path: Path, overwrite: Boolean): CancellableFSDataOutputStream =
    inQuery(path) match {
      case Some((ledger, query, batch)) =>
        val before = batch.copy(number = batch.number - 1)
        ledger.verify(batch.root, batch.run)
        val asynchronous = ledger.isAsynchronous(batch.root, batch.run)
        val mayOverlap = asynchronous && ledger.hasPacks(batch.root, batch.run)
        if (!mayOverlap || (query.hasSourceThatForgets && Rule.SourcesForgetLate.isOn)) {
          ledger.awaitPublished(before)
        }
        if (asynchronous) {
          new Buffered(bytes => ledger.writeOffsets(batch, new HeldLogFile(below, path, bytes)))
        } else {
          Failpoint.pass("offset.before")
          followed(below.createAtomic(path, overwrite))(Failpoint.pass("offset.after"))
        }
      case None => below.createAtomic(path, overwrite)
    }

  // ---- reading

  def listCommits(path: Path, filter: PathFilter): Array[FileStatus] = {
    awaitQuiet(rootOf(path))
    below.list(path, filter)
  }

  def listOffsets(path: Path, filter: PathFilter): Array[FileStatus] = {
    val root = rootOf(path)
    // In this order: whatever offsets are seen here, their predecessor has been handed over.
    val found = below.list(path, filter)
    awaitQuiet(root)
    val owner = RunningQuery.of(root)
    val packs = CheckpointPacks.filesOf(root, conf)
    val packsExist = packs.exist
    val committed = (numbers(new Path(path.getParent, Commits)) :+ -1L).max
    val (visible, dangling) =
      if (!packsExist || !Rule.RemoveDanglingOffsets.isOn) (found, Array.empty[FileStatus])
      else found.partition(status => numberOf(status.getPath).forall(_ <= committed + 1))
    for (query <- owner; ledger <- this.ledger) {
      val left = dangling.flatMap(status => numberOf(status.getPath)).toSeq
      ledger.listed(root, query.run, committed, left, packs, packsExist)
    }
    visible
  }

  /** Spark asks whether an entry exists before it writes it; on a remote system that costs a trip. */
  def knownToBeNew(path: Path): Boolean = isEntry(path) && inQuery(path).exists {
    case (ledger, _, batch) =>
      if (path.getParent.getName == Offsets) removeDangling(ledger, batch, path.getParent)
      ledger.isNew(batch)
  }

  /**
   * Offsets beyond `commits + 1` make way for those of a new plan only when this query has published
   * the batch before them. Whoever wrote them may be alive; but then it cannot publish that batch
   * any more, and will never show what they stand for.
   */
  private def removeDangling(ledger: Ledger, batch: BatchId, folder: Path): Unit = {
    val dangling = ledger.danglingAt(batch)
    if (dangling.nonEmpty) {
      ledger.awaitPublished(batch.copy(number = batch.number - 1))
      dangling.foreach { number =>
        log.info(s"$folder/$number is of a batch that has shown no output; it is removed.")
        below.delete(new Path(folder, number.toString))
      }
      ledger.danglingRemoved(batch)
    }
  }

  /** An entry that is still on its way is waited for. */
  def awaitEntry(path: Path): Unit = if (isEntry(path)) awaitQuiet(rootOf(path.getParent))

  /** A folder is about to be deleted: nothing may be written into it afterwards. */
  def awaitBelow(path: Path): Unit =
    if (numberOf(path).isEmpty) ledger.foreach(_.awaitQuietBelow(path.toString, PatienceMillis))

  private def awaitQuiet(root: String): Unit =
    if (Rule.ReadersWait.isOn) ledger.foreach(_.awaitQuiet(root, PatienceMillis))

  // ---- inside

  private def inQuery(path: Path): Option[(Ledger, RunningQuery, BatchId)] = for {
    ledger <- this.ledger
    number <- numberOf(path)
    root = rootOf(path.getParent)
    query <- RunningQuery.of(root)
  } yield (ledger, query, BatchId(root, query.run, number))

  private def numbers(folder: Path): Seq[Long] =
    try below.list(folder).toSeq.flatMap(status => numberOf(status.getPath)) catch {
      case _: FileNotFoundException => Nil
    }
}

private[spark] object QueryLogs {
  val Offsets = "offsets"
  val Commits = "commits"
  private val log = LoggerFactory.getLogger(classOf[QueryLogs])
  private val PatienceMillis = 10L * 60 * 1000

  private def rootOf(folder: Path): String = folder.getParent.toString

  private def numberOf(path: Path): Option[Long] = path.getName.toLongOption

  private def isEntry(path: Path): Boolean = numberOf(path).nonEmpty &&
    (path.getParent.getName == Offsets || path.getParent.getName == Commits)

  /** Takes a small file from Spark whole, and gives it away when Spark closes it. */
  private final class Buffered(give: Array[Byte] => Unit, bytes: ByteArrayOutputStream)
    extends CancellableFSDataOutputStream(bytes) {
    private var ended = false

    def this(give: Array[Byte] => Unit) = this(give, new ByteArrayOutputStream)

    override def close(): Unit = if (!ended) {
      ended = true
      give(bytes.toByteArray)
    }

    override def cancel(): Unit = ended = true
  }

  /** The same stream, with something to be done once it was closed without an error. */
  private def followed(stream: CancellableFSDataOutputStream)(
      afterwards: => Unit): CancellableFSDataOutputStream =
    new CancellableFSDataOutputStream(stream) {
      override def close(): Unit = {
        stream.close()
        afterwards
      }

      override def cancel(): Unit = stream.cancel()
    }
}
