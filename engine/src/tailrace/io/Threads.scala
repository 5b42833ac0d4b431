package tailrace.io

import java.util.concurrent.{Executor, Executors, ThreadFactory}
import java.util.concurrent.atomic.AtomicInteger

/** Where threads come from. */
trait Threads {
  /** Threads whose names begin so and end in a number. */
  def named(name: String): ThreadFactory

  /** As many as there is work at a time, from such threads. */
  def pool(name: String): Executor = Executors.newCachedThreadPool(named(name))
}

object Threads {
  /** Threads that do not keep the process from ending. */
  val Daemons: Threads = name => {
    val count = new AtomicInteger
    work => {
      val thread = new Thread(work, s"$name-${count.incrementAndGet()}")
      thread.setDaemon(true)
      thread
    }
  }
}
