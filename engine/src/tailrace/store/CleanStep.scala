package tailrace.store

import scala.collection.mutable

import tailrace.cold.{ColdEntry, ColdLog, ColdRef}
import tailrace.io.{IoJob, IoKind, IoPieces, IoScheduler, IoTicket}

/**
 * A segment of the log that is being cleaned, or files that are being deleted: at most one step of a
 * store at a time, so that no file is deleted while it is read for cleaning.
 *
 *  1. An I/O thread deletes files that are not needed any more, and copies the living entries of the
 *     segment to another one.
 *  2. The owner puts the new references in the place of the old ones (`install`).
 *  3. The segment, which has no living entry now, is deleted by the next step.
 */
private[store] final class CleanStep(
    segment: Option[Int], log: ColdLog, io: IoScheduler, store: String) {
  import CleanStep._

  private val moves = mutable.ArrayBuffer.empty[Move]
  private val ticket: IoTicket[Unit] =
    io.submit(IoKind.Clean, s"Cleaning the files of spilled state of $store")(run)

  def isDone: Boolean = ticket.isDone

  def await(): Unit = ticket.await()

  def cancel(): Unit = {
    ticket.cancel()
    ticket.awaitEnd()
  }

  /** After `await`. */
  def install(familyOf: Int => Family): Unit = {
    moves.foreach { move =>
      val family = familyOf(move.entry.family)
      if (family == null) log.free(move.copy) else family.cold.move(move.ref, move.entry, move.copy)
    }
    log.cleaning.installed()
    segment.foreach(log.cleaned)
  }

  private def run(job: IoJob): Unit = {
    log.deleteGarbage()
    segment.flatMap(log.readToClean).foreach { living =>
      val pieces = new IoPieces(job)
      pieces.add(living.size)
      living.foreach { (ref, entry) =>
        pieces.add(entry.size)
        val copy =
          log.cleaning.append(SpillManager.CommonLane, entry.bytes, entry.start, entry.size)
        moves += new Move(ref, entry, copy)
      }
      pieces.finish()
      log.cleaning.flush()
    }
  }
}

private object CleanStep {
  /** An entry, and the reference of the copy that takes its place. */
  final class Move(val ref: ColdRef, val entry: ColdEntry, val copy: ColdRef)
}
