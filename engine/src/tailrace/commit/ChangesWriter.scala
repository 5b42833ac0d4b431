package tailrace.commit

import tailrace.files.{FileNames, StateFolder}
import tailrace.format.{Codec, FileHeader, FileKind, StateFileWriter}
import tailrace.store.{Change, Lineage, StateTable}

/**
 * Makes the running batch durable: one changes file, written whole or not at all.
 *
 * Steps:
 *  1. The batch's lineage is computed from its changes.
 *  2. Header, then every change that counts, in order, go to the checkpoint file system.
 *  3. When this returns, the batch is durable; the caller then applies it to the table.
 */
final class ChangesWriter(folder: StateFolder, names: FileNames, codec: Codec, store: String) {
  import ChangesWriter._

  def write(table: StateTable): Written = {
    // 1.
    val version = table.version + 1
    val changes = table.changes
    val lineage = Lineage.next(table.lineage, version, changes, table.familyOf)
    val header = FileHeader(
      FileKind.Changes, version, lineage, table.lineage, store, familiesOf(table))
    // 2.
    val name = names(FileKind.Changes, version, lineage)
    var entries = 0L
    val bytes = folder.write(name) { stream =>
      val file = new StateFileWriter(stream, header, codec)
      var index = 0L
      while (index < changes.size) {
        if (changes.counts(index)) {
          val family = changes.family(index)
          changes.kind(index) match {
            case Change.Put => file.put(family, changes.record(index))
            case Change.Remove => file.remove(family, changes.replaced(index))
            case Change.Append => file.append(family, changes.record(index))
            case Change.PutList => file.putList(family, changes.record(index))
          }
          entries += 1
        }
        index += 1
      }
      file.finish()
    }
    // 3.
    Written(name, lineage, bytes, entries)
  }

  /** The families after the batch, and those that the batch changed and then dropped. */
  private def familiesOf(table: StateTable): Seq[FileHeader.FamilyEntry] = {
    val living = table.families.toSeq.sortBy(_.id)
    val known = living.map(_.id).toSet
    val changes = table.changes
    val dropped = new scala.collection.mutable.TreeSet[Int]
    if (table.hasDroppedFamilies) {
      var index = 0L
      while (index < changes.size) {
        if (!known(changes.family(index))) dropped += changes.family(index)
        index += 1
      }
    }
    living.map { family =>
      FileHeader.FamilyEntry(family.id, family.name, family.kind, family.layout.size)
    } ++ dropped.toSeq.map(table.familyOf).map { family =>
      FileHeader.FamilyEntry(family.id, family.name, family.kind, rows = 0, dropped = true)
    }
  }
}

object ChangesWriter {
  final case class Written(name: String, lineage: Long, bytes: Long, entries: Long)
}
