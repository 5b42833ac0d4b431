package tailrace.store

import tailrace.cache.{Origin, PrefetchManager}
import tailrace.cold.{ColdLog, ColdStorage, EvictionPolicy, SpillMode}
import tailrace.errors.CheckpointError
import tailrace.format.{SnapshotBlocks, SnapshotIndex}
import tailrace.io.IoScheduler
import tailrace.layout.{Epoch, UseClock}
import tailrace.memory.{AddressList, Arena, Budget}

/**
 * The live state of one store: all its column families at one version, the changes of the batch
 * that is running, and those of the last one, by which it can be taken back.
 *
 * A batch, step by step:
 *  1. `begin`: the last batch becomes final; the slots of records that it replaced are free.
 *  2. Families record every change in `changes`.
 *  3. `apply`: the changes become the new version (applied), with its place in the lineage.
 *  or `rollback`: nothing has happened.
 *  4. `revert`, instead of 1: the last batch is taken back, because Spark runs it again.
 *
 * @param planOf the family of this name in the query's plan
 * @param cold   where state is spilled to
 * @param io     the threads that spill and clean, beside the batch
 *
 * Invariants: one thread at a time. While a batch runs only slots of records are freed that it does
 * not use (see [[SpillManager]]), so rows handed out stay readable until the task is over; none is
 * freed that an unfinished [[FrozenVersion]] shows.
 */
