package tailrace.spark

import java.io.{ByteArrayOutputStream, FileNotFoundException}

import scala.io.Source

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path, PathFilter}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.tailrace.RunningQuery
import org.slf4j.LoggerFactory

import tailrace.errors.FolderInTheWay
import tailrace.faults.Rule
import tailrace.ledger.{Ledger, StartCheck}
import tailrace.ledger.Messages.BatchId

/**
 * Spark's two logs of a query under the commit protocol (docs/rfcs/0004):
 *  - `commits/N` is taken from Spark at once and becomes visible when batch N is durable.
 *  - `offsets/N` is taken at once, too, prepared while the batch runs, and becomes visible when
 *    batch N-1 is published. For a source that forgets, Spark waits for that: it commits the batch
 *    to the source right after.
 *  - Code that reads either log first waits for pending batches.
 *  - A query that starts is refused where the logs do not fit the state (see [[StartCheck]]).
 *
 * Where no store of the query is asynchronous, both logs are written as Spark writes them.
 */
private[spark] final class QueryLogs(below: CheckpointFileManager, conf: Configuration) {
  import QueryLogs._

  /** The one of the session in which the query was started, also when that has ended. */
  private val runtime = EngineRuntime.current
  private val sessionLedger: Option[Ledger] = runtime.services.ledger
  private def failpoints = runtime.failpoints

  // ---- writing

  def writeCommit(path: Path, overwrite: Boolean): CancellableFSDataOutputStream =
    inQuery(path) match {
      case Some((ledger, query, batch)) if isRegistered(ledger, query, batch) =>
        new Buffered(bytes => {
          ledger.takeCommit(batch, new HeldLogFile(below, path, bytes))
          if (query.runsOnce) ledger.awaitPublished(batch)
        })
      case Some((ledger, _, batch)) =>
        ledger.awaitPublished(batch.before)
        ledger.tidyBefore(batch)
        written(path, overwrite, "commit.prepare", "publish")(ledger.committedDirectly(batch))
      case None => below.createAtomic(path, overwrite)
    }

  /**
   * Whether stores of the batch were committed through the ledger. A batch that runs again after a
   * crash may find that its sink has it already: Spark's file sink then runs nothing at all, and the
   * state, which in Spark is always written before the sink, has to be made here. Synchronous
   * commits do not go through the ledger: there the first batch of a run is made again if the
   * checkpoint has packs, because a crash of an asynchronous run may have lost its state.
   */
  private def isRegistered(ledger: Ledger, query: RunningQuery, batch: BatchId): Boolean = {
    def maybeLost: Boolean = isAsynchronous ||
      (ledger.isFirstOfRun(batch) && packsOf(batch.root).versions.nonEmpty)
    if (!ledger.isRegistered(batch) && query.keepsStateIn(classOf[TailraceStateStoreProvider]) &&
        maybeLost) {
      log.info(s"The sink has batch ${batch.number} already; it runs again for its state.")
      query.runForState()
    }
    ledger.isRegistered(batch)
  }

  private def isAsynchronous: Boolean =
    conf.get(StoreOptions.Prefix + "commit", "async") == "async"

  def writeOffsets(path: Path, overwrite: Boolean): CancellableFSDataOutputStream =
    inQuery(path) match {
      case Some((ledger, query, batch)) =>
        ledger.verify(batch.root, batch.run)
        val asynchronous = ledger.isAsynchronous(batch.root, batch.run)
        val forgets = query.hasSourceThatForgets && runtime.rules.isOn(Rule.SourcesForgetLate)
        if (!asynchronous || forgets) ledger.awaitPublished(batch.before)
        if (asynchronous) {
          new Buffered(bytes => ledger.takeOffsets(batch, new HeldLogFile(below, path, bytes)))
        } else {
          written(path, overwrite, "offset.prepare", "offset")(())
        }
      case None => below.createAtomic(path, overwrite)
    }

  /** The entry as Spark writes it, with the failpoints that an entry of ours passes. */
  private def written(path: Path, overwrite: Boolean, prepare: String, publish: String)(
      afterwards: => Unit): CancellableFSDataOutputStream = {
    failpoints.pass(s"$prepare.before")
    val stream = below.createAtomic(path, overwrite)
    new CancellableFSDataOutputStream(stream) {
      override def close(): Unit = {
        failpoints.pass(s"$prepare.after")
        failpoints.pass(s"$publish.before")
        stream.close()
        failpoints.pass(s"$publish.after")
        afterwards
      }

      override def cancel(): Unit = stream.cancel()
    }
  }

  // ---- reading

  def listCommits(path: Path, filter: PathFilter): Array[FileStatus] = {
    awaitQuiet(rootOf(path))
    below.list(path, filter)
  }

  /** With its first listing a query begins its run: this is where it can be refused. */
  def listOffsets(path: Path, filter: PathFilter): Array[FileStatus] = {
    val root = rootOf(path)
    awaitQuiet(root)
    val found = below.list(path, filter)
    RunningQuery.of(root).filter(begins(root, _)).foreach { query =>
      val offsets = numbersIn(found.toSeq)
      val commits = numbers(new Path(path.getParent, Commits))
      if (query.hasWholeLogs) {
        StartCheck.verify(root, offsets, commits, new StateFiles(below, root).newest,
          namesState(path.getParent, commits))
      }
      sessionLedger.foreach(
        _.beginRun(root, query.run, StartCheck.nextBatch(offsets, commits), packsOf(root)))
      lastRun = query.run
    }
    found
  }

  /** Without the plugin there is no ledger; this object then lives as long as the query's log. */
  private def begins(root: String, query: RunningQuery): Boolean =
    sessionLedger.fold(lastRun != query.run)(!_.knows(root, query.run))

  private var lastRun = ""

  /** As the newest entry of `commits` has it; if there is none, as the session's settings say. */
  private def namesState(checkpoint: Path, commits: Seq[Long]): Boolean = commits.maxOption match {
    case Some(newest) =>
      val stream = below.open(new Path(checkpoint, s"$Commits/$newest"))
      try Source.fromInputStream(stream, "UTF-8").mkString.contains("\"stateUniqueIds\"")
      finally stream.close()
    case None => conf.getInt(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key, 1) >= 2
  }

  /** Spark asks whether an entry exists before it writes it; on a remote system that costs a trip. */
  def knownToBeNew(path: Path): Boolean = isEntry(path) && inQuery(path).exists {
    case (ledger, _, batch) => ledger.isNew(batch)
  }

  /** An entry that is still on its way is waited for. */
  def awaitEntry(path: Path): Unit = if (isEntry(path)) awaitQuiet(rootOf(path.getParent))

  /** A folder is about to be deleted: nothing may be written into it afterwards. */
  def awaitBelow(path: Path): Unit =
    if (numberOf(path).isEmpty) {
      sessionLedger.foreach(_.awaitQuietBelow(CheckpointName.of(path, conf), PatienceMillis))
    }

  private def awaitQuiet(root: String): Unit =
    if (runtime.rules.isOn(Rule.ReadersWait)) {
      sessionLedger.foreach(_.awaitQuiet(root, PatienceMillis))
    }

  // ---- inside

  private def inQuery(path: Path): Option[(Ledger, RunningQuery, BatchId)] = for {
    ledger <- sessionLedger
    number <- numberOf(path)
    root = rootOf(path.getParent)
    query <- RunningQuery.of(root)
  } yield (ledger, query, BatchId(root, query.run, number))

  private def packsOf(root: String): CheckpointPacks.DriverFiles =
    CheckpointPacks.filesOf(root, conf)

  private def rootOf(folder: Path): String = CheckpointName.of(folder.getParent, conf)

  private def numbers(folder: Path): Seq[Long] =
    try numbersIn(below.list(folder).toSeq) catch {
      case _: FileNotFoundException => Nil
    }

  /** A folder with an entry's name would be taken for a batch. */
  private def numbersIn(listed: Seq[FileStatus]): Seq[Long] = {
    val entries = listed.filter(status => numberOf(status.getPath).nonEmpty)
    entries.find(_.isDirectory).foreach { status =>
      throw new FolderInTheWay(status.getPath.toString)
    }
    entries.flatMap(status => numberOf(status.getPath))
  }
}

private[spark] object QueryLogs {
  val Offsets = "offsets"
  val Commits = "commits"
  private val log = LoggerFactory.getLogger(classOf[QueryLogs])
  private val PatienceMillis = 10L * 60 * 1000

  private def numberOf(path: Path): Option[Long] = path.getName.toLongOption

  private def isEntry(path: Path): Boolean = numberOf(path).nonEmpty &&
    (path.getParent.getName == Offsets || path.getParent.getName == Commits)

  /** Takes a small file from Spark whole, and passes it on when Spark closes it. */
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
}
