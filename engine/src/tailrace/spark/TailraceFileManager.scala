package tailrace.spark

import java.io.{FileNotFoundException, IOException, OutputStream}
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, FileContextBasedCheckpointFileManager, FileSystemBasedCheckpointFileManager}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.{CancellableFSDataOutputStream, RenameHelperMethods}
import org.slf4j.LoggerFactory

import tailrace.errors.FolderInTheWay
import tailrace.files.DiskErrors

/**
 * The class for `spark.sql.streaming.checkpointFileManagerClass`: every file of a checkpoint, Spark's
 * `offsets/` and `commits/` as well as ours, goes through it. On a local disk the work is done by
 * [[LocalFileManager]]; elsewhere by the manager that Spark would have chosen. The entries of
 * Spark's two logs go to [[QueryLogs]], which decides when they become visible.
 */
final class TailraceFileManager(path: Path, conf: Configuration) extends CheckpointFileManager {
  private val below = TailraceFileManager.below(path, conf)
  private val logs = new QueryLogs(below, conf)

  override def createAtomic(path: Path, overwrite: Boolean): CancellableFSDataOutputStream =
    path.getParent.getName match {
      case QueryLogs.Offsets => logs.writeOffsets(path, overwrite)
      case QueryLogs.Commits => logs.writeCommit(path, overwrite)
      case TailraceFileManager.SinkLog =>
        TailraceFileManager.passing("sink")(below.createAtomic(path, overwrite))
      case _ if TailraceFileManager.isSourceLog(path) =>
        TailraceFileManager.passing("source")(below.createAtomic(path, overwrite))
      case _ => below.createAtomic(path, overwrite)
    }

  override def open(path: Path): FSDataInputStream = {
    logs.awaitEntry(path)
    below.open(path)
  }

  /**
   * Without temporary files: they remain after a process was killed, and Spark starts no query on a
   * checkpoint without offsets whose folders are not empty.
   */
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    val found = path.getName match {
      case QueryLogs.Offsets => logs.listOffsets(path, filter)
      case QueryLogs.Commits => logs.listCommits(path, filter)
      case _ => below.list(path, filter)
    }
    found.filterNot(status => TailraceFileManager.isTemporary(status.getPath.getName))
  }

  override def mkdirs(path: Path): Unit = below.mkdirs(path)

  override def exists(path: Path): Boolean = logs.knownToBeNew(path) match {
    case true => false
    case false =>
      logs.awaitEntry(path)
      below.exists(path)
  }

  override def delete(path: Path): Unit = {
    logs.awaitBelow(path)
    // Spark deletes entries of its logs, and a temporary checkpoint with all that is in it.
    if (TailraceFileManager.isLogEntry(path)) {
      TailraceFileManager.deleteUnlessFolder(below, path, conf)
    }
    else below.delete(path)
  }

  override def isLocal: Boolean = below.isLocal

  override def createCheckpointDirectory(): Path = below.createCheckpointDirectory()

  override def close(): Unit = below.close()
}

object TailraceFileManager {
  private val log = LoggerFactory.getLogger(classOf[TailraceFileManager])
  private val ClassKey = "spark.sql.streaming.checkpointFileManagerClass"
  private val SinkLog = "_spark_metadata"

  /** The manager for a store's folder. A manager of the user's own choice stays in place. */
  def forState(path: Path, conf: Configuration): CheckpointFileManager = {
    val chosen = conf.get(ClassKey)
    if (chosen == null || chosen == classOf[TailraceFileManager].getName) below(path, conf)
    else CheckpointFileManager.create(path, conf)
  }

  private def below(path: Path, conf: Configuration): CheckpointFileManager =
    LocalFileManager.rawBelow(path, conf) match {
      case Some(raw) => new LocalFileManager(raw, path)
      case None =>
        val sparksOwn = new Configuration(conf)
        sparksOwn.unset(ClassKey)
        CheckpointFileManager.create(path, sparksOwn)
    }

  /** A file under its final name from the first byte on, replacing one that is there. */
  private[spark] def createDirectly(manager: CheckpointFileManager, path: Path): OutputStream =
    manager match {
      case local: LocalFileManager => local.createDirectly(path)
      case renaming: RenameHelperMethods =>
        DiskErrors.writing(renaming.createTempFile(path), path.toString)
      case other => other.createAtomic(path, overwriteIfPossible = true)
    }

  /** A file that appears as a whole under its name, replacing one that is there. */
  private[spark] def createAtomic(
      manager: CheckpointFileManager, path: Path,
      conf: Configuration): CancellableFSDataOutputStream = {
    manager match {
      // Its rename puts a file into a folder of that name, and calls that a success.
      case _: FileSystemBasedCheckpointFileManager => refuseFolder(manager, path, conf)
      case _ =>
    }
    manager.createAtomic(path, overwriteIfPossible = true)
  }

  private[spark] def refuseFolder(
      manager: CheckpointFileManager, path: Path, conf: Configuration): Unit =
    if (isFolder(manager, path, conf)) throw new FolderInTheWay(path.toString)

