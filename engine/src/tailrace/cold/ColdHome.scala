package tailrace.cold

import java.io.{File, RandomAccessFile}
import java.nio.channels.{FileLock, OverlappingFileLockException}
import java.nio.file.{Files, StandardCopyOption}
import java.util.concurrent.ConcurrentHashMap

import scala.util.Using

import org.slf4j.LoggerFactory

/**
 * Problem: a process that is killed leaves its logs of cold state behind, and nobody needs them.
 *
 * Answer: all logs of a process are in one folder, with a file that the process holds a lock on. A
 * process that makes such a folder first deletes those whose lock nobody holds: the system gives
 * locks back when a process ends, however it ends, and knows them from inside any container.
 */
private[cold] object ColdHome {
  private val log = LoggerFactory.getLogger("tailrace.cold.ColdHome")
  private val Prefix = "tailrace-cold-"
  private val LockName = "lock"

  private final case class Home(folder: File, lock: FileLock)
  private val homes = new ConcurrentHashMap[File, Home]

  /** A new, empty folder for one store's log, below `base`. */
  def newFolder(base: File): File = {
    val home = homes.computeIfAbsent(base.getCanonicalFile, open)
    Files.createTempDirectory(home.folder.toPath, "store-").toFile
  }

  private def open(base: File): Home = {
    base.mkdirs()
    Option(base.listFiles()).toSeq.flatten.filter(_.getName.startsWith(Prefix)).foreach(sweep)
    val folder = Files.createTempDirectory(base.toPath, Prefix).toFile
    val file = new File(folder, LockName)
    folder.deleteOnExit() // in the opposite order: first the file, then the folder
    file.deleteOnExit()
    // It has its name only when it is locked: nobody sweeps a folder that is being made.
    val made = new File(folder, LockName + ".new")
    val lock = new RandomAccessFile(made, "rw").getChannel.lock()
    Files.move(made.toPath, file.toPath, StandardCopyOption.ATOMIC_MOVE)
    Home(folder, lock)
  }

  /** Deletes the folder of a process that is gone. */
  private def sweep(folder: File): Unit = {
    val file = new File(folder, LockName)
    // Without its file a folder is being made, or deleted, by somebody else.
    if (file.exists()) {
      try {
        val abandoned = Using.resource(new RandomAccessFile(file, "rw")) { access =>
          access.getChannel.tryLock() != null
        }
        if (abandoned) delete(folder)
      } catch {
        case _: OverlappingFileLockException => // our own
        case error: java.io.IOException => log.warn(s"$folder is left as it is: $error")
      }
    }
  }

  private def delete(file: File): Unit = {
    Option(file.listFiles()).toSeq.flatten.foreach(delete)
    Files.deleteIfExists(file.toPath)
  }
}
