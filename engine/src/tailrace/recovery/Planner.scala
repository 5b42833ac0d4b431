package tailrace.recovery

import scala.collection.mutable

import tailrace.errors._
import tailrace.files.{FileNames, PackShelf, StateFolder}
import tailrace.format.{FileKind, LineageName, PackHeader}
import tailrace.store.Lineage

/** The files that lead to a version: a snapshot, or the empty state, and the changes since. */
private[recovery] final case class Plan(base: Option[PlannedFile], changes: List[PlannedFile]) {
  def files: Seq[PlannedFile] = base.toSeq ++ changes
}

/**
 * Finds the files that lead to a version: from its changes back to the newest snapshot that belongs
 * to the same lineage, or to the beginning. A version's changes are a part of a pack or a file of
 * their own.
 *
 * Invariants: the files of a plan form one chain, each naming its parent's lineage. A snapshot of
 * another run of a batch is passed over; changes of one are an error. A file that is in trouble is
 * passed over, and the other files have to be a chain without it. Which run of a version counts is
 * never concluded from a snapshot while the version's changes are there and cannot be read.
 */
private[recovery] final class Planner(
    folder: StateFolder, packs: PackShelf, names: FileNames, withLineage: Boolean, store: String) {

  def plan(version: Long, lineage: Option[Long], trouble: Trouble): Plan =
    new Walk(version, trouble).from(lineage)

  /** The parent's lineage in the changes of a version; None if there are none, or two that differ. */
  def parentOf(version: Long): Option[Long] = {
    val walk = new Walk(version, new Trouble(store))
    walk.changesAt(version).map(_.parentLineage).distinct match {
      case Seq(parent) => Some(parent)
      case _ => None
    }
  }

  private final class Walk(version: Long, trouble: Trouble) {
    private val listed = folder.list()
    private val shelf = packs.list()
    private val lengths = listed.iterator.map(entry => entry.name -> entry.length).toMap
    private val opened = mutable.Map.empty[String, Option[PlannedFile]]

    def from(lineage: Option[Long]): Plan = {
      var changes = List.empty[PlannedFile]
      var expected = lineage
      var at = version
      while (at > 0) {
        val (snapshot, ownChanges) = stepTo(at, expected)
        if (snapshot.nonEmpty) return Plan(snapshot, changes)
        val file = ownChanges.getOrElse {
          throw noChain(if (changesInTrouble(at)) None else Some(missing(at)))
        }
        changes = file :: changes
        expected = Some(file.parentLineage)
        at -= 1
      }
      expected.filter(_ != Lineage.Empty).foreach { _ =>
        throw noChain(Some(new BrokenLineage(changes.head.name,
          "It continues a state that is not the empty one, but no file of that state is there.")))
      }
      Plan(None, changes)
    }

    /** A version's snapshot or, if there is none that can be used, its changes. */
    private def stepTo(
        at: Long, expected: Option[Long]): (Option[PlannedFile], Option[PlannedFile]) = {
      val said = expected.orElse(lineageOf(at))
      // A version without changes was cleaned up to its snapshot; changes that cannot be read may
      // be of another run than the snapshot.
      val snapshot =
        if (said.isEmpty && changesInTrouble(at)) None
        else snapshotAt(at, said)
      if (snapshot.nonEmpty) (snapshot, None) else (None, said.flatMap(changesOf(at, _)))
    }

    /** Which run of a version counts, where no later version says it: that of its changes. */
    private def lineageOf(at: Long): Option[Long] = {
      val named = onlyLineageOf(at)
      val parts = packed(at, None)
      if (shelf.getOrElse(at, Nil).exists(pack => trouble.concernsHeader(nameOf(pack)))) {
        None // a changes file may be older than the pack
      } else {
        parts.headOption.orElse(changesFile(at, named)).map(_.lineage).orElse(named)
      }
    }

    private def changesInTrouble(at: Long): Boolean = {
      val own = listed.map(_.name).filter(name =>
        FileNames.parse(name).exists(file => file.version == at && file.kind == FileKind.Changes))
      (own.map(folder.nameOf) ++ shelf.getOrElse(at, Nil).map(nameOf)).exists(trouble.concerns)
    }

    // ---- a version's files

    /** All changes of a version, of all runs. */
    def changesAt(at: Long): Seq[PlannedFile] = {
      val lineages = listed.flatMap(entry => FileNames.parse(entry.name))
        .filter(file => file.version == at && file.kind == FileKind.Changes).map(_.lineage)
      val files = lineages.flatMap(changesFile(at, _))
      partsOf(at).map { case (pack, entry) => planned(at, pack, entry) } ++ files
    }

    /** The changes of the run that counts. Equal lineages are equal changes: any copy will do. */
    private def changesOf(at: Long, lineage: Long): Option[PlannedFile] = {
      val found = (packed(at, Some(lineage)) ++ changesFile(at, Some(lineage)))
        .filterNot(file => trouble.concerns(file.name))
      found.find(_.lineage == lineage).orElse {
        found.headOption.foreach { other =>
          throw noChain(Some(new BrokenLineage(other.name,
            s"The version after it, or the query, continues lineage ${LineageName(lineage)}; " +
              s"this file has ${LineageName(other.lineage)}.")))
        }
        None
      }
    }

    /** @param lineage None: the version has no changes any more, which could say it */
    private def snapshotAt(at: Long, lineage: Option[Long]): Option[PlannedFile] =
      own(FileKind.Snapshot, at, lineage).filter(file =>
        lineage.forall(_ == file.lineage) && !trouble.concerns(file.name))

    private def changesFile(at: Long, lineage: Option[Long]): Option[PlannedFile] =
      own(FileKind.Changes, at, lineage)

    /** A file of the store's own, with a header that was read and fits. */
    private def own(kind: FileKind, at: Long, lineage: Option[Long]): Option[PlannedFile] = {
      val name = names(kind, at, lineage.getOrElse(0L))
      opened.getOrElseUpdate(name, open(name, kind, at))
    }

    private def open(name: String, kind: FileKind, at: Long): Option[PlannedFile] = {
      val full = folder.nameOf(name)
      lengths.get(name).filterNot(_ => trouble.concernsHeader(full)).flatMap { length =>
        val file = new PlannedFile(full, length, kind, at, store,
          () => folder.open(name), () => folder.openLocalCopy(name),
          openAt = () => folder.openAt(name, length),
          openLocalCopyAt = () => folder.openLocalCopyAt(name))
        // A file whose header does not fit its name is noticed before any file is loaded.
        trouble.inHeader(full)(file.header).map(_ => file)
      }
    }

    /** The store's parts of the version's packs: those of the lineage, if there are any. */
    private def packed(at: Long, expected: Option[Long]): Seq[PlannedFile] = {
      val found = partsOf(at)
      val fitting = expected.fold(found)(lineage => found.filter(_._2.lineage == lineage))
      if (fitting.map(_._2.lineage).distinct.size > 1) {
        throw noChain(Some(new BrokenLineage(nameOf(fitting.head._1),
          s"Version $at of $store is in ${fitting.size} packs of different runs.")))
      }
      (if (fitting.nonEmpty) fitting else found).map { case (pack, entry) =>
        planned(at, pack, entry)
      }
    }

    private def partsOf(at: Long): Seq[(PackShelf.Pack, PackHeader.Entry)] = for {
      pack <- shelf.getOrElse(at, Nil)
      if !trouble.concernsHeader(nameOf(pack))
      header <- trouble.inHeader(nameOf(pack))(pack.header).toSeq
      entry <- header.entries if entry.store == store
    } yield pack -> entry

    private def planned(at: Long, pack: PackShelf.Pack, entry: PackHeader.Entry): PlannedFile =
      new PlannedFile(nameOf(pack), entry.length, FileKind.Changes, at, store,
        () => pack.open(entry), () => pack.openLocalCopy(entry),
        Some(entry.lineage -> entry.parentLineage))

    private def nameOf(pack: PackShelf.Pack): String = s"${packs.path}/${pack.name}"

    /** The lineage in the names of a version's files, if there is only one. */
    private def onlyLineageOf(at: Long): Option[Long] =
      if (!withLineage) {
        None
      } else {
        val found = listed.flatMap(entry => FileNames.parse(entry.name))
          .filter(_.version == at).flatMap(_.lineage).distinct
        if (found.size > 1) {
          throw noChain(Some(new BrokenLineage(folder.nameOf(s"${at}_*"),
            s"Version $at has ${found.size} files of different runs, and which one counts was " +
              "not said.")))
        }
        found.headOption
      }

    // ---- why there is no plan

    private def noChain(reason: Option[CheckpointError]): CheckpointError =
      trouble.orElse(reason, listed.flatMap(entry => FileNames.otherStore(entry.name)).headOption)

    private def missing(at: Long): CheckpointError = {
      val versions =
        listed.flatMap(entry => FileNames.parse(entry.name)).map(_.version) ++ shelf.keys
      val other = listed.flatMap(entry => FileNames.otherStore(entry.name).map(entry.name -> _))
      val inItsPlace = folder.folders().filter(FileNames.parse(_).exists(_.version == at))
        .map(folder.nameOf) ++ packs.folders().filter(FileNames.packVersion(_).contains(at))
        .map(name => s"${packs.path}/$name")
      if (inItsPlace.nonEmpty) {
        new FolderInTheWay(inItsPlace.head)
      } else if (versions.isEmpty && other.nonEmpty) {
        val (name, writer) = other.head
        new ForeignFile(folder.nameOf(name), s"The checkpoint was written by $writer.")
      } else {
        val name =
          if (shelf.isEmpty) folder.nameOf(s"$at${FileKind.Changes.suffix}")
          else s"${packs.path}/$at-*.pack.tr"
        val present =
          if (versions.isEmpty) "no state file at all"
          else s"files of the versions ${versions.min} to ${versions.max}"
        new MissingFile(name,
          s"It is needed to load version $version of $store; there is $present. Versions older " +
            "than spark.sql.streaming.minBatchesToRetain are cleaned up.")
      }
    }
  }
}
