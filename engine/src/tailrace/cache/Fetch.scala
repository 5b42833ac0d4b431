package tailrace.cache

import tailrace.cold.{ColdEntry, ColdRefs, ColdSlots}
import tailrace.io.IoTicket

/** In flight or arrived. */
private[cache] sealed trait ReadFor {
  def origin: Origin
}

/** What one job reads ahead; a reference or a hash that was asked of it is in flight. */
private[cache] sealed abstract class Asked extends ReadFor {
  @volatile var ticket: IoTicket[Unit] = _
  @volatile var asked = 0L // by System.nanoTime

  def isOver: Boolean = ticket != null && ticket.isDone

  def cancel(): Unit = if (ticket != null) ticket.cancel()
}

/** Some entries. */
private[cache] final class Fetch(val refs: ColdRefs, override val origin: Origin) extends Asked

/** Pages with the references of some hashes, and then the entries. @param hashes in their order */
private[cache] final class SlotFetch(
    val slots: ColdSlots, val hashes: Array[Int], override val origin: Origin) extends Asked {
  var pending = 0L
}

/** An entry that waits for its look-up. */
private[cache] final class Arrived(val entry: ColdEntry, override val origin: Origin)
  extends ReadFor {
  /** It was read for an earlier batch. */
  var isKept = false
}
