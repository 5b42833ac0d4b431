package tailrace.cold

import java.io.{File, IOException}
import java.nio.channels.{FileChannel, FileLock, OverlappingFileLockException}
import java.nio.file.Path
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.slf4j.LoggerFactory

import tailrace.errors.UnusableLocalFolder
import tailrace.files.{LocalRoot, PrivateFolder}

/**
 * Problem: a process that is killed leaves its logs of cold state behind; no other process needs
 * them.
 *
 * Answer: all logs of a process are in one folder, with a file that the process holds a lock on. A
 * process that makes such a folder first deletes those whose lock is free: the system gives
 * locks back when a process ends, however it ends, and knows them from inside any container.
 *
 * Invariant: only folders of this user's alone are swept ([[PrivateFolder]]), and in them only
 * files with the names that are given here. Anything else is left as it is, and the folder with it.
 */
final class ColdFolders {
  import ColdFolders._

  private val homes = new ConcurrentHashMap[Path, Home]

  /** Which threads write and delete the files. */
  val fileCounts: ColdFiles = new ColdFiles

  /** A new, empty folder for one store's log, below `root`. */
  def newFolder(root: LocalRoot): File = {
    val home = homes.compute(root.path, (base, known) =>
      // It may have been deleted by a program that tidies temporary folders up.
      if (known != null && known.folder.exists) known else open(base))
    home.folder.newFolder(StorePrefix).path.toFile
  }

  private def open(base: Path): Home = {
    sweepAll(base)
    val folder = PrivateFolder.makeNew(base, Prefix)
    folder.path.toFile.deleteOnExit() // in the opposite order: first the file, then the folder
    folder.path.resolve(LockName).toFile.deleteOnExit()
    // It has its name only when it is locked: a folder that is being made is not swept.
    val lock = folder.createChannel(LockName + ".new").lock()
    folder.rename(LockName + ".new", LockName)
    Home(folder, lock)
  }

  private def sweepAll(base: Path): Unit = try {
    // Not our own: to close a file again would give its lock back.
    val own = homes.values.asScala.map(_.folder.path).toSet
    PrivateFolder.list(base).filter(name => HomeName.matches(name) && !own(base.resolve(name)))
      .foreach(sweep(base, _))
  } catch {
    case error: IOException =>
      log.warn(s"$base is not searched for what ended processes left behind.", error)
  }

  /** Deletes the folder of a process that is gone. */
  private def sweep(base: Path, name: String): Unit = try {
    // Without its file a folder is being made, or deleted, by another process.
    for (folder <- PrivateFolder.find(base, name); channel <- folder.openForLock(LockName)) {
      Using.resource(channel)(lock => if (isFree(lock)) delete(folder))
    }
  } catch {
    case error: IOException => log.info(s"${base.resolve(name)} is left as it is: $error")
  }

  private def isFree(channel: FileChannel): Boolean = try channel.tryLock() != null catch {
    case _: OverlappingFileLockException => false // of another loader of this process
  }

  private def delete(folder: PrivateFolder): Unit = {
    folder.names.filter(StoreName.matches).foreach(deleteStore(folder, _))
    val left = folder.names.filter(_ != LockName)
    if (left.isEmpty) {
      folder.delete(LockName)
      folder.deleteIfEmpty()
    } else {
      log.warn(s"$folder is of a process that has ended, and is left because it has content that " +
        s"is not known: ${left.take(5).mkString(", ")}.")
    }
  }
  private def deleteStore(home: PrivateFolder, name: String): Unit = try {
    home.find(name).foreach { store =>
      store.names.filter(SegmentName.matches).foreach(store.delete)
      store.deleteIfEmpty()
    }
  } catch {
    case error: UnusableLocalFolder => log.warn(s"$home/$name is left as it is: ${error.because}")
  }
}

object ColdFolders {
  private val log = LoggerFactory.getLogger(classOf[ColdFolders])
  private val Prefix = "tailrace-cold-"
  private[cold] val StorePrefix = "store-"
  private val LockName = "lock"
  private val HomeName = s"$Prefix\\d+".r
  private[cold] val StoreName = s"$StorePrefix\\d+".r
  /** Segments, and files of slots. */
  private[cold] val SegmentName = "[0-9a-z-]+\\.(cold|slots)".r

  private final case class Home(folder: PrivateFolder, lock: FileLock)
}
