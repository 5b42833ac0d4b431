package tailrace.cold

import java.io.IOException

import org.apache.hadoop.fs.FSDataInputStream

/**
 * Problem: to open a file is a round trip of its own, in front of that of the read. A stream for each
 * of thousands of files would hold as many connections, buffers or leases.
 *
 * Answer: the streams that were used last are kept open, at most one for a file.
 *
 * Invariant: a stream is used by one thread at a time, and none is closed while it is used: a thread
 * takes it, reads, and gives it back.
 */
private[cold] final class OpenStreams(most: Int) {
  private val kept = new java.util.LinkedHashMap[RemoteFile, FSDataInputStream] // oldest first

  /** Null: none is kept. */
  def take(file: RemoteFile): FSDataInputStream = synchronized(kept.remove(file))

  def keep(file: RemoteFile, stream: FSDataInputStream): Unit = OpenStreams.close(synchronized {
    if (kept.putIfAbsent(file, stream) != null) stream
    else if (kept.size > most) oldest()
    else null
  })

  def forget(file: RemoteFile): Unit = OpenStreams.close(take(file))

  private def oldest(): FSDataInputStream = {
    val each = kept.values.iterator
    val found = each.next()
    each.remove()
    found
  }
}

private[cold] object OpenStreams {
  /** A stream that cannot be closed is no trouble: its bytes have been read. */
  def close(stream: FSDataInputStream): Unit = if (stream != null) {
    try stream.close() catch { case _: IOException => }
  }
}
