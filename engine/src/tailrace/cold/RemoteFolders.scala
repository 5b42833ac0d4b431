package tailrace.cold

import java.io.IOException
import java.util.concurrent.{Executors, ScheduledExecutorService, TimeUnit}

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.hadoop.security.AccessControlException
import org.apache.hadoop.util.ShutdownHookManager

import tailrace.errors.UnusableColdDir
import tailrace.files.Retries
import tailrace.io.Threads

/**
 * The parts that the stores of a process share on remote file systems: one folder below each
 * `cold_dir`, the memory of files that are being written, and the streams that are kept open.
 * [[ColdFolders]] is the same for this machine.
 *
 * A thread renews the time in each folder every hour, and looks for folders of processes that are
 * gone when a folder is made and once a day. A process that ends deletes its folders.
 *
 * @param memoryLimit of all stores of the process, in bytes
 */
final class RemoteFolders(threads: Threads, memoryLimit: () => Long) {
  import RemoteFolders._

  /** Which threads write and delete the files. */
  val fileCounts: ColdFiles = new ColdFiles

  private val memory = new WriteMemory(() =>
    math.max(LeastMemory, math.min(MostMemory, memoryLimit() / 16)))
  private val streams = new OpenStreams(MostStreams)
  private val homes = mutable.Map.empty[Path, RemoteHome] // guarded by this
  private var renewals = 0L // of the thread that renews

  private lazy val background: ScheduledExecutorService = {
    val made = Executors.newSingleThreadScheduledExecutor(threads.named("tailrace-cold-alive"))
    made.scheduleWithFixedDelay(() => renew(), 1, 1, TimeUnit.HOURS)
    // Before the file systems are closed, after Spark has stopped.
    ShutdownHookManager.get().addShutdownHook(
      () => all.foreach(_.close()), FileSystem.SHUTDOWN_HOOK_PRIORITY + 1, EndSeconds,
      TimeUnit.SECONDS)
    made
  }

  /**
   * For a store whose state is spilled to `uri`. An error, if that cannot be used: a query should not
   * learn it when its memory is short, hours later. For I/O threads.
   */
  def tier(uri: String, conf: Configuration, retries: Retries): ColdTier =
    try new RemoteTier(homeIn(uri, conf, retries), memory, streams, fileCounts, retries) catch {
      case error: IOException => throw new UnusableColdDir(uri, error)
    }

  /** Bytes of files that are being written. */
  def heldBytes: Long = memory.used

  private def homeIn(uri: String, conf: Configuration, retries: Retries): RemoteHome = synchronized {
    val base = new Path(uri)
    FileSystem.getFileSystemClass(base.toUri.getScheme, conf) // asks no machine; not tried again
    homes.getOrElseUpdate(base, {
      var home: RemoteHome = null
      var refused: IOException = null
      retries(s"Making a folder in $uri") {
        if (home == null) home = new RemoteHome(base, base.getFileSystem(conf))
        try home.make() catch { case error: AccessControlException => refused = error }
      }
      if (refused != null) throw refused
      val made = home
      background.execute(() => made.sweep())
      made
    })
  }

  private def all: Seq[RemoteHome] = synchronized(homes.values.toSeq)

  /** Every hour. */
  def renew(): Unit = {
    renewals += 1
    all.foreach(_.renew())
    if (renewals % 24 == 0) all.foreach(_.sweep())
  }
}

object RemoteFolders {
  /** A sixteenth of the memory limit, within these. */
  private val LeastMemory = 1L << 20
  private val MostMemory = 64L << 20
  private val MostStreams = 64
  private val EndSeconds = 30L
}
