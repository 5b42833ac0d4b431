package tailrace.recovery

import java.io.{EOFException, FileNotFoundException, IOException, InputStream}

import org.apache.spark.unsafe.Platform
import org.slf4j.LoggerFactory

import tailrace.errors._
import tailrace.files.{FileNames, PackShelf, StateFolder}
import tailrace.format.{FileHeader, FileKind, StateFileReader}
import tailrace.layout.NodeChain
import tailrace.store.{Change, Lineage, StateTable}
import tailrace.store.StateTable.Position

/**
 * Brings a version back from the checkpoint file system.
 *
 * Steps:
 *  1. Plan: from the wanted version's changes back to the newest snapshot that belongs to the same
 *     lineage, or to the beginning. A version's changes are a part of a pack or a file of their own.
 *  2. Empty the table and read the snapshot into it.
 *  3. Replay the changes in order.
 *
 * Invariants: the files that are combined form one chain, each naming its parent's lineage. A
 * snapshot of another run of a batch is passed over; a changes file of one is an error. A copy on
 * this machine is read in place of a file only after its lineage was compared with the checkpoint's
 * and all its checksums were verified; the checkpoint is the truth.
 */
final class Loader(
    folder: StateFolder, packs: PackShelf, names: FileNames, withLineage: Boolean, store: String) {
  import Loader._

  def load(table: StateTable, version: Long, lineage: Option[Long]): Loaded = {
    val plan = planFor(version, lineage)
    table.reset(Position(0L, Lineage.Empty))
    // Tables are made in the size they will have in the end, not in that of the snapshot.
    val finalRows = (plan.changes.lastOption ++ plan.base).headOption.toSeq
      .flatMap(_.header.families).map(entry => entry.id -> entry.rows).toMap
    val planned = plan.base.toSeq ++ plan.changes
    val local = planned.map(read(table, _, finalRows)).count(identity)
    Loaded(
      snapshotVersion = plan.base.map(_.version),
      snapshotBytes = plan.base.map(_.length).getOrElse(0L),
      changesBytes = plan.changes.map(_.length).sum,
      changesFiles = plan.changes.size,
      localFiles = local)
  }

  // ---- 1. the plan

  private def planFor(version: Long, lineage: Option[Long]): Plan = {
    val listed = folder.list()
    val shelf = packs.list()
    val lengths = listed.iterator.map(entry => entry.name -> entry.length).toMap
    var changes = List.empty[PlannedFile]
    var expected = lineage
    var at = version
    while (at > 0) {
      val wanted = expected.orElse(onlyLineageOf(at, listed))
      val own = packed(at, expected, shelf).orElse(
        planned(names(FileKind.Changes, at, wanted.getOrElse(0L)), FileKind.Changes, at, lengths))
      own.foreach(verifyLineage(expected, _))
      val known = expected.orElse(own.map(_.lineage))
      snapshotAt(at, known, wanted.orElse(known), lengths) match {
        case Some(snapshot) => return Plan(Some(snapshot), changes)
        case None =>
          val file = own.getOrElse(throw missing(version, at, listed, shelf.keySet))
          changes = file :: changes
          expected = Some(file.parentLineage)
          at -= 1
      }
    }
    expected.filter(_ != Lineage.Empty).foreach { _ =>
      throw new BrokenLineage(changes.head.name,
        "It continues a state that is not the empty one, but no file of that state is there.")
    }
    Plan(None, changes)
  }

  private def snapshotAt(
      version: Long, known: Option[Long], wanted: Option[Long],
      lengths: Map[String, Long]): Option[PlannedFile] =
    planned(names(FileKind.Snapshot, version, wanted.getOrElse(0L)), FileKind.Snapshot, version,
      lengths).filter(snapshot => known.forall(_ == snapshot.lineage))

  /** A file of the store's own. */
  private def planned(
      name: String, kind: FileKind, version: Long,
      lengths: Map[String, Long]): Option[PlannedFile] =
    lengths.get(name).map { length =>
      val file = new PlannedFile(folder.nameOf(name), length, kind, version,
        () => folder.open(name), () => folder.openLocalCopy(name))
      file.header // a file that is not what it should be is noticed before anything is loaded
      file
    }

  /** The store's part of a pack. Which one counts is known by lineage, or there is only one. */
  private def packed(
      version: Long, expected: Option[Long],
      shelf: Map[Long, Seq[PackShelf.Pack]]): Option[PlannedFile] = {
    val found = for {
      pack <- shelf.getOrElse(version, Nil)
      entry <- pack.header.entries if entry.store == store
    } yield pack -> entry
    val fitting = expected.fold(found)(lineage => found.filter(_._2.lineage == lineage))
    if (fitting.map(_._2.lineage).distinct.size > 1) {
      throw new BrokenLineage(s"${packs.path}/${fitting.head._1.name}",
        s"Version $version of $store is in ${fitting.size} packs of different runs.")
    }
    fitting.headOption.orElse(found.headOption).map { case (pack, entry) =>
      new PlannedFile(s"${packs.path}/${pack.name}", entry.length, FileKind.Changes, version,
        () => pack.open(entry), () => pack.openLocalCopy(entry),
        Some(entry.lineage -> entry.parentLineage))
    }
  }

  /** The lineage in the names of a version's files, if nobody told and there is only one. */
  private def onlyLineageOf(version: Long, listed: Seq[StateFolder.Entry]): Option[Long] =
    if (!withLineage) {
      None
    } else {
      val found = listed.flatMap(entry => FileNames.parse(entry.name))
        .filter(_.version == version).flatMap(_.lineage).distinct
      if (found.size > 1) {
        throw new BrokenLineage(folder.nameOf(s"${version}_*"),
          s"Version $version has ${found.size} files of different runs, and which one counts was " +
            "not said.")
      }
      found.headOption
    }

  private def verifyLineage(expected: Option[Long], file: PlannedFile): Unit =
    expected.filter(_ != file.lineage).foreach { lineage =>
      throw new BrokenLineage(file.name,
        s"The version after it, or the query, continues lineage ${Lineage.name(lineage)}; this " +
          s"file has ${Lineage.name(file.lineage)}.")
    }

  private def missing(
      version: Long, at: Long, listed: Seq[StateFolder.Entry],
      packed: collection.Set[Long]): CheckpointError = {
    val versions = listed.flatMap(entry => FileNames.parse(entry.name)).map(_.version) ++ packed
    val other = listed.flatMap(entry => FileNames.otherStore(entry.name).map(entry.name -> _))
    if (versions.isEmpty && other.nonEmpty) {
      val (name, writer) = other.head
      new ForeignFile(folder.nameOf(name), s"The checkpoint was written by $writer.")
    } else {
      val name =
        if (packed.isEmpty) folder.nameOf(s"$at${FileKind.Changes.suffix}")
        else s"${packs.path}/$at-*.pack.tr"
      val present =
        if (versions.isEmpty) "no state file at all"
        else s"files of the versions ${versions.min} to ${versions.max}"
      new MissingFile(name,
        s"It is needed to load version $version of $store; there is $present. Versions older than " +
          "spark.sql.streaming.minBatchesToRetain are cleaned up.")
    }
  }

  // ---- 2. and 3. reading

  /** Reads a file into the table; returns whether a copy on this machine served. */
  private def read(table: StateTable, file: PlannedFile, finalRows: Map[Int, Long]): Boolean = {
    val local = file.hasGoodLocalCopy
    file.reading(local)(replay(table, file, finalRows, _))
    local
  }

  private def replay(
      table: StateTable, file: PlannedFile, finalRows: Map[Int, Long],
      reader: StateFileReader): Unit = {
    val header = reader.header
    header.families.filter(entry => table.familyOf(entry.id) == null).foreach { entry =>
      val family = table.addFamily(entry.id, entry.name, entry.kind)
      family.layout.reserve(math.max(entry.rows, finalRows.getOrElse(entry.id, 0L)))
    }
    val snapshot = header.kind == FileKind.Snapshot
    val arena = table.memory
    var bytes = 0L
    reader.foreachEntry { (kind, familyId, base, key, keyLength, value, valueLength) =>
      val family = table.familyOf(familyId)
      if (family == null) throw new CorruptFile(file.name, s"it names an unknown family $familyId")
      bytes += keyLength + valueLength
      if (bytes > BytesBetweenLooks) {
        table.makeRoom()
        bytes = 0L
      }
      kind match {
        case Change.Put if snapshot =>
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
        case other => throw new CorruptFile(file.name, s"it has an entry of kind $other")
      }
    }
    val living = header.families.filterNot(_.dropped).map(_.id).toSet
    table.allFamilies.filterNot(family => living(family.id)).foreach(table.forgetFamily)
    table.loadedTo(Position(header.version, header.lineage))
  }

  /** A file, or a part of a pack, that the plan counts on. */
  private final class PlannedFile(
      val name: String, val length: Long, kind: FileKind, val version: Long,
      open: () => InputStream, openLocalCopy: () => Option[InputStream],
      known: Option[(Long, Long)] = None) {

    lazy val header: FileHeader = reading(local = false)(_.header)

    def lineage: Long = known.fold(header.lineage)(_._1)

    def parentLineage: Long = known.fold(header.parentLineage)(_._2)

    def hasGoodLocalCopy: Boolean = try {
      openLocalCopy().exists { stream =>
        try {
          val reader = new StateFileReader(stream, name)
          val same = reader.header.lineage == lineage && reader.header.version == version &&
            reader.header.kind == kind && reader.header.store == store
          if (same) reader.verify()
          same
        } finally {
          stream.close()
        }
      }
    } catch {
      case error: Exception =>
        log.warn(s"The local copy of $name is not used: $error")
        false
    }

    def reading[T](local: Boolean)(body: StateFileReader => T): T =
      try {
        val stream = (if (local) openLocalCopy() else None).getOrElse(open())
        try {
          val reader = new StateFileReader(stream, name)
          verify(reader.header)
          body(reader)
        } finally {
          stream.close()
        }
      } catch {
        case error: CheckpointError => throw error
        case _: FileNotFoundException =>
          throw new MissingFile(name, "It was listed, but is gone: somebody deleted it meanwhile.")
        case error: EOFException => throw new CorruptFile(name, "It ends too early.", error)
        case error: IOException => throw new UnreadableFile(name, error)
        case error: RuntimeException if !error.isInstanceOf[EngineError] =>
          throw new CorruptFile(name, s"It cannot be decoded: $error", error)
      }

    private def verify(found: FileHeader): Unit = {
      if (found.store != store) {
        throw new ForeignFile(name, s"It belongs to the store ${found.store}; this is $store.")
      }
      if (found.version != version || found.kind != kind) {
        throw new CorruptFile(
          name, s"Its header says that it is the ${found.kind} of version ${found.version}.")
      }
      known.filter(_ != (found.lineage, found.parentLineage)).foreach { _ =>
        throw new CorruptFile(name, s"Its index and the part of $store do not agree.")
      }
    }
  }

  private final case class Plan(base: Option[PlannedFile], changes: List[PlannedFile])
}

object Loader {
  private val log = LoggerFactory.getLogger(classOf[Loader])
  /** After so much it is seen to it that the state still fits into memory. */
  private val BytesBetweenLooks = 256L << 10

  final case class Loaded(
      snapshotVersion: Option[Long],
      snapshotBytes: Long,
      changesBytes: Long,
      changesFiles: Int,
      localFiles: Int)
}
