package tailrace.commit

import tailrace.cold.ColdReader
import tailrace.format.{Codec, FileHeader, FileKind}
import tailrace.store.{Change, Lineage, StateTable}

/**
 * The changes of one batch of one store, as the bytes of a changes file: checksummed, compressed,
 * and independent of the table, which may go on, be reverted or be closed meanwhile.
 */
final case class SealedBatch(
    store: String, version: Long, lineage: Long, parentLineage: Long, entries: Long,
    bytes: Chunks)

/**
 * Seals the running batch: its lineage is computed from its changes, then header and every change
 * that counts, in order, become bytes. Nothing is written and nothing applied yet.
 */
final class Sealer(codec: Codec, store: String) {

  def seal(table: StateTable): SealedBatch = {
    val version = table.version + 1
    val changes = table.changes
    val lineage = Lineage.next(table.lineage, version, changes, table.familyOf)
    val header = FileHeader(
      FileKind.Changes, version, lineage, table.lineage, store, familiesOf(table))
    val bytes = new Chunks
    val file = new RecordFile(bytes, header, codec)
    var entries = 0L
    var index = 0L
    while (index < changes.size) {
      if (changes.counts(index)) {
        val family = changes.family(index)
        changes.kind(index) match {
          case Change.Put => file.put(family, changes.record(index))
          case Change.Remove => file.remove(family, changes.replaced(index))
          case Change.Append => file.append(family, changes.record(index))
          case Change.PutList => file.putList(family, changes.record(index), Sealer.inMemory)
        }
        entries += 1
      }
      index += 1
    }
    file.finish()
    SealedBatch(store, version, lineage, table.lineage, entries, bytes)
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
      FileHeader.FamilyEntry(family.id, family.name, family.kind.shape, family.layout.size)
    } ++ dropped.toSeq.map(table.familyOf).map { family =>
      FileHeader.FamilyEntry(family.id, family.name, family.kind.shape, rows = 0, dropped = true)
    }
  }
}

private object Sealer {
  val inMemory: ColdReader = _ =>
    throw new IllegalStateException("a list that the running batch made was spilled")
}
