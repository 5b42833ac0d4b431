package tailrace.recovery

import java.io.{EOFException, FileNotFoundException, IOException, InputStream}

import org.apache.spark.unsafe.Platform

import tailrace.errors._
import tailrace.files.{FileNames, StateFolder}
import tailrace.format.{FileHeader, FileKind, StateFileReader}
import tailrace.layout.NodeChain
import tailrace.store.{Change, Lineage, StateTable}
import tailrace.store.StateTable.Position

/**
 * Brings a version back from the checkpoint file system, and from nothing else.
 *
 * Steps:
 *  1. Plan: from the wanted version's changes file back to the newest snapshot that belongs to the
 *     same lineage, or to the beginning.
 *  2. Empty the table and read the snapshot into it.
 *  3. Replay the changes files in order.
 *
 * Invariant: the files that are combined form one chain, each naming its parent's lineage. A
 * snapshot of another run of a batch is passed over; a changes file of one is an error.
 */
final class Loader(folder: StateFolder, names: FileNames, withLineage: Boolean, store: String) {
  import Loader._

  def load(table: StateTable, version: Long, lineage: Option[Long]): Loaded = {
    val plan = planFor(version, lineage)
    table.reset(Position(0L, Lineage.Empty))
    // Tables are made in the size they will have in the end, not in that of the snapshot.
    val finalRows = (plan.changes.lastOption ++ plan.base).headOption.toSeq
      .flatMap(_.header.families).map(entry => entry.id -> entry.rows).toMap
    plan.base.foreach(file => read(table, file, finalRows))
    plan.changes.foreach(file => read(table, file, finalRows))
    Loaded(
      snapshotVersion = plan.base.map(_.header.version),
      snapshotBytes = plan.base.map(_.length).getOrElse(0L),
      changesBytes = plan.changes.map(_.length).sum,
      changesFiles = plan.changes.size)
  }

  // ---- 1. the plan

  private def planFor(version: Long, lineage: Option[Long]): Plan = {
    val listed = folder.list()
    val lengths = listed.iterator.map(entry => entry.name -> entry.length).toMap
    var changes = List.empty[PlannedFile]
    var expected = lineage
    var at = version
    while (at > 0) {
      val wanted = expected.orElse(onlyLineageOf(at, listed))
      val own = planned(names(FileKind.Changes, at, wanted.getOrElse(0L)), FileKind.Changes, at,
        lengths)
      own.foreach(verifyLineage(expected, _))
      val known = expected.orElse(own.map(_.header.lineage))
      snapshotAt(at, known, wanted, lengths) match {
        case Some(snapshot) => return Plan(Some(snapshot), changes)
        case None =>
          val file = own.getOrElse(throw missing(version, at, listed))
          changes = file :: changes
          expected = Some(file.header.parentLineage)
          at -= 1
      }
    }
    expected.filter(_ != Lineage.Empty).foreach { _ =>
      throw new BrokenLineage(folder.nameOf(changes.head.name),
        "It continues a state that is not the empty one, but no file of that state is there.")
    }
    Plan(None, changes)
  }

  private def snapshotAt(
      version: Long, known: Option[Long], wanted: Option[Long],
      lengths: Map[String, Long]): Option[PlannedFile] =
    planned(names(FileKind.Snapshot, version, wanted.getOrElse(0L)), FileKind.Snapshot, version,
      lengths).filter(snapshot => known.forall(_ == snapshot.header.lineage))

  private def planned(
      name: String, kind: FileKind, version: Long,
      lengths: Map[String, Long]): Option[PlannedFile] =
    lengths.get(name).map { length =>
      val header = reading(name)(stream => new StateFileReader(stream, folder.nameOf(name)).header)
      if (header.store != store) {
        throw new ForeignFile(
          folder.nameOf(name), s"It belongs to the store ${header.store}; this is $store.")
      }
      if (header.version != version || header.kind != kind) {
        throw new CorruptFile(folder.nameOf(name),
          s"Its header says that it is the ${header.kind} of version ${header.version}.")
      }
      PlannedFile(name, length, header)
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
    expected.filter(_ != file.header.lineage).foreach { lineage =>
      throw new BrokenLineage(folder.nameOf(file.name),
        s"The version after it, or the query, continues lineage ${Lineage.name(lineage)}; this " +
          s"file has ${Lineage.name(file.header.lineage)}.")
    }

  private def missing(version: Long, at: Long, listed: Seq[StateFolder.Entry]): CheckpointError = {
    val versions = listed.flatMap(entry => FileNames.parse(entry.name)).map(_.version)
    val other = listed.flatMap(entry => FileNames.otherStore(entry.name).map(entry.name -> _))
    if (versions.isEmpty && other.nonEmpty) {
      val (name, writer) = other.head
      new ForeignFile(folder.nameOf(name), s"The checkpoint was written by $writer.")
    } else {
      val name = folder.nameOf(s"$at${FileKind.Changes.suffix}")
      val present =
        if (versions.isEmpty) "no state file at all"
        else s"files of the versions ${versions.min} to ${versions.max}"
      new MissingFile(name,
        s"It is needed to load version $version; the folder holds $present. Versions older than " +
          "spark.sql.streaming.minBatchesToRetain are cleaned up.")
    }
  }

  // ---- 2. and 3. reading

  private def read(
      table: StateTable, file: PlannedFile,
      finalRows: Map[Int, Long]): Unit = reading(file.name) { stream =>
    val reader = new StateFileReader(stream, folder.nameOf(file.name))
    file.header.families.filter(entry => table.familyOf(entry.id) == null).foreach { entry =>
      val family = table.addFamily(entry.id, entry.name, entry.kind)
      family.layout.reserve(math.max(entry.rows, finalRows.getOrElse(entry.id, 0L)))
    }
    val snapshot = file.header.kind == FileKind.Snapshot
    val arena = table.memory
    reader.foreachEntry { (kind, familyId, base, key, keyLength, value, valueLength) =>
      val family = table.familyOf(familyId)
      if (family == null) {
        throw new CorruptFile(folder.nameOf(file.name), s"it names an unknown family $familyId")
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
        case other =>
          throw new CorruptFile(folder.nameOf(file.name), s"it has an entry of kind $other")
      }
    }
    val living = file.header.families.filterNot(_.dropped).map(_.id).toSet
    table.allFamilies.filterNot(family => living(family.id)).foreach(table.forgetFamily)
    table.loadedTo(Position(file.header.version, file.header.lineage))
  }

  private def reading[T](name: String)(body: InputStream => T): T = {
    val file = folder.nameOf(name)
    try {
      val stream = folder.open(name)
      try body(stream) finally stream.close()
    } catch {
      case known: CheckpointError => throw known
      case _: FileNotFoundException =>
        throw new MissingFile(file, "It was listed, but is gone: somebody deleted it meanwhile.")
      case error: EOFException => throw new CorruptFile(file, "It ends too early.", error)
      case error: IOException => throw new UnreadableFile(file, error)
      case error: RuntimeException if !error.isInstanceOf[EngineError] =>
        throw new CorruptFile(file, s"It cannot be decoded: $error", error)
    }
  }
}

object Loader {
  private final case class PlannedFile(name: String, length: Long, header: FileHeader)

  private final case class Plan(base: Option[PlannedFile], changes: List[PlannedFile])

  final case class Loaded(
      snapshotVersion: Option[Long],
      snapshotBytes: Long,
      changesBytes: Long,
      changesFiles: Int)
}