final class StateTable(
    budget: Budget, planOf: String => PlannedFamily, cold: ColdStorage, io: IoScheduler,
    name: String) {
  import StateTable._

  private val log = new ColdLog(cold, io)
  /** The times by which records leave memory. */
  val clock = new UseClock(cold.eviction)
  private val epoch = new Epoch(clock)
  private val spill: SpillManager = new SpillManager(budget, cold, log, io, epoch, new Host)

  /** Spilled records that are read before they are looked up. */
  val prefetch: PrefetchManager =
    new PrefetchManager(log, io, budget, name, keeps = cold.eviction == EvictionPolicy.Timestamp)

  private var arena = newArena()
  private var byName = Map.empty[String, Family]
  private val byId = new scala.collection.mutable.ArrayBuffer[Family] // null where one is gone
  private var current = new Changes(budget)
  private var spare: Changes = null // an emptied list: its memory serves the next batch
  private var familiesBefore = byName
  private var last: AppliedBatch = null
  private var frozen: FrozenVersion = null
  // Batches that have become final while the frozen version still shows records they replaced.
  private val waitingForFrozen = new scala.collection.mutable.ArrayBuffer[Changes]
  private var position = Position(0L, Lineage.Empty)

  def version: Long = position.version

  def lineage: Long = position.lineage

  def changes: Changes = current

  def memory: Arena = arena

  def families: Iterable[Family] = byName.values

  /** Also those that the running batch has dropped. */
  def allFamilies: Seq[Family] = byId.filter(_ != null).toSeq

  def family(name: String): Option[Family] = byName.get(name)

  /** The family with this id, or null. */
  def familyOf(id: Int): Family = if (id < byId.length) byId(id) else null

  /** The position that `revert` would go back to. */
  def revertible: Option[Position] = Option(last).map(_.before)

  def rows(internal: Boolean): Long =
    byName.valuesIterator.filter(_.kind.internal == internal).map(_.layout.size).sum

  def reservedBytes: Long =
    arena.reservedBytes + byName.valuesIterator.map(_.overheadBytes).sum

  def liveBytes: Long = arena.liveBytes

  // ---- families

  def createFamily(name: String, kind: FamilyKind): Family =
    addFamily(byId.length, name, kind)

  private[tailrace] def addFamily(id: Int, name: String, kind: FamilyKind): Family = {
    val family = new Family(
      id, name, kind, budget, planOf(name), spill, epoch, () => arena, cold, prefetch)
    byName += name -> family
    while (byId.length <= id) byId += null
    byId(id) = family
    family
  }

  /** Whether the running batch may have changed a family that is gone now. */
  def hasDroppedFamilies: Boolean = allFamilies.size != byName.size

  def dropFamily(name: String): Boolean = byName.get(name) match {
    case Some(family) =>
      family.removeAll(current)
      byName -= name
      true
    case None => false
  }

  // ---- the life of a batch

  def begin(): Unit = {
    spill.restartClocks()
    prefetch.restartClock()
    late.nanos = 0L
    endLastBatch()
    relieveBudget()
    if (mayCompact) compact()
    spill.begin(arena.allocatedBytes - allocatedBefore)
    allocatedBefore = arena.allocatedBytes
    familiesBefore = byName
  }

  /** The last batch is final, its cursors are closed, and its records can be spilled. */
  private def endLastBatch(): Unit = {
    spill.dropStaleVictims()
    if (last != null) {
      retire(last.changes)
      last = null
    }
    releaseFrozen()
    if (waitingForFrozen.isEmpty) forgetDroppedFamilies()
    byName.valuesIterator.foreach(_.betweenBatches())
    if (clock.isOutgrown) stampAnew()
    epoch.advance()
  }

  private def stampAnew(): Unit = {
    val tables = allFamilies.flatMap(_.recordTable)
    val counts = new Array[Int](UseClock.Largest + 1)
    tables.foreach(_.countStamps(counts))
    val renamed = clock.rescale(oldest = math.max(0, counts.indexWhere(_ > 0, 1)))
    tables.foreach(_.restamp(renamed))
  }

  // ---- more state than memory

  def coldLog: ColdLog = log

  /** The time that the running batch spent on spilling (of it, on waiting) and on cleaning the log. */
  def spillNanos: Long = spill.spillNanos

  def spillWaitNanos: Long = spill.waitNanos

  def cleanNanos: Long = spill.cleanNanos

  /** Records and lists that were spilled so far. */
  def spilled: Long = spill.spilled

  /** Of them, or rather not of them: those that were asked for on their way out, and stayed. */
  def returned: Long = spill.returned

  /**
   * For lists of spilled records, which are short and soon gone: they are not refused memory when
   * it is to be freed.
   */
  private val bookkeeping = new Budget(Long.MaxValue)

  private var allocatedBefore = 0L
  private var starvationsSeen = 0L

  private def newArena(): Arena =
    if (cold.mode == SpillMode.Never) new Arena(budget) else new Arena(budget, spill.makeRoomNow _)

  /** While a checkpoint is loaded: sees to it that the state still fits into memory. */
  private[tailrace] def makeRoom(): Unit = spill.loading()

  private final class Host extends SpillManager.Host {
    override def name: String = StateTable.this.name
    override def arena: Arena = StateTable.this.arena
    override def families: Iterable[Family] = byName.values
    override def familyOf(id: Int): Family = StateTable.this.familyOf(id)
    override def reserved: Long = reservedBytes
    override def slotBytes: Long = byName.valuesIterator.map(_.slotBytes).sum
    override def newChanges(): Changes = new Changes(bookkeeping)
    override def keepsRecords: Boolean = {
      releaseFrozen()
      frozen != null && !frozen.isPastRecords
    }
    override def retire(freed: Changes): Unit = StateTable.this.retire(freed)
    override def awaitFrozen(): Unit = if (frozen != null) {
      frozen.awaitRecords()
      releaseFrozen()
    }
  }

  // ---- state that a restart has left in a snapshot (RFC 16)

  /** Whether some records are still in a snapshot: they come when they are asked for. */
  def isPartial: Boolean = byName.valuesIterator.exists(_.isPartial)

  private val late = new PendingMeter

  /** Rows that are still there; blocks that look-ups read so far, and their time in the batch. */
  def pendingRows: Long = partial.map(_.rows).sum

  def lateBlocks: Long = late.blocks

  def lateNanos: Long = late.nanos

  /** Whether they turned out not to fit together. */
  def isBroken: Boolean = partial.exists(_.isBroken)

  private def partial: Iterator[PendingBlocks] =
    byName.valuesIterator.map(_.pending).filter(_ != null)

  /** These sections have the rest of the family's records. */
  private[tailrace] def leave(
      family: Family, blocks: SnapshotBlocks, sections: Seq[SnapshotIndex.Section]): Unit = {
    family.leave(blocks, sections, io, late)
    family.pending.makeRoom = () => if (cold.mode != SpillMode.Never) spill.look()
  }

  /** All changes were loaded over the snapshot: by family, how many rows there are in all. */
  private[tailrace] def settle(rows: Map[Int, Long])(rescue: CheckpointError => Unit): Unit =
    byName.values.toSeq.filter(_.isPartial).foreach { family =>
      family.pending.rescue = rescue
      family.pending.settle(rows(family.id))
    }

  /** Whether so little is left that a batch can bring it at any time, without looking for memory. */
  private[tailrace] def isNearlyWhole: Boolean = partial.map(_.bytes).sum <= SmallRest

  private[tailrace] def bringAll(): Unit = partial.toSeq.foreach(_.bringAll())

  /** An empty one for the same store. */
  private[tailrace] def another(): StateTable = new StateTable(budget, planOf, cold, io, name)

  /** The records that are left, from another table of the version that was loaded. */
  private[tailrace] def bringFrom(other: StateTable): Unit =
    byName.values.toSeq.filter(_.isPartial).foreach { family =>
      other.family(family.name).foreach(family.pending.bringFrom)
    }

  /** What is brought behind next; null: nothing is left, or there is no memory to spare. */
  private[tailrace] def nextChunk(): PendingChunk =
    if (budget.isShort || budget.isTight) null
    else partial.map(_.nextChunk()).find(_ != null).orNull

  /** Has the records that are expected read, in the background. */
  def fetchExpected(origin: Origin): Unit = {
    prefetch.submit(origin)
    partial.foreach(_.fetchExpected())
  }

  /** The running batch's changes become the next version. */
  def apply(newLineage: Long): Unit = {
    current.clearBatchMarks(epoch)
    last = AppliedBatch(position, familiesBefore, current)
    position = Position(position.version + 1, newLineage)
    current = takeSpare()
  }

  private def takeSpare(): Changes = {
    val found = if (spare != null) spare else new Changes(budget)
    spare = null
    found
  }

  def rollback(): Unit = {
    spill.dropStaleVictims()
    current.undo(arena, familyOf)
    byName = familiesBefore
  }

  def revert(): Unit = {
    require(last != null, "there is no applied batch to take back")
    spill.dropStaleVictims()
    // If the version that is taken back is frozen, it shows records that are freed here.
    if (frozen != null && frozen.version == position.version) frozen.cancelAndWait()
    releaseFrozen()
    last.changes.undo(arena, familyOf)
    last.changes.close()
    byName = last.families
    position = last.before
    last = null
  }

  // ---- frozen versions, for snapshots

  /**
   * Freezes the applied version, unless an earlier one is still being written as a snapshot, or the
   * addresses do not fit into memory.
   *
   * @param atBegin no batch has used anything yet: records can be spilled to make room
   */
  def freeze(atBegin: Boolean = false): Option[FrozenVersion] = {
    releaseFrozen()
    if (frozen != null) return None
    if (atBegin && freezeBytes > budget.spare) makeRoomToFreeze()
    val parts = byName.values.toSeq.sortBy(_.id).map { family =>
      val layout = family.layout
      FrozenVersion.Part(family, new AddressList(budget), spilled = layout.size - layout.resident)
    }
    if (parts.forall(part => part.records.tryReserve(part.family.layout.resident))) {
      parts.foreach(part => part.family.layout.copyTo(part.records))
      log.pin()
      frozen = new FrozenVersion(position.version, position.lineage, parts, log.freeze())
      Some(frozen)
    } else {
      parts.foreach(_.records.close())
      None
    }
  }

  /** Whether a frozen version is still being written as a snapshot. */
  def isFrozen: Boolean = {
    releaseFrozen()
    frozen != null
  }

  private def freezeBytes: Long = byName.valuesIterator.map(_.layout.resident * 8L).sum

  private def makeRoomToFreeze(): Unit = {
    spill.spillDownTo(budget.spare * 3 / 4)
    compact()
  }

  // ---- replacing and ending

  /** Empties the table; the load that comes next begins at this position. */
  def reset(to: Position): Unit = {
    release(await = false)
    arena = newArena()
    byName = Map.empty
    byId.clear()
    current = new Changes(budget)
    familiesBefore = byName
    position = to
  }

  /** The position after a load, which cannot be undone, only repeated. */
  private[tailrace] def loadedTo(to: Position): Unit = {
    position = to
    allocatedBefore = arena.allocatedBytes // by the load, not by a batch
    familiesBefore = byName
  }

  /** A family that the files say was emptied and dropped; its id may be given again. */
  private[tailrace] def forgetFamily(family: Family): Unit = {
    if (byName.get(family.name).exists(_ eq family)) byName -= family.name
    byId(family.id) = null
    family.giveUp()
  }

  private var isClosed = false
  budget.storeOpened()

  def close(): Unit = {
    release(await = true)
    prefetch.close()
    if (!isClosed) budget.storeClosed()
    isClosed = true
  }

  private def release(await: Boolean): Unit = {
    if (frozen != null) {
      frozen.cancelAndWait()
      closeFrozen()
    }
    prefetch.clear()
    spill.clear(await)
    waitingForFrozen.foreach(_.close())
    waitingForFrozen.clear()
    current.close()
    if (last != null) {
      last.changes.close()
      last = null
    }
    if (spare != null) {
      spare.close()
      spare = null
    }
    allFamilies.foreach(_.close())
    byId.clear()
    arena.close()
    allocatedBefore = 0L
  }

  private def retire(changes: Changes): Unit = {
    releaseFrozen()
    if (frozen == null || frozen.isPastRecords) freeAndReuse(changes)
    else waitingForFrozen += changes
  }

  private def closeFrozen(): Unit = {
    frozen.close()
    frozen = null
    log.unpin()
  }

  /** Frees the records that were kept for a frozen version, once its writer has written them. */
  private def releaseFrozen(): Unit = if (frozen != null && frozen.isPastRecords) {
    if (frozen.isDone) closeFrozen()
    waitingForFrozen.foreach(freeAndReuse)
    waitingForFrozen.clear()
  }

  private def freeAndReuse(changes: Changes): Unit = {
    changes.freeReplaced(arena, familyOf)
    if (spare == null && changes.isBooked(budget)) spare = changes else changes.close()
  }

  private def forgetDroppedFamilies(): Unit = {
    byId.indices.foreach { id =>
      val family = byId(id)
      if (family != null && !byName.get(family.name).exists(_ eq family)) {
        family.giveUp()
        byId(id) = null
      }
    }
  }

  /**
   * Free slots of an arena serve its own store only. If the budget is nearly used up, or
   * another store does not get its share while this one has more than that, records are spilled until
   * three quarters of the arena are free, which `compact` then gives back.
   */
  private def relieveBudget(): Unit = {
    val starves = budget.starvations > starvationsSeen && reservedBytes > budget.share
    starvationsSeen = budget.starvations
    isRelieving = (budget.isShort || starves) && arena.reservedBytes > SmallArena
    // The records that stay are copied: they have to fit twice.
    if (isRelieving) spill.spillDownTo(math.min(arena.reservedBytes / 4, budget.spare * 3 / 4))
  }

  private var isRelieving = false

  /**
   * No batch runs, and another store needs memory: half of the share stays here. The last batch can no
   * longer be taken back; it is loaded if it is asked for.
   */
  private[tailrace] def giveBack(): Unit =
      if (cold.mode != SpillMode.Never && reservedBytes > budget.lendsAbove) {
    endLastBatch()
    spill.spillDownTo(budget.share / 2)
    if (reservedBytes - arena.reservedBytes > budget.share / 2) spill.spillSlotsDownTo(budget.share / 4)
    if (mayRelocate) compact()
    arena.releaseEmptyChunks()
  }

  /**
   * More than half of a large arena is unused, in slots of sizes that are not asked for; or of a
   * smaller one, and the budget needs it. The records have to fit twice while they are copied.
   */
  private def mayCompact: Boolean = mayRelocate &&
    arena.reservedBytes > (if (isRelieving) SmallArena else CompactionMinimum) &&
    arena.liveBytes * 2 < arena.reservedBytes

  private def mayRelocate: Boolean = frozen == null || frozen.isPastRecords

  private def compact(): Unit = {
    spill.beforeRelocation()
    val target = newArena()
    if (target.prepare(arena)) {
      byName.values.foreach(_.relocate(target))
      arena.close()
      arena = target
    }
  }
}

object StateTable {
  private val CompactionMinimum = 32L << 20
  private val SmallArena = 1L << 20
  private val SmallRest = 64L << 10

  /** A version of the state, and which of the possible histories led to it. */
  final case class Position(version: Long, lineage: Long)

  private final case class AppliedBatch(
      before: Position, families: Map[String, Family], changes: Changes)
}