  private[spark] def isFolder(
      manager: CheckpointFileManager, path: Path, conf: Configuration): Boolean = manager match {
    case local: LocalFileManager => local.isFolder(path)
    case _ =>
      try path.getFileSystem(conf).getFileStatus(path).isDirectory catch {
        case _: FileNotFoundException => false
      }
  }

  /** Deletes a file of a checkpoint, never a folder with its content: that is an error. */
  private[tailrace] def deleteFile(
      manager: CheckpointFileManager, path: Path, conf: Configuration): Unit = manager match {
    case local: LocalFileManager => local.deleteFile(path)
    case _ =>
      refuseFolder(manager, path, conf)
      deleteListed(manager, path, conf)
  }

  /**
   * The same for a path that was listed as a file a moment ago. The managers of Spark's own delete
   * folders with all that is in them; the file systems below do not.
   */
  private[spark] def deleteListed(
      manager: CheckpointFileManager, path: Path, conf: Configuration): Unit = manager match {
    case local: LocalFileManager => local.deleteFile(path)
    case sparks if sparks.getClass == classOf[FileSystemBasedCheckpointFileManager] ||
        sparks.getClass == classOf[FileContextBasedCheckpointFileManager] =>
      try path.getFileSystem(conf).delete(path, false) catch { case _: FileNotFoundException => }
    case chosen => chosen.delete(path)
  }

  private def deleteUnlessFolder(
      manager: CheckpointFileManager, path: Path, conf: Configuration): Unit =
    try deleteListed(manager, path, conf) catch {
      case error: IOException =>
        if (!isFolder(manager, path, conf)) throw error
        log.warn(s"$path is a folder, where a file belongs. It is left as it is.")
    }

  private val TemporaryName = """\..+\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp""".r

  /** Whether a file has the name of one that is being written, by us or by Spark. */
  private def isTemporary(name: String): Boolean = TemporaryName.matches(name)

  private val LogEntry = """\d+(?:\.compact)?""".r

  /** An entry of any log of Spark's: of a query, a source, a file sink or an operator's schemas. */
  private def isLogEntry(path: Path): Boolean = LogEntry.matches(path.getName)

  /** `sources/<number>/<batch>`: the log entry of a source of Spark's for a batch. */
  private def isSourceLog(path: Path): Boolean =
    Option(path.getParent.getParent).exists(_.getName == "sources")

  /** A complete file that is not visible yet. */
  private[spark] trait Temporary {
    /** Throws a FileAlreadyExistsException if another file has the name. */
    def becomeVisible(): Unit

    /** It will not become visible. */
    def discard(): Unit
  }

  private[spark] def writeTemporary(
      manager: CheckpointFileManager, path: Path, bytes: Array[Byte]): Temporary = {
    val hidden = new Path(path.getParent, s".${path.getName}.${UUID.randomUUID}.tmp")
    def temporary(publish: => Unit): Temporary = new Temporary {
      override def becomeVisible(): Unit = publish
      override def discard(): Unit = manager.delete(hidden)
    }
    manager match {
      case local: LocalFileManager =>
        write(hidden, bytes)(local.createDirectly(hidden))(local.deleteFile(hidden))
        temporary(local.publish(hidden, path, overwrite = false))
      case renaming: RenameHelperMethods =>
        write(hidden, bytes)(renaming.createTempFile(hidden))(manager.delete(hidden))
        temporary(renaming.renameTempFile(hidden, path, overwriteIfPossible = false))
      case other => new Temporary {
        override def becomeVisible(): Unit =
          writeAtOnce(other.createAtomic(path, overwriteIfPossible = false), bytes)
        override def discard(): Unit = {}
      }
    }
  }

  /** A file that is written by half is removed: the next attempt has a name of its own. */
  private def write(hidden: Path, bytes: Array[Byte])(create: => OutputStream)(
      remove: => Unit): Unit =
    try DiskErrors.asIOException {
      val stream = create
      try stream.write(bytes) finally stream.close()
    } catch {
      case error: IOException =>
        try remove catch { case left: IOException => error.addSuppressed(left) }
        throw new IOException(s"$hidden could not be written: ${error.getMessage}", error)
    }

  private def writeAtOnce(stream: CancellableFSDataOutputStream, bytes: Array[Byte]): Unit = {
    try DiskErrors.asIOException(stream.write(bytes)) catch {
      case error: IOException =>
        stream.cancel() // to close it would show a half of the file
        throw error
    }
    DiskErrors.asIOException(stream.close())
  }

  /** The same stream, with a failpoint before and after the step that makes the file visible. */
  private def passing(point: String)(
      stream: CancellableFSDataOutputStream): CancellableFSDataOutputStream =
    new CancellableFSDataOutputStream(stream) {
      override def close(): Unit = {
        EngineRuntime.current.failpoints.pass(s"$point.before")
        stream.close()
        EngineRuntime.current.failpoints.pass(s"$point.after")
      }

      override def cancel(): Unit = stream.cancel()
    }
}
