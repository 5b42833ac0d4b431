package tailrace.bench

import java.io.IOException
import java.util.concurrent.{CompletableFuture, CompletionException, ConcurrentHashMap, Executors}

import org.apache.hadoop.fs.{FileAlreadyExistsException, FileSystem, Path}

/**
 * Writes whole files in the background, for [[BehindFileSystem]].
 *
 * A file whose name ends in `.tmp` waits for its rename and is then written under both names in
 * turn, so that its write below is as atomic as it would have been.
 */
private[bench] final class WriteBehind(below: FileSystem) {
  private val threads = Executors.newFixedThreadPool(4, { (work: Runnable) =>
    val thread = new Thread(work, "write-behind")
    thread.setDaemon(true)
    thread
  })
  private val files = new ConcurrentHashMap[String, Array[Byte]]
  private var lastBatch: CompletableFuture[Void] = CompletableFuture.completedFuture(null)
  private var outstanding: CompletableFuture[Void] = CompletableFuture.completedFuture(null)
  @volatile private var failure: Throwable = _

  def pending(path: String): Option[Array[Byte]] = Option(files.get(path))

  def written(path: String, bytes: Array[Byte]): Unit = {
    files.put(path, bytes)
    if (!path.endsWith(".tmp")) upload(path, path, bytes)
  }

  /** False if the file is not one of ours that wait for their name. */
  def renamed(from: String, to: String, overwrite: Boolean): Boolean = {
    val bytes = files.remove(from)
    if (bytes != null) {
      if (overwrite) files.put(to, bytes)
      else if (files.putIfAbsent(to, bytes) != null) {
        throw new FileAlreadyExistsException(s"$to exists already")
      }
      upload(from, to, bytes)
    }
    bytes != null
  }

  def forget(path: String): Unit = {
    if (path.endsWith(".tmp")) files.remove(path) else drain()
  }

  /** Until everything that was written is below. */
  def drain(): Unit = {
    waitFor(synchronized(outstanding))
    throwFailure()
  }

  def throwFailure(): Unit = if (failure != null) {
    throw new IOException("A write in the background failed", failure)
  }

  private def upload(temporary: String, path: String, bytes: Array[Byte]): Unit = {
    throwFailure()
    if (path.contains("/offsets/")) {
      // At most one batch ahead: the files of the batch before the last must be below by now.
      val before = synchronized { val last = lastBatch; lastBatch = outstanding; last }
      waitFor(before)
      store(temporary, path, bytes)
    } else {
      synchronized {
        val task =
          if (path.contains("/commits/")) {
            outstanding.thenRunAsync(() => store(temporary, path, bytes), threads)
          } else {
            CompletableFuture.runAsync(() => store(temporary, path, bytes), threads)
          }
        outstanding = CompletableFuture.allOf(outstanding, task)
      }
    }
  }

  private def store(temporary: String, path: String, bytes: Array[Byte]): Unit = try {
    val (from, to) = (under(temporary), under(path))
    val stream = below.create(from, true)
    try stream.write(bytes) finally stream.close()
    if (temporary != path && !below.rename(from, to)) {
      throw new IOException(s"$from could not be renamed to $to")
    }
    files.remove(path, bytes)
  } catch {
    case error: Throwable =>
      failure = error
      throw new CompletionException(error)
  }

  private def under(path: String) = new Path(below.getScheme, null, path)

  private def waitFor(work: CompletableFuture[Void]): Unit =
    try work.join() catch { case _: CompletionException => throwFailure() }
}
