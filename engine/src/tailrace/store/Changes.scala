package tailrace.store

import tailrace.format.EntryKind
import tailrace.layout.{Epoch, Node, Record}
import tailrace.memory.{AddressList, Arena, Budget}

/** The kinds of change. The codes are also the ones in the files (FORMAT.md). */
object Change {
  final val Put = EntryKind.Put
  final val Remove = EntryKind.Remove
  final val Append = EntryKind.Append
  final val PutList = EntryKind.PutList

  // Never in files: records that a reference to their copy in the log replaced (see SpillManager).
  // Of a list, nodes down to one that stays (see `addPart`).
  final val Spilled = 5
  final val SpilledPart = 6
}

/**
 * Problem: a batch must be written when it is committed, taken back when it is aborted, and for a
 * while after its commit too, because Spark may run the same batch again.
 *
 * Answer: one list, in the order of the changes, of the old and the new record of each. Forwards it
 * is the content of the changes file; backwards it undoes the batch. The records that were replaced
 * stay where they are until the list is dropped.
 *
 * Invariant: a replaced record belongs to exactly one list, and is freed exactly once: by
 * `freeReplaced` when the batch can no longer be undone. A new record is freed by `undo`, or as a
 * replaced record of a later batch.
 */
final class Changes(budget: Budget) {
  private val words = new AddressList(budget)

  def size: Long = words.size / 3

  /** Whether its memory is a part of this budget. */
  def isBooked(in: Budget): Boolean = in eq budget

  def add(kind: Int, family: Int, replaced: Record, record: Record): Unit =
    addWords(kind, family, replaced.address, record.address)

  /** The nodes of a list down to `below`, which stays, were replaced by a reference. */
  def addPart(family: Int, replaced: Record, below: Node): Unit =
    addWords(Change.SpilledPart, family, replaced.address, below.address)

  private def addWords(kind: Int, family: Int, replaced: Long, second: Long): Unit = {
    words.add(kind.toLong << 32 | family)
    words.add(replaced)
    words.add(second)
  }

  def kind(index: Long): Int = (words(index * 3) >>> 32).toInt

  def family(index: Long): Int = words(index * 3).toInt

  def replaced(index: Long): Record = new Record(words(index * 3 + 1))

  def record(index: Long): Record = new Record(words(index * 3 + 2))

  /** In the place of the new record, where a part of a list was spilled. */
  private def below(index: Long): Node = new Node(words(index * 3 + 2))

  /** Whether this change needs to be written: a later one of the batch may have taken its place. */
  def counts(index: Long): Boolean =
    kind(index) != Change.Put || !record(index).isSuperseded

  /** The batch is over: takes its marks off the records that it made. */
  def clearBatchMarks(epoch: Epoch): Unit = {
    var index = 0L
    while (index < size) {
      val made = record(index)
      if (made.exists) {
        made.clearBatchMarks()
        epoch.touch(made)
      }
      index += 1
    }
  }

  /** Puts everything back as it was before the batch, newest change first. */
  def undo(arena: Arena, familyOf: Int => Family): Unit = {
    var index = size - 1
    while (index >= 0) {
      val before = replaced(index)
      val made = record(index)
      familyOf(family(index)).undo(before, made)
      kind(index) match {
        case Change.Append =>
          made.listLast.free(arena)
          made.free(arena)
        case Change.PutList => familyOf(family(index)).freeWhole(arena, made)
        case Change.Put => made.free(arena)
        case Change.Remove =>
      }
      if (before.exists) before.clearBatchMarks()
      index -= 1
    }
    words.clear()
  }

  /** Frees the records that the batch replaced: it cannot be undone any more. */
  def freeReplaced(arena: Arena, familyOf: Int => Family): Unit = {
    var index = 0L
    while (index < size) {
      val before = replaced(index)
      if (before.exists) {
        // An appended list shares its older nodes with the list that replaced it.
        kind(index) match {
          case Change.Append | Change.Spilled => before.free(arena)
          case Change.SpilledPart => familyOf(family(index)).freePart(arena, before, below(index))
          case _ => familyOf(family(index)).freeWhole(arena, before)
        }
      }
      index += 1
    }
    words.clear()
  }

  def close(): Unit = words.close()
}
