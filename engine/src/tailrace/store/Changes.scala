package tailrace.store

import tailrace.layout.Record
import tailrace.memory.{AddressList, Arena, Budget}

/** The kinds of change. The codes are also the ones in the files (FORMAT.md). */
object Change {
  val Put = 1
  val Remove = 2
  val Append = 3
  val PutList = 4

  // Never in files: what was replaced by the same thing, which is not in memory (see ColdPart).
  // Of a list, nodes down to the one in the place of the new record, which stays.
  val Left = 5
  val PartLeft = 6
}

/**
 * Problem: a batch must be written when it is committed, taken back when it is aborted, and for a
 * while after its commit too, because Spark may run the same batch again.
 *
 * Answer: one list, in the order of the changes, of what each put in the place of what. Forwards it
 * is what the changes file says; backwards it undoes the batch. The records that were replaced stay
 * where they are until the list is dropped.
 *
 * Invariant: a replaced record belongs to exactly one list, and is freed exactly once: by
 * `freeReplaced` when the batch can no longer be undone. A new record is freed by `undo`, or as a
 * replaced record of a later batch.
 */
final class Changes(budget: Budget) {
  private val words = new AddressList(budget)

  def size: Long = words.size / 3

  def add(kind: Int, family: Int, replaced: Long, record: Long): Unit = {
    words.add(kind.toLong << 32 | family)
    words.add(replaced)
    words.add(record)
  }

  def kind(index: Long): Int = (words(index * 3) >>> 32).toInt

  def family(index: Long): Int = words(index * 3).toInt

  def replaced(index: Long): Long = words(index * 3 + 1)

  def record(index: Long): Long = words(index * 3 + 2)

  /** Whether this change needs to be written: a later one of the batch may have taken its place. */
  def counts(index: Long): Boolean =
    kind(index) != Change.Put || !Record.isSuperseded(record(index))

  /** The batch is over: its records are ordinary ones from now on. */
  def settle(): Unit = {
    var index = 0L
    while (index < size) {
      val made = record(index)
      if (made != 0L) Record.settle(made)
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
          Record.freeNode(arena, Record.listLast(made))
          Record.free(arena, made)
        case Change.PutList => familyOf(family(index)).freeWhole(arena, made)
        case Change.Put => Record.free(arena, made)
        case Change.Remove =>
      }
      if (before != 0L) Record.settle(before)
      index -= 1
    }
    words.clear()
  }

  /** Frees what the batch replaced: it cannot be undone any more. */
  def freeReplaced(arena: Arena, familyOf: Int => Family): Unit = {
    var index = 0L
    while (index < size) {
      val before = replaced(index)
      if (before != 0L) {
        // An appended list shares its older nodes with the list that replaced it.
        kind(index) match {
          case Change.Append | Change.Left => Record.free(arena, before)
          case Change.PartLeft => familyOf(family(index)).freePart(arena, before, record(index))
          case _ => familyOf(family(index)).freeWhole(arena, before)
        }
      }
      index += 1
    }
    words.clear()
  }

  def close(): Unit = words.close()
}
