package tailrace.store

import tailrace.cold.{ColdEntry, ColdLog, ColdStorage, Leaves, ReadAhead}
import tailrace.layout.{Cursor, Layout, NodeChain, Record}
import tailrace.layout.adaptive.{AdaptiveLayout, Pace}
import tailrace.layout.ordered.OrderedLayout
import tailrace.layout.time.{TimeColumn, TimeIndex}
import tailrace.memory.{Arena, Budget}

/**
 * A column family: its records, where they are found by key, and by time if the query's plan says
 * that rows fall due. Every change goes into the running batch's [[Changes]]; nothing is ever
 * written in place. What does not fit into memory is its [[ColdPart]]'s.
 */
final class Family(
    val id: Int, val name: String, val kind: FamilyKind, budget: Budget,
    plan: PlannedFamily, log: ColdLog, arena: () => Arena, storage: ColdStorage) {
  private val index: TimeIndex = plan.time.map(new TimeIndex(_, budget)).orNull
  private[store] val cold = new ColdPart(this, index, log, arena, storage.readRatio)
  val layout: Layout = kind.newLayout(budget, cold, plan.isKnown,
    if (storage.leaves == Leaves.Always) Pace.Hasty else Pace.Usual)

  /** For a scan in the order of the keys. */
  def ordered: OrderedLayout = layout match {
    case adaptive: AdaptiveLayout => adaptive.ordered
    case other => other.asInstanceOf[OrderedLayout]
  }

  def overheadBytes: Long =
    layout.overheadBytes + (if (index == null) 0L else index.overheadBytes)

  /** The records that are due at `upTo`; None if they can only be found by looking at all. */
  def dueCursor(upTo: Long): Option[Cursor] = Option(index).map { times =>
    cold.bringBackDue(upTo)
    times.dueCursor(upTo)
  }

  /** The values of a cold node of a list. */
  def readCold(node: Long): ColdEntry = cold.read(node)

  /** For whoever writes an image, in a thread of its own. */
  def readColdOnce(ref: Long): ColdEntry = cold.readOnce(ref)

  def readAhead: ReadAhead = cold.ahead

  def broughtBack: Long = cold.broughtBack

  /** Whether it can be scanned in order, and is in a hash table because nobody does. */
  def movedToHash: Boolean = layout match {
    case adaptive: AdaptiveLayout => adaptive.current == AdaptiveLayout.Hashed
    case _ => false
  }

  def put(
      arena: Arena, changes: Changes,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int,
      valueBase: AnyRef, valueOffset: Long, valueLength: Int): Unit = {
    val record = Record.create(
      arena, index != null, keyBase, keyOffset, keyLength, valueBase, valueOffset, valueLength)
    changed(changes, putRecord(keyBase, keyOffset, keyLength, record), record)
  }

  private def changed(changes: Changes, replaced: Long, record: Long): Unit = {
    if (replaced != 0L && Record.isFresh(replaced)) Record.markSuperseded(replaced)
    changes.add(Change.Put, id, replaced, record)
  }

  /** As `put`, right after `layout.get` has given `found` for the same key. */
  def putAfterGet(
      arena: Arena, changes: Changes,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int, found: Long,
      valueBase: AnyRef, valueOffset: Long, valueLength: Int): Unit = {
    val record = Record.create(
      arena, index != null, keyBase, keyOffset, keyLength, valueBase, valueOffset, valueLength)
    putFound(keyBase, keyOffset, keyLength, found, record)
    changed(changes, found, record)
  }

  def remove(changes: Changes, keyBase: AnyRef, keyOffset: Long, keyLength: Int): Boolean = {
    val removed = removeRecord(keyBase, keyOffset, keyLength)
    if (removed == 0L) return false
    if (Record.isFresh(removed)) Record.markSuperseded(removed)
    changes.add(Change.Remove, id, removed, 0L)
    true
  }

  /**
   * Adds one value to the end of the key's list; whether it is the key's first in this batch.
   *
   * @param due when the list is expected to be read; [[Family.AsBefore]]: nobody has said anything
   */
  def append(
      arena: Arena, changes: Changes,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int,
      valueBase: AnyRef, valueOffset: Long, valueLength: Int,
      due: Long = Family.AsBefore): Boolean = {
    val present = layout.get(keyBase, keyOffset, keyLength)
    val expected = if (due != Family.AsBefore) due else dueOf(present)
    val record = Record.createAppended(
      arena, index != null, present, expected,
      keyBase, keyOffset, keyLength, valueBase, valueOffset, valueLength)
    putFound(keyBase, keyOffset, keyLength, present, record)
    changes.add(Change.Append, id, present, record)
    present == 0L || !Record.isFresh(present)
  }

  private def dueOf(list: Long): Long =
    if (list == 0L) TimeColumn.Never else Record.listDue(list)

  /** Replaces the key's list by these nodes, which belong to nobody else. */
  def putList(
      arena: Arena, changes: Changes,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int, chain: NodeChain): Unit = {
    val record = Record.createList(
      arena, index != null, keyBase, keyOffset, keyLength, chain, TimeColumn.Never)
    val replaced = putRecord(keyBase, keyOffset, keyLength, record)
    changes.add(Change.PutList, id, replaced, record)
  }

  def removeAll(changes: Changes): Unit = {
    val cursor = layout.cursor()
    var record = cursor.next()
    while (record != 0L) {
      remove(changes, null, Record.keyAddress(record), Record.keyLength(record))
      record = cursor.next()
    }
  }

  /** Takes one change of a batch back: `before` is the key's record again, or there is none. */
  private[store] def undo(before: Long, made: Long): Unit = {
    val named = if (made != 0L) made else before
    val key = Record.keyAddress(named)
    val length = Record.keyLength(named)
    if (before == 0L) removeRecord(null, key, length) else putRecord(null, key, length, before)
  }

  /** The batch is over and no cursor moves. */
  private[store] def settle(): Unit = {
    if (index != null) index.settle()
    cold.settle()
    layout match {
      case adaptive: AdaptiveLayout => adaptive.settle()
      case _ =>
    }
  }

  // ---- loading: no batch runs, nothing can be undone, what is replaced is freed at once

  def loadPut(
      arena: Arena, base: AnyRef,
      keyOffset: Long, keyLength: Int, valueOffset: Long, valueLength: Int): Unit = {
    val record = settled(Record.create(
      arena, index != null, base, keyOffset, keyLength, base, valueOffset, valueLength))
    val replaced = putRecord(base, keyOffset, keyLength, record)
    if (replaced != 0L) Record.free(arena, replaced)
  }

  /** As `loadPut`, for a key that is certainly not there yet: a snapshot names each key once. */
  def loadNew(
      arena: Arena, base: AnyRef,
      keyOffset: Long, keyLength: Int, valueOffset: Long, valueLength: Int): Unit = {
    val record = settled(Record.create(
      arena, index != null, base, keyOffset, keyLength, base, valueOffset, valueLength))
    layout.add(base, keyOffset, keyLength, record)
    if (index != null) index.add(record)
  }

  def loadRemove(arena: Arena, base: AnyRef, keyOffset: Long, keyLength: Int): Unit = {
    val removed = removeRecord(base, keyOffset, keyLength)
    if (removed != 0L) freeWhole(arena, removed)
  }

  def loadAppend(
      arena: Arena, base: AnyRef,
      keyOffset: Long, keyLength: Int, valueOffset: Long, valueLength: Int): Unit = {
    val present = layout.get(base, keyOffset, keyLength)
    putFound(base, keyOffset, keyLength, present, settled(Record.createAppended(
      arena, index != null, present, dueOf(present),
      base, keyOffset, keyLength, base, valueOffset, valueLength)))
    if (present != 0L) Record.free(arena, present)
  }

  def loadPutList(
      arena: Arena, base: AnyRef,
      keyOffset: Long, keyLength: Int, chain: NodeChain): Unit = {
    val replaced = putRecord(base, keyOffset, keyLength,
      settled(Record.createList(
        arena, index != null, base, keyOffset, keyLength, chain, TimeColumn.Never)))
    if (replaced != 0L) freeWhole(arena, replaced)
  }

  /** Frees a record with all that belongs to it. */
  def freeWhole(arena: Arena, record: Long): Unit =
    if (kind.multiValue) freePart(arena, record, 0L) else Record.free(arena, record)

  /** Frees a list's record and its nodes down to `until`, which another record has. */
  private[store] def freePart(arena: Arena, record: Long, until: Long): Unit =
    Record.freeList(arena, record, until)(cold.freeNode)

  /** Moves every record into another arena. The old one is then free of this family. */
  def relocate(target: Arena): Unit = layout.relocate { record =>
    if (kind.multiValue) moveList(target, record) else settled(copyRecord(target, record))
  }

  /** The family ends while the table goes on: what it has on disk is nobody's any more. */
  private[store] def giveUp(): Unit = {
    cold.giveUp()
    close()
  }

  def close(): Unit = {
    layout.close()
    if (index != null) index.close()
  }

  // ---- what leaves memory and comes back: nothing changes for whoever asks

  /** A record made from its entry in the log; the caller puts it into its slot. */
  private[store] def resident(arena: Arena, entry: ColdEntry): Long = {
    val record = settled(Record.create(arena, index != null,
      entry.bytes, entry.key, entry.keyLength, entry.bytes, entry.payload, entry.payloadLength))
    if (index != null) index.add(record)
    record
  }

  /** The list's record is made anew, for the same values in other nodes. */
  private[store] def replaceList(arena: Arena, record: Long, first: Long, last: Long): Unit = {
    val made = settled(Record.createList(
      arena, index != null, null, Record.keyAddress(record), Record.keyLength(record),
      first, last, Record.listCount(record), Record.listDue(record)))
    if (index != null) index.relocate(record, made)
    layout.put(null, Record.keyAddress(made), Record.keyLength(made), made)
  }

  // ---- by key and by time alike

  private def putRecord(base: AnyRef, offset: Long, length: Int, record: Long): Long = {
    val replaced = layout.put(base, offset, length, record)
    indexed(replaced, record)
    replaced
  }

  /** The same right after `layout.get` has given `found`: nothing is looked up again. */
  private def putFound(
      base: AnyRef, offset: Long, length: Int, found: Long, record: Long): Unit = {
    layout.putAfterGet(base, offset, length, found, record)
    indexed(found, record)
  }

  private def indexed(replaced: Long, record: Long): Unit = if (index != null) {
    if (replaced == 0L) index.add(record) else index.replace(replaced, record)
  }

  private def removeRecord(base: AnyRef, offset: Long, length: Int): Long = {
    val removed = layout.remove(base, offset, length)
    if (index != null && removed != 0L) index.remove(removed)
    removed
  }

  private def copyRecord(target: Arena, record: Long): Long = {
    val moved = Record.create(
      target, index != null,
      null, Record.keyAddress(record), Record.keyLength(record),
      null, Record.valueAddress(record), Record.valueLength(record))
    if (index != null) index.relocate(record, moved)
    moved
  }

  private def moveList(target: Arena, record: Long): Long = {
    val chain = new NodeChain(target)
    Record.nodes(record).foreach { node =>
      if (Record.coldValues(node) > 0) chain.addCold(Record.coldRef(node), Record.coldValues(node))
      else chain.add(null, Record.nodeValue(node), Record.nodeLength(node))
    }
    val moved = settled(Record.createList(
      target, index != null, null, Record.keyAddress(record), Record.keyLength(record), chain,
      Record.listDue(record)))
    if (index != null) index.relocate(record, moved)
    moved
  }

  private def settled(record: Long): Long = {
    Record.settle(record)
    record
  }
}

/** What the query's plan says of a family: whether anything, and where its rows tell their time. */
final case class PlannedFamily(isKnown: Boolean, time: Option[TimeColumn])

object PlannedFamily {
  val Unknown: PlannedFamily = PlannedFamily(isKnown = false, None)
}

object Family {
  /** In the place of a time: the one that was said before. */
  val AsBefore: Long = Long.MinValue
}
