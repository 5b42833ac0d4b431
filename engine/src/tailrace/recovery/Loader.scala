package tailrace.recovery

import java.io.IOException

import org.apache.spark.unsafe.Platform
import org.slf4j.LoggerFactory

import tailrace.errors._
import tailrace.files.{FileNames, PackShelf, StateFolder}
import tailrace.format.{FileHeader, FileKind, ReadErrors, SnapshotBlocks, SnapshotIndex}
import tailrace.format.StateFileReader
import tailrace.layout.NodeChain
import tailrace.store.{Change, Family, FamilyKind, Lineage, StateTable}
import tailrace.store.StateTable.Position

/**
 * Brings a version back from the checkpoint file system.
 *
 * Steps:
 *  1. Plan ([[Planner]]): a snapshot, or the beginning, and the changes that lead from there to the
 *     version.
 *  2. Empty the table and read the snapshot into it; or, lazily, its index, and leave the records that
 *     can wait where they are.
 *  3. Replay the changes in order.
 *  4. If a file turns out to be damaged or deleted on the way: back to 1., without that file. Older
 *     files may lead to the same version; the load fails when no complete chain is left.
 *
 * Invariants: the files that are combined form one chain, each naming its parent's lineage. A copy
 * on this machine is read in place of a file only after its lineage was compared with the
 * checkpoint's and all its checksums were verified; the checkpoint is the truth.
 */
