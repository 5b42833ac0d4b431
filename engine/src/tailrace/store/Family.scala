package tailrace.store

import tailrace.cache.PrefetchManager
import tailrace.cold.{ColdEntry, ColdRef, ColdStorage, ReadAhead, SpillMode}
import tailrace.format.{SnapshotBlocks, SnapshotIndex}
import tailrace.io.IoScheduler
import tailrace.layout.{Cursor, Epoch, Layout, Migration, Node, NodeChain, OrderedScans, Record}
import tailrace.layout.{SlotVictims, Spillable}
import tailrace.layout.adaptive.Pace
import tailrace.layout.hash.HashLayout
import tailrace.layout.time.{TimeColumn, TimeIndex}
import tailrace.memory.{Arena, Budget}

/**
 * A column family: its records, where they are found by key, and by time if the query's plan says
 * that rows expire. Every change of a batch goes into its [[Changes]]; keys and values are never
 * written in place (a record's flags, its place in the index, and the place of a cold list are).
 * Loading, moving and spilling records are no changes. The records that were spilled are its
 * [[ColdFamily]]'s.
 */
final class Family private[store] (
    val id: Int, val name: String, val kind: FamilyKind, budget: Budget,
    plan: PlannedFamily, spill: SpillManager, epoch: Epoch, arena: () => Arena,
    storage: ColdStorage, prefetch: PrefetchManager) {
  private val index: TimeIndex = plan.time.map(new TimeIndex(_, budget, epoch)).orNull
  private[store] val cold = new ColdFamily(
    this, index, spill.log, prefetch, arena, storage.readRatio)
  private val lists = new ListRounds
  val layout: Layout = kind.newLayout(budget, cold, epoch, plan.isKnown,
    if (storage.mode == SpillMode.Always) Pace.Hasty else Pace.Usual)

  /** Its records that a restart has left in a snapshot, or null. */
  private[store] var pending: PendingBlocks = null

  def isPartial: Boolean = pending != null

  /** The records of these sections of a snapshot come when they are asked for. */
  private[store] def leave(
      blocks: SnapshotBlocks, sections: Seq[SnapshotIndex.Section], io: IoScheduler,
      meter: PendingMeter): Unit =
    layout match {
      case table: HashLayout =>
        pending = new PendingBlocks(this, table, arena, blocks, sections, io, meter)
        table.setPending(pending)
      case _ => throw new IllegalStateException(s"the records of $name have an order")
    }

  /** Whether records can be left in a snapshot: nothing but a look-up by key ever needs them. */
  private[tailrace] def canWait: Boolean = kind.isByHash && index == null

  /** For a scan in the order of the keys. */
  def inOrder: OrderedScans = layout.inOrder

  def overheadBytes: Long =
    layout.overheadBytes + (if (index == null) 0L else index.overheadBytes)

  /** The records that are due at `upTo`; None if they can only be found by looking at all. */
  def dueCursor(upTo: Long): Option[Cursor] = Option(index).map { times =>
    spill.tick()
    cold.fetchDue(upTo)
    times.dueCursor(upTo)
  }

  /** The values of a cold node of a list. */
  def readCold(node: Node): ColdEntry = cold.read(node)

  /** For a thread that writes a snapshot. */
  def readColdOnce(ref: ColdRef): ColdEntry = cold.readOnce(ref)

  def readAhead: ReadAhead = cold.ahead

  def fetched: Long = cold.fetched

  /** Whether it can be scanned in order, and is in a hash table because nothing does. */
  def movedToHash: Boolean = layout.migration == Migration.Done

  /** Whether its records are on their way from the sorted layout to a hash table. */
  def movesToHash: Boolean = layout.migration == Migration.UnderWay

  /**
   * The key is looked up soon: if its record was spilled, it can be read ahead; if it is in memory, it
   * leaves later.
   *
   * @param stamp of the time at which it is looked up (see [[tailrace.layout.UseClock]])
   */
  def expect(base: AnyRef, offset: Long, length: Int, stamp: Int): Unit = {
    if (pending != null) pending.expect(HashLayout.hashOf(base, offset, length))
    if (!spill.log.isEmpty && !kind.multiValue) cold.expect(base, offset, length, stamp)
  }

  /** The same for the key of this hash. */
  def expectHash(hash: Int, stamp: Int): Unit = {
    if (pending != null) pending.expect(hash)
    if (!spill.log.isEmpty && !kind.multiValue) cold.expectHash(hash, stamp)
  }

  /** The record of this key, or none. It is in memory until the batch is over. */
  def get(base: AnyRef, offset: Long, length: Int): Record = {
    spill.tick()
    layout.get(base, offset, length)
  }

  def put(
      arena: Arena, changes: Changes,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int,
      valueBase: AnyRef, valueOffset: Long, valueLength: Int): Unit = {
    spill.tick()
    val record = Record.create(
      arena, index != null, keyBase, keyOffset, keyLength, valueBase, valueOffset, valueLength)
    changed(changes, putRecord(keyBase, keyOffset, keyLength, record), record)
  }

  private def changed(changes: Changes, replaced: Record, record: Record): Unit = {
    if (replaced.exists && replaced.isFresh) replaced.markSuperseded()
    changes.add(Change.Put, id, replaced, record)
  }

  /** As `put`, right after `get` has given `found` for the same key. */
  def putAfterGet(
      arena: Arena, changes: Changes,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int, found: Record,
      valueBase: AnyRef, valueOffset: Long, valueLength: Int): Unit = {
    val record = Record.create(
      arena, index != null, keyBase, keyOffset, keyLength, valueBase, valueOffset, valueLength)
    putFound(keyBase, keyOffset, keyLength, found, record)
    changed(changes, found, record)
  }

  def remove(changes: Changes, keyBase: AnyRef, keyOffset: Long, keyLength: Int): Boolean = {
    spill.tick()
    val removed = removeRecord(keyBase, keyOffset, keyLength)
    if (removed.isNone) return false
    if (removed.isFresh) removed.markSuperseded()
    changes.add(Change.Remove, id, removed, Record.None)
    true
  }

  /**
   * Adds one value to the end of the key's list; whether it is the key's first in this batch.
   *
   * @param due when the list is expected to be read; [[Family.AsBefore]]: the caller has no estimate
   */
  def append(
      arena: Arena, changes: Changes,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int,
      valueBase: AnyRef, valueOffset: Long, valueLength: Int,
      due: Long = Family.AsBefore): Boolean = {
    val present = get(keyBase, keyOffset, keyLength)
    lists.mayBeWarm = true
    val expected = if (due != Family.AsBefore) due else dueOf(present)
    val record = Record.createAppended(
      arena, index != null, present, expected,
      keyBase, keyOffset, keyLength, valueBase, valueOffset, valueLength)
    putFound(keyBase, keyOffset, keyLength, present, record)
    changes.add(Change.Append, id, present, record)
    present.isNone || !present.isFresh
  }

  private def dueOf(list: Record): Long = if (list.isNone) TimeColumn.Never else list.listDue

  /** Replaces the key's list by these nodes, which belong to no other list. */
  def putList(
      arena: Arena, changes: Changes,
      keyBase: AnyRef, keyOffset: Long, keyLength: Int, chain: NodeChain): Unit = {
    lists.mayBeWarm = true
    val record = Record.createList(
      arena, index != null, keyBase, keyOffset, keyLength, chain, TimeColumn.Never)
    val replaced = putRecord(keyBase, keyOffset, keyLength, record)
    changes.add(Change.PutList, id, replaced, record)
  }

  def removeAll(changes: Changes): Unit = {
    val cursor = layout.cursor()
    var record = cursor.next()
    while (record.exists) {
      remove(changes, null, record.keyAddress, record.keyLength)
      record = cursor.next()
    }
  }

  /** Takes one change of a batch back: `before` is the key's record again, or there is none. */
  private[store] def undo(before: Record, made: Record): Unit = {
    val named = if (made.exists) made else before
    val key = named.keyAddress
    val length = named.keyLength
    if (before.isNone) removeRecord(null, key, length) else putRecord(null, key, length, before)
  }

  /** The batch is over, and no cursor is in use: work that moves or drops records. */
  private[store] def betweenBatches(): Unit = {
    if (index != null) index.mergeBuckets()
    lists.restart()
    cold.betweenBatches()
    layout.betweenBatches()
  }

  /** More was loaded: all of it can be spilled. */
  private[store] def loading(): Unit = lists.restartIfThrough()

  // ---- loading: no batch runs, nothing can be undone, replaced records are freed at once

  def loadPut(
      arena: Arena, base: AnyRef,
      keyOffset: Long, keyLength: Int, valueOffset: Long, valueLength: Int): Unit = {
    val record = unmarked(Record.create(
      arena, index != null, base, keyOffset, keyLength, base, valueOffset, valueLength))
    val replaced = layout.putOver(base, keyOffset, keyLength, record)
    indexed(replaced, record)
    if (replaced.exists) replaced.free(arena)
  }

  /** As `loadPut`, for a key that is certainly not there yet: a snapshot names each key once. */
  def loadNew(
      arena: Arena, base: AnyRef,
      keyOffset: Long, keyLength: Int, valueOffset: Long, valueLength: Int): Unit = {
    val record = unmarked(Record.create(
      arena, index != null, base, keyOffset, keyLength, base, valueOffset, valueLength))
    layout.add(base, keyOffset, keyLength, record)
    if (index != null) index.add(record)
  }

  def loadRemove(arena: Arena, base: AnyRef, keyOffset: Long, keyLength: Int): Unit = {
    val removed = layout.removeOver(base, keyOffset, keyLength)
    unindexed(removed)
    if (removed.exists) freeWhole(arena, removed)
  }

  def loadAppend(
      arena: Arena, base: AnyRef,
      keyOffset: Long, keyLength: Int, valueOffset: Long, valueLength: Int): Unit = {
    lists.mayBeWarm = true
    val present = layout.get(base, keyOffset, keyLength)
    putFound(base, keyOffset, keyLength, present, unmarked(Record.createAppended(
      arena, index != null, present, dueOf(present),
      base, keyOffset, keyLength, base, valueOffset, valueLength)))
    if (present.exists) present.free(arena)
  }

  def loadPutList(
      arena: Arena, base: AnyRef,
      keyOffset: Long, keyLength: Int, chain: NodeChain): Unit = {
    lists.mayBeWarm = true
    val replaced = putRecord(base, keyOffset, keyLength,
      unmarked(Record.createList(
        arena, index != null, base, keyOffset, keyLength, chain, TimeColumn.Never)))
    if (replaced.exists) freeWhole(arena, replaced)
  }

  /** Frees a record with all that belongs to it. */
  def freeWhole(arena: Arena, record: Record): Unit =
    if (kind.multiValue) freePart(arena, record, Node.None) else record.free(arena)

  /** Frees a list's record and its nodes down to `until`, which another record has. */
  private[store] def freePart(arena: Arena, record: Record, until: Node): Unit =
    record.freeList(arena, until)(cold.freeNode)

  /** Moves every record into another arena. The old one is then free of this family. */
  def relocate(target: Arena): Unit = layout.relocate { record =>
    if (kind.multiValue) moveList(target, record) else unmarked(copyRecord(target, record))
  }

  /** The family ends while the table goes on: its spilled records are not needed any more. */
  private[store] def giveUp(): Unit = {
    cold.giveUp()
    close()
  }

  def close(): Unit = {
    cold.closeViews()
    layout.close()
    if (index != null) index.close()
  }

  // ---- records that are spilled and fetched: for the caller nothing changes

  /** Records, or values of lists, that can be spilled; None: there are none. */
  private[store] def pickVictims(
      wantedBytes: Long, most: Int, order: EvictionOrder): Option[Victims] =
    layout.spillable.flatMap { table =>
      if (kind.multiValue) {
        lists.pick(wantedBytes, most)(
          new ListVictims(this, table, index, spill.log, epoch, cold.readOnce))
      } else {
        val victims = new RecordVictims(this, table, index, spill.log, epoch, order)
        if (victims.pick(wantedBytes, most)) Some(victims) else None
      }
    }

  /** The table of records that are spilled one by one; None: these are lists, or stay in memory. */
  private[store] def recordTable: Option[Spillable] = if (kind.multiValue) None else layout.spillable

  /** Slots that can be spilled; None: there are none. Keys of lists stay in memory. */
  private[store] def pickSlots(few: Boolean): Option[SlotVictims] =
    recordTable.flatMap(table => Option(table.pickSlots(few)))

  private[store] def slotBytes: Long =
    recordTable.fold(0L)(_.slotBytes)

  /** A record made from its entry in the log; the caller puts it into its slot. */
  private[store] def resident(arena: Arena, entry: ColdEntry): Record = {
    val record = unmarked(Record.create(arena, index != null,
      entry.bytes, entry.key, entry.keyLength, entry.bytes, entry.payload, entry.payloadLength))
    epoch.touch(record)
    if (index != null) index.add(record)
    record
  }

  /** The list's values above the node `below` are in the log from now on. */
  private[store] def replaceList(
      hash: Int, record: Record, below: Node, ref: ColdRef, values: Int): Unit = {
    val node = Node.createCold(arena(), below, ref, values)
    val first = if (below.isNone) node else record.listFirst
    val made = unmarked(Record.createList(
      arena(), index != null, null, record.keyAddress, record.keyLength,
      first, node, record.listCount, record.listDue))
    if (index != null) index.relocate(record, made)
    layout.spillable.foreach(_.exchange(hash, record.word, made.word))
  }

  // ---- by key and by time alike

  private def putRecord(base: AnyRef, offset: Long, length: Int, record: Record): Record = {
    val replaced = layout.put(base, offset, length, record)
    indexed(replaced, record)
    replaced
  }

  /** The same right after `layout.get` has given `found`: nothing is looked up again. */
  private def putFound(
      base: AnyRef, offset: Long, length: Int, found: Record, record: Record): Unit = {
    layout.putAfterGet(base, offset, length, found, record)
    indexed(found, record)
  }

  private def indexed(replaced: Record, record: Record): Unit = if (index != null) {
    if (replaced.isNone) index.add(record) else index.replace(replaced, record)
  }

  private def removeRecord(base: AnyRef, offset: Long, length: Int): Record = {
    val removed = layout.remove(base, offset, length)
    unindexed(removed)
    removed
  }

  private def unindexed(removed: Record): Unit =
    if (index != null && removed.exists) index.remove(removed)

  private def copyRecord(target: Arena, record: Record): Record = {
    val moved = Record.create(
      target, index != null,
      null, record.keyAddress, record.keyLength, null, record.valueAddress, record.valueLength)
    if (index != null) index.relocate(record, moved)
    moved
  }

  private def moveList(target: Arena, record: Record): Record = {
    val chain = new NodeChain(target)
    record.nodes.foreach { node =>
      if (node.isCold) chain.addCold(node.coldRef, node.coldValues)
      else chain.add(null, node.valueAddress, node.length)
    }
    val moved = unmarked(Record.createList(
      target, index != null, null, record.keyAddress, record.keyLength, chain, record.listDue))
    if (index != null) index.relocate(record, moved)
    moved
  }

  private def unmarked(record: Record): Record = {
    record.clearBatchMarks()
    record
  }
}

/** A family in the query's plan: whether it is known there, and where its rows tell their time. */
final case class PlannedFamily(isKnown: Boolean, time: Option[TimeColumn])

object PlannedFamily {
  val Unknown: PlannedFamily = PlannedFamily(isKnown = false, None)
}

object Family {
  /** In the place of a time: the one that was said before. */
  val AsBefore: Long = Long.MinValue
}
