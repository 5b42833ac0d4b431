package tailrace.store

import tailrace.cold.{ColdLog, ColdSlots, SlotEntries}
import tailrace.io.{IoJob, IoKind, IoScheduler, IoTicket}
import tailrace.layout.SlotVictims

/**
 * Slots of a part of a table on their way to a file (RFC 13): at most one step of a store at a time.
 * No memory of the table is read beside the owner, so nothing has to wait for the step.
 */
private[store] final class SlotStep(
    victims: SlotVictims, log: ColdLog, io: IoScheduler, store: String) {
  private val ticket: IoTicket[SlotStep.Written] =
    io.submit(IoKind.Spill, s"Spilling slots of $store")(run)

  def isDone: Boolean = ticket.isDone

  /** Waits until the file is there; throws the error of the step. */
  def await(): Unit = ticket.await()

  /** Waits until the file is there, and puts it in the place of the slots. */
  def install(): Unit = {
    val found = ticket.await()
    if (!victims.install(found.entries, found.slots) && found.slots != null) found.slots.release()
  }

  /** Waits until nothing is read or written. */
  def cancel(): Unit = {
    ticket.cancel()
    ticket.awaitEnd()
  }

  private def run(job: IoJob): SlotStep.Written = {
    val entries = victims.collect()
    new SlotStep.Written(entries, if (entries.size == 0) null else log.slots.write(entries, job))
  }
}

private object SlotStep {
  final class Written(val entries: SlotEntries, val slots: ColdSlots)
}
