package tailrace.cold

import java.io.{FileNotFoundException, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicLong

import scala.util.Using

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.apache.hadoop.fs.permission.FsPermission
import org.slf4j.LoggerFactory

import tailrace.files.DiskErrors

/**
 * Problem: a process that is killed leaves its spilled state behind, on a file system that has no
 * locks to tell that the process is gone.
 *
 * Answer: the folder of a process has a file that the process writes anew every hour. A process
 * that makes such a folder deletes those whose file is older than a day. Both times are the file
 * system's own: that of the other's file, and that of the own file, written just before. No clock of
 * an executor's machine has a say.
 *
 * Invariants: only folders with the names that are given here are looked at, and in them only files
 * with our names are deleted. A folder that has anything else in it stays. The file with the time is
 * made first and deleted last: a folder without one is being made or deleted, and is left alone.
 * A process whose folder was deleted by mistake loses time: it loads its state again.
 */
private[cold] final class RemoteHome(val base: Path, val system: FileSystem) {
  import RemoteHome._

  private val path = new Path(base, Prefix + UUID.randomUUID())
  private val stores = new AtomicLong
  private val left = new ConcurrentLinkedQueue[Path] // could not be deleted yet
  private var isOver = false // guarded by this

  def make(): Unit = DiskErrors.asIOException {
    // On a file system with permissions no other user can read it.
    if (!system.mkdirs(path, OnlyOwner)) throw new IOException(s"$path could not be made")
    sayAlive()
  }

  /** The name of a new store's folder. */
  def newStore(): Path = new Path(path, s"${ColdFolders.StorePrefix}${stores.incrementAndGet()}")

  private def sayAlive(): Unit = synchronized {
    if (!isOver) Using.resource(system.create(new Path(path, AliveName), true))(_.write(AliveText))
  }

  /** Every hour: the process is alive. Deletions that failed are tried again. */
  def renew(): Unit = leftAlone(s"The time in $path could not be renewed") {
    sayAlive()
    (0 until left.size).foreach { _ =>
      val next = left.poll()
      if (ColdFolders.StoreName.matches(next.getName)) deleteStore(next) else deleteFile(next)
    }
  }

  // ---- deleting

  /** A file of a store; if it cannot be deleted now, it is later. */
  def deleteFile(file: Path): Unit = orLater(file)(system.delete(file, false))

  /** The folder of a store that is closed. */
  def deleteStore(store: Path): Unit = orLater(store)(deleteKnown(store))

  private def orLater(path: Path)(delete: => Boolean): Unit =
    try DiskErrors.asIOException(delete) catch {
      case error: IOException =>
        log.warn(s"$path is not needed any more; it could not be deleted, and that is tried again " +
          s"later: $error")
        left.add(path)
    }

  /** The process ends. */
  def close(): Unit = leftAlone(s"$path could not be deleted; a later process will") {
    synchronized { isOver = true }
    deleteHome(path)
  }

  /** Deletes the folders of processes that are gone. */
  def sweep(): Unit = leftAlone(s"$base is not searched for folders of ended processes") {
    sayAlive()
    val now = system.getFileStatus(new Path(path, AliveName)).getModificationTime
    listed(base).filter(each => each.isDirectory && HomeName.matches(each.getPath.getName))
      .map(_.getPath).filter(_.getName != path.getName).sortBy(_.getName)
      .foreach(sweep(_, now))
  }

  private def sweep(other: Path, now: Long): Unit = try {
    aliveAt(other).filter(now - _ > LongestSilence).foreach(_ => deleteHome(other))
  } catch {
    case error: IOException => log.info(s"$other is left as it is: $error") // another user's, say
  }

  /** None: the folder is being made, or deleted, by another process. */
  private def aliveAt(home: Path): Option[Long] =
    try Some(system.getFileStatus(new Path(home, AliveName)).getModificationTime) catch {
      case _: FileNotFoundException => None
    }

  private def deleteHome(home: Path): Unit = {
    val (stores, others) = listed(home).partition(each =>
      each.isDirectory && ColdFolders.StoreName.matches(each.getPath.getName))
    val kept = stores.map(_.getPath).filterNot(deleteKnown) ++
      others.map(_.getPath).filter(_.getName != AliveName)
    if (kept.isEmpty) {
      system.delete(new Path(home, AliveName), false)
      system.delete(home, false)
    } else {
      log.warn(s"$home is of a process that has ended, and is left because it has content that is " +
        s"not known: ${kept.take(5).mkString(", ")}.")
    }
  }

  /** Deletes a store's folder, with one request if all its files are ours. False: it is left. */
  private def deleteKnown(store: Path): Boolean = {
    val (known, unknown) = listed(store).partition(each =>
      each.isFile && ColdFolders.SegmentName.matches(each.getPath.getName))
    if (unknown.isEmpty) {
      system.delete(store, true)
    } else {
      known.foreach(each => system.delete(each.getPath, false))
      log.warn(s"$store is left because it has content that is not known: " +
        s"${unknown.take(5).map(_.getPath.getName).mkString(", ")}.")
    }
    unknown.isEmpty
  }

  private def listed(folder: Path): Seq[FileStatus] = try system.listStatus(folder).toSeq catch {
    case _: FileNotFoundException => Nil
  }

  /** Tidying up fails no query. */
  private def leftAlone(problem: String)(body: => Unit): Unit =
    try DiskErrors.asIOException(body) catch {
      case error: IOException => log.warn(s"$problem: $error")
    }
}

private[cold] object RemoteHome {
  private val log = LoggerFactory.getLogger(classOf[RemoteHome])
  private val Prefix = "tailrace-cold-"
  private val HomeName = s"$Prefix[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}".r
  private val AliveName = "alive"
  private val AliveText = ("This folder belongs to a process that runs. It writes this file anew " +
    "every hour; a day after it has ended another process may delete the folder.\n").getBytes(UTF_8)
  private val OnlyOwner = new FsPermission("700")
  private val LongestSilence = 24L * 60 * 60 * 1000
}
