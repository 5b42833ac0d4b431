package tailrace.store

import tailrace.cold.{ColdLog, ColdStorage, Leaves}
import tailrace.memory.{AddressList, Arena, Budget}

/**
 * The live state of one store: all its column families at one version, the changes of the batch
 * that is running, and those of the last one, by which it can be taken back.
 *
 * A batch, step by step:
 *  1. `begin`: the last batch becomes final; the slots of what it replaced are free for use.
 *  2. Families record every change in `changes`.
 *  3. `apply`: the changes become the new version (applied), with its place in the lineage.
 *  or `rollback`: nothing has happened.
 *  4. `revert`, instead of 1: the last batch is taken back, because Spark runs it again.
 *
 * @param planOf by a family's name, what the query's plan says of it
 * @param cold   where state goes that does not fit into memory
 *
 * Invariants: one thread at a time. No slot is freed while a batch runs, so rows handed out stay
 * readable until the task is over; none is freed that an unfinished [[Image]] shows.
 */
final class StateTable(
    budget: Budget, planOf: String => PlannedFamily = _ => PlannedFamily.Unknown,
    cold: ColdStorage = ColdStorage.default) {
  import StateTable._

  private val log = new ColdLog(cold)

  private var arena = new Arena(budget)
  private var byName = Map.empty[String, Family]
  private val byId = new scala.collection.mutable.ArrayBuffer[Family] // null where one is gone
  private var current = new Changes(budget)
  private var spare: Changes = null // an emptied list: its memory serves the next batch
  private var familiesBefore = byName
  private var last: AppliedBatch = null
  private var image: Image = null
  private val waitingForImage = new scala.collection.mutable.ArrayBuffer[Changes]
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
      id, name, kind, budget, planOf(name), log, () => arena, cold)
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
    if (last != null) {
      retire(last.changes)
      last = null
    }
    settleImage()
    if (waitingForImage.isEmpty) forgetDroppedFamilies()
    byName.valuesIterator.foreach(_.settle())
    expect(arena.allocatedBytes - allocatedBefore)
    if (mayCompact) compact()
    val started = System.nanoTime()
    makeRoom()
    val left = System.nanoTime()
    clean()
    leaveNanos = left - started
    cleanNanos = System.nanoTime() - left
    allocatedBefore = arena.allocatedBytes
    familiesBefore = byName
  }

  // ---- more state than memory

  def coldLog: ColdLog = log

  /** What the last `begin` took for state to leave memory, and for cleaning the log. */
  var leaveNanos = 0L
  var cleanNanos = 0L

  /** What the last batch took, and the next is expected to take. */
  private var need = 0L
  private var allocatedBefore = 0L

  private def expect(bytes: Long): Unit = {
    budget.expect(bytes - need)
    need = bytes
  }

  /**
   * If memory is short, a part of the state leaves it, so that a quarter of the arena, and more than
   * the last batch took, is free for the next one. Nothing can be undone now. Lists go first: they
   * are not read until their time.
   */
  def makeRoom(): Unit = cold.leaves match {
    case Leaves.Always => leave(Long.MaxValue)
    case Leaves.WhenTight if budget.isTight =>
      awaitImage()
      val unused = arena.reservedBytes - arena.liveBytes
      leave(math.max(arena.reservedBytes * FreePart, need * Margin).toLong - unused)
    case _ =>
  }

  /** What a snapshot that is being written shows cannot be freed. */
  private def awaitImage(): Unit = if (image != null) {
    image.await()
    settleImage()
  }

  private def leave(bytes: Long): Unit = if (bytes > 0) {
    var wanted = bytes
    val freed = if (spare != null) spare else new Changes(budget)
    spare = null
    byName.values.toSeq.sortBy(family => (!family.kind.multiValue, family.id))
      .foreach(family => wanted -= family.cold.leave(wanted, freed))
    log.flush()
    retire(freed)
  }

  /** Writes what lives in the emptiest segments once more, some megabytes of it. */
  private def clean(): Unit = {
    var turns = CleaningTurns
    var segment = log.segmentToClean
    while (turns > 0 && segment.isDefined) {
      log.entriesOf(segment.get).foreach { case (ref, entry) =>
        val family = familyOf(entry.family)
        if (family != null) family.cold.keep(ref, entry)
      }
      log.flush()
      turns -= 1
      segment = log.segmentToClean
    }
  }

  /** The running batch's changes become the next version. */
  def apply(newLineage: Long): Unit = {
    current.settle()
    last = AppliedBatch(position, familiesBefore, current)
    position = Position(position.version + 1, newLineage)
    current = if (spare != null) spare else new Changes(budget)
    spare = null
  }

  def rollback(): Unit = {
    current.undo(arena, familyOf)
    byName = familiesBefore
  }

  def revert(): Unit = {
    require(last != null, "there is no applied batch to take back")
    // A picture of the version that is taken back would show records that are freed here.
    if (image != null && image.version == position.version) image.cancelAndWait()
    settleImage()
    last.changes.undo(arena, familyOf)
    last.changes.close()
    byName = last.families
    position = last.before
    last = null
  }

  // ---- pictures for snapshots

  /** Freezes the applied version, unless an earlier picture is still being written. */
  def freeze(): Option[Image] = {
    settleImage()
    if (image != null) return None
    val parts = byName.values.toSeq.sortBy(_.id).map { family =>
      val records = new AddressList(budget)
      family.layout.copyTo(records)
      Image.Part(family, records)
    }
    image = new Image(position.version, position.lineage, parts)
    log.pin()
    Some(image)
  }

  // ---- replacing and ending

  /** Empties the table; what is loaded into it next gets the given position. */
  def reset(to: Position): Unit = {
    release()
    arena = new Arena(budget)
    byName = Map.empty
    byId.clear()
    current = new Changes(budget)
    familiesBefore = byName
    position = to
  }

  /** Where what was loaded from files has led: it cannot be undone, only loaded again. */
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

  def close(): Unit = release()

  private def release(): Unit = {
    if (image != null) {
      image.cancelAndWait()
      forgetImage()
    }
    waitingForImage.foreach(_.close())
    waitingForImage.clear()
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
    log.clear()
    expect(0L)
    allocatedBefore = 0L
  }

  private def retire(changes: Changes): Unit = {
    settleImage()
    if (image == null) freeAndReuse(changes) else waitingForImage += changes
  }

  private def forgetImage(): Unit = {
    image.close()
    image = null
    log.unpin()
  }

  private def settleImage(): Unit = if (image != null && image.isDone) {
    forgetImage()
    waitingForImage.foreach(freeAndReuse)
    waitingForImage.clear()
  }

  private def freeAndReuse(changes: Changes): Unit = {
    changes.freeReplaced(arena, familyOf)
    if (spare == null) spare = changes else changes.close()
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

  /** More than half of a large arena is unused, in slots of sizes that are not asked for. */
  private def mayCompact: Boolean =
    image == null && arena.reservedBytes > CompactionMinimum &&
      arena.liveBytes * 2 < arena.reservedBytes

  private def compact(): Unit = {
    val target = new Arena(budget)
    byName.values.foreach(_.relocate(target))
    arena.close()
    arena = target
  }
}

object StateTable {
  private val CompactionMinimum = 32L << 20
  private val FreePart = 0.25
  private val Margin = 1.5
  /** Segments that are emptied between two batches at the most. */
  private val CleaningTurns = 4

  /** A version of the state, and which of the possible histories led to it. */
  final case class Position(version: Long, lineage: Long)

  private final case class AppliedBatch(
      before: Position, families: Map[String, Family], changes: Changes)
}