final class Loader(
    folder: StateFolder, packs: PackShelf, names: FileNames, withLineage: Boolean, store: String) {
  import Loader._

  private val planner = new Planner(folder, packs, names, withLineage, store)

  /**
   * @param isLazy  whether records of the snapshot that are looked up by key only stay in it until
   *                they are needed ([[tailrace.store.PendingBlocks]])
   * @param damaged is called with each version whose snapshot turned out not to be usable
   */
  def load(table: StateTable, version: Long, lineage: Option[Long], isLazy: Boolean = false)(
      damaged: Long => Unit): Loaded = {
    val trouble = new Trouble(store)
    try {
      val loaded = untilComplete(version, lineage, trouble) { plan =>
        tryToLoad(table, plan, isLazy, trouble)
      }
      if (table.isPartial) {
        val at = Position(table.version, table.lineage)
        table.settle(loaded.rows)(error => rescue(table, at, error)(damaged))
      }
      if (trouble.size > 0) {
        log.warn(s"Version $version of $store was loaded without ${trouble.files.mkString(", ")}.")
      }
      loaded
    } catch {
      case error: CheckpointError => throw SetBack.named(error, setBack(version, trouble))
    } finally {
      trouble.files.flatMap(file => FileNames.parse(file.substring(file.lastIndexOf('/') + 1)))
        .filter(_.kind == FileKind.Snapshot).foreach(file => damaged(file.version))
    }
  }

  /**
   * Reads every file that a load would read, to its end, and loads nothing; throws the errors of the
   * load. The checkpoint's own files count, not copies on this machine.
   */
  def verify(version: Long, lineage: Option[Long]): Unit = {
    val trouble = new Trouble(store)
    untilComplete(version, lineage, trouble) { plan =>
      if (plan.files.forall(file => trouble.in(file.name)(verify(file)).nonEmpty)) Some(plan)
      else None
    }
  }

  /**
   * The snapshot in which records were left cannot be read. They come from the other files that lead
   * to the same version, if there are any; otherwise the error is that of a load without the snapshot.
   */
  private def rescue(table: StateTable, at: Position, error: CheckpointError)(
      damaged: Long => Unit): Unit = {
    log.warn(s"The rest of the state of $store is loaded from other files. ${error.problem} " +
      error.because)
    val other = table.another()
    try {
      load(other, at.version, Some(at.lineage))(damaged)
      table.bringFrom(other)
    } finally other.close()
  }

  private def verify(file: PlannedFile): Unit = file.reading(local = false)(_.verify())

  /** The lineage that the changes of the version after this one continue, if they can be read. */
  def continuedBy(next: Long): Option[Long] = planner.parentOf(next)

  private def untilComplete[T](version: Long, lineage: Option[Long], trouble: Trouble)(
      attempt: Plan => Option[T]): T = {
    var complete = attempt(planner.plan(version, lineage, trouble))
    while (complete.isEmpty) complete = attempt(planner.plan(version, lineage, trouble))
    complete.get
  }

  /**
   * How the query can be set back to the newest version before this one that has a chain of files,
   * as far as names and headers tell; the command itself reads them all.
   */
  private def setBack(version: Long, trouble: Trouble): SetBack = {
    val checkpoint =
      if (packs.path.endsWith(CheckpointEnd)) packs.path.stripSuffix(CheckpointEnd)
      else SetBack.Anywhere.checkpoint
    val earlier = Iterator.range(version - 1, math.max(0L, version - 1 - EarlierVersions), -1L)
    SetBack(checkpoint, earlier.find(hasChain(_, trouble)).map(_ - 1))
  }

  private def hasChain(version: Long, trouble: Trouble): Boolean =
    try planner.plan(version, None, trouble).files.nonEmpty catch {
      case _: IOException => false
    }

  /** None: a file of the plan is in trouble. */
  private def tryToLoad(
      table: StateTable, plan: Plan, isLazy: Boolean, trouble: Trouble): Option[Loaded] = {
    table.reset(Position(0L, Lineage.Empty))
    var local = 0
    val rows = sizesOf(plan, trouble)
    val isComplete = rows.exists { finalRows =>
      plan.files.forall { file =>
        trouble.in(file.name) {
          val leaves = isLazy && file.kind == FileKind.Snapshot
          val isLocal = if (leaves) leave(table, file, finalRows) else read(table, file, finalRows)
          if (isLocal) local += 1
        }.nonEmpty
      }
    }
    if (!isComplete) {
      None
    } else {
      Some(Loaded(
        snapshotVersion = plan.base.map(_.version),
        snapshotBytes = plan.base.map(_.length).getOrElse(0L),
        changesBytes = plan.changes.map(_.length).sum,
        changesFiles = plan.changes.size,
        localFiles = local,
        passedOver = trouble.size,
        rows = rows.get))
    }
  }

  /** Tables are made in the size they will have in the end, not in that of the snapshot. */
  private def sizesOf(plan: Plan, trouble: Trouble): Option[Map[Int, Long]] =
    plan.files.lastOption.fold(Option(Map.empty[Int, Long])) { last =>
      trouble.inHeader(last.name)(last.header).map { header =>
        header.families.map(entry => entry.id -> entry.rows).toMap
      }
    }

  /** Reads a file into the table; returns whether a copy on this machine served. */
  private def read(table: StateTable, file: PlannedFile, finalRows: Map[Int, Long]): Boolean = {
    val local = file.hasGoodLocalCopy
    file.reading(local)(replay(table, file, finalRows, _))
    local
  }

  /** As `read`, of a snapshot, whose records stay where they are if they can wait. */
  private def leave(table: StateTable, file: PlannedFile, finalRows: Map[Int, Long]): Boolean =
    leaveCopy(table, file, finalRows) || (file.openBlocks() match {
      case Some(blocks) =>
        leave(table, blocks, finalRows)
        false
      case None => read(table, file, finalRows) // it has no index
    })

  private def leaveCopy(
      table: StateTable, file: PlannedFile, finalRows: Map[Int, Long]): Boolean =
    file.openLocalBlocks().exists { blocks =>
      try {
        leave(table, blocks, finalRows)
        true
      } catch {
        case error: CheckpointError =>
          log.warn(s"The local copy of ${file.name} is not used. ${error.because}")
          table.reset(Position(0L, Lineage.Empty))
          false
      }
    }

  /** Reads the index of a snapshot, and of its blocks those alone that cannot wait. */
  private def leave(table: StateTable, blocks: SnapshotBlocks, finalRows: Map[Int, Long]): Unit = try {
    val header = blocks.header
    val waiting = blocks.index.sections.filter(_.byHash).groupBy(_.family)
    header.families.foreach { entry =>
      val family = addFamily(table, entry)
      waiting.get(entry.id) match {
        case Some(sections) if family.canWait =>
          blocks.share()
          table.leave(family, blocks, sections)
        case _ => reserve(family, entry, finalRows)
      }
    }
    val replay = new Replay(table, blocks.name, isSnapshot = true)
    blocks.index.sections.filterNot(section => isLeft(table, section)).foreach { section =>
      var block = 0
      while (block < section.size) {
        blocks.read(section, block, block + 1)((_, found) => found.foreach(replay))
        block += 1
      }
    }
    table.loadedTo(Position(header.version, header.lineage))
  } finally {
    blocks.close()
  }

  private def isLeft(table: StateTable, section: SnapshotIndex.Section): Boolean =
    section.byHash && Option(table.familyOf(section.family)).exists(_.isPartial)

  private def addFamily(table: StateTable, entry: FileHeader.FamilyEntry): Family =
    table.addFamily(entry.id, entry.name, FamilyKind.of(entry.shape))

  private def reserve(
      family: Family, entry: FileHeader.FamilyEntry, finalRows: Map[Int, Long]): Unit =
    family.layout.reserve(math.max(entry.rows, finalRows.getOrElse(entry.id, 0L)))

  private def replay(
      table: StateTable, file: PlannedFile, finalRows: Map[Int, Long],
      reader: StateFileReader): Unit = {
    val header = reader.header
    header.families.filter(entry => table.familyOf(entry.id) == null).foreach { entry =>
      reserve(addFamily(table, entry), entry, finalRows)
    }
    reader.foreachEntry(new Replay(table, file.name, header.kind == FileKind.Snapshot))
    val living = header.families.filterNot(_.dropped).map(_.id).toSet
    table.allFamilies.filterNot(family => living(family.id)).foreach(table.forgetFamily)
    table.loadedTo(Position(header.version, header.lineage))
  }
}

