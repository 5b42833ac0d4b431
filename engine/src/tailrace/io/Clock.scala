package tailrace.io

/** The time that a scheduler goes by. Tests pass one that stands still until they move it. */
trait Clock {
  def nanos: Long

  /** Waits on a monitor that the caller holds, for this long or until it is notified. */
  def waitOn(monitor: AnyRef, nanos: Long): Unit
}

object Clock {
  val system: Clock = new Clock {
    override def nanos: Long = System.nanoTime()

    override def waitOn(monitor: AnyRef, nanos: Long): Unit =
      monitor.wait(nanos / 1000000L, (nanos % 1000000L).toInt)
  }
}
