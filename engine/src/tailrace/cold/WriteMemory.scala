package tailrace.cold

/**
 * Problem: files of a remote tier are in memory while they are written. A store may write to many at
 * a time, one for each window, and a process has many stores.
 *
 * Answer: one limit for all of them. Beyond it, a file that has more than an equal part of the limit
 * is finished when it is written to next; beyond twice the limit, any file that has grown at all is.
 *
 * Invariant: beyond twice the limit no file grows that has grown before.
 *
 * @param limit of all these files, in bytes
 */
private[cold] final class WriteMemory(limit: () => Long) {
  private var files = 0
  private var bytes = 0L

  def opened(): Array[Byte] = synchronized {
    files += 1
    bytes += WriteMemory.FirstSize
    new Array[Byte](WriteMemory.FirstSize)
  }

  def grew(more: Int): Unit = synchronized(bytes += more)

  def closed(size: Int): Unit = synchronized {
    files -= 1
    bytes -= size
  }

  def isTooLarge(size: Int): Boolean = synchronized {
    val most = limit()
    bytes > most && size > most / math.max(1, files) || bytes > 2 * most && size > WriteMemory.FirstSize
  }

  def used: Long = synchronized(bytes)
}

private[cold] object WriteMemory {
  /** Of each file, before it grows. */
  val FirstSize: Int = 16 << 10
}
