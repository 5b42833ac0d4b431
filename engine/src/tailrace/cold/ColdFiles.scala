package tailrace.cold

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.LongAdder

/**
 * Which threads write and delete files of the log: I/O threads should, tasks should not. Counted by
 * action and the thread's name without its number, so that a test can look.
 */
final class ColdFiles {
  private val counts = new ConcurrentHashMap[String, LongAdder]

  private[cold] def count(what: String): Unit = {
    val thread = Thread.currentThread().getName.takeWhile(each => !each.isDigit)
    counts.computeIfAbsent(s"$what: $thread", _ => new LongAdder).increment()
  }

  /** "write: tailrace-io-" and how often, and so on. */
  def byThread: java.util.Map[String, java.lang.Long] = {
    val found = new java.util.TreeMap[String, java.lang.Long]
    counts.forEach((what, times) => found.put(what, times.sum()))
    found
  }
}