object Loader {
  private val CheckpointEnd = "/state/tailrace"
  /** In how many versions before a damaged one a whole one is looked for. */
  private val EarlierVersions = 20L
  private val log = LoggerFactory.getLogger(classOf[Loader])

  /**
   * @param passedOver how many files were damaged or missing, and not needed after all
   * @param rows       by family, the number of its keys
   */
  final case class Loaded(
      snapshotVersion: Option[Long],
      snapshotBytes: Long,
      changesBytes: Long,
      changesFiles: Int,
      localFiles: Int,
      passedOver: Int,
      rows: Map[Int, Long])
}

/** Puts the entries of a file into a table. */
private final class Replay(table: StateTable, file: String, isSnapshot: Boolean)
  extends StateFileReader.Visitor {
  private val arena = table.memory
  private var bytes = 0L

  override def apply(
      kind: Int, familyId: Int, base: Array[Byte], key: Long, keyLength: Int, value: Long,
      valueLength: Int): Unit = {
    val family = table.familyOf(familyId)
    if (family == null) throw new CorruptFile(file, s"it names an unknown family $familyId")
    bytes += keyLength + valueLength
    if (bytes > Replay.BytesBetweenLooks) {
      // A failed spill to this machine's disk is not this file's fault.
      try table.makeRoom() catch {
        case error: IOException => throw new ReadErrors.NotTheFile(error)
      }
      bytes = 0L
    }
    kind match {
      case Change.Put if isSnapshot =>
        family.loadNew(arena, base, key, keyLength, value, valueLength)
      case Change.Put => family.loadPut(arena, base, key, keyLength, value, valueLength)
      case Change.Remove => family.loadRemove(arena, base, key, keyLength)
      case Change.Append => family.loadAppend(arena, base, key, keyLength, value, valueLength)
      case Change.PutList =>
        val chain = new NodeChain(arena)
        var at = value
        while (at < value + valueLength) {
          val length = Platform.getInt(base, at)
          chain.add(base, at + 4, length)
          at += 4 + length
        }
        family.loadPutList(arena, base, key, keyLength, chain)
      case other => throw new CorruptFile(file, s"it has an entry of kind $other")
    }
  }
}

private object Replay {
  /** After so much it is seen to it that the state still fits into memory. */
  private val BytesBetweenLooks = 256L << 10
}
