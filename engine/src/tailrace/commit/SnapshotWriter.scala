package tailrace.commit

import scala.collection.mutable

import tailrace.cold.{ColdRefs, EntryHash}
import tailrace.files.{FileNames, StateFolder}
import tailrace.format.{Codec, FileHeader, FileKind, StateFileWriter}
import tailrace.io.{IoJob, IoKind, IoScheduler, PacedStream}
import tailrace.layout.hash.HashLayout
import tailrace.store.FrozenVersion

/**
 * Writes snapshots beside the batches, from a [[tailrace.store.FrozenVersion]]. A snapshot only
 * shortens the replay of changes that are durable already: if one fails, nothing is lost, and the
 * next is tried later.
 *
 * Records that are found by hash are written in the order of their hashes, so that a restart can
 * read those of a hash alone (RFC 16): first those in memory, then those in the log, each a section.
 *
 * @param blockSize of such a section
 */
final class SnapshotWriter(
    folder: StateFolder, names: FileNames, codec: Codec, store: String, io: IoScheduler,
    blockSize: Int = StateFileWriter.HashedBlockSize) {

  /**
   * Writes in the background. `written` or `failed` is called at the end, and only then is the frozen
   * version done: a thread that waits for it sees the outcome. `failed` is called, too, if the snapshot
   * is cancelled before it begins. `reported`, after it, reports a snapshot that was written; the store
   * does not wait for that.
   */
  def submit(frozen: FrozenVersion)(
      written: Long => Unit)(failed: Throwable => Unit)(reported: => Unit): Unit =
    try {
      val title = s"The snapshot of version ${frozen.version} of $store"
      val ticket = io.submit(IoKind.Snapshot, title) { job =>
        if (frozen.begins() && writeTo(frozen, job)(written)(failed)) reported
      }
      frozen.submitted(ticket)(failed)
    } catch {
      case error: Throwable => // it was never begun
        frozen.done()
        throw error
    }

  private def writeTo(frozen: FrozenVersion, job: IoJob)(
      written: Long => Unit)(failed: Throwable => Unit): Boolean =
    try {
      written(write(frozen, job))
      true
    } catch {
      case error: Throwable =>
        failed(frozen.cancellation.getOrElse(error))
        false
    } finally frozen.done()

  /** Writes now, in the caller's thread, and returns the file's size. */
  def write(frozen: FrozenVersion, job: IoJob = IoJob.unpaced): Long = {
    val families = frozen.families.map { part =>
      FileHeader.FamilyEntry(part.family.id, part.family.name, part.family.kind.shape,
        part.size)
    }
    val header = FileHeader(
      FileKind.Snapshot, frozen.version, frozen.lineage, 0L, store, families)
    folder.write(names(FileKind.Snapshot, frozen.version, frozen.lineage)) { stream =>
      val paced = new PacedStream(stream, job)
      val file = new RecordFile(paced, header, codec)
      // Records in memory first: they then need not be kept for the snapshot.
      frozen.families.foreach { part =>
        file.section(part.family.id, part.isByHash, blockSize)
        if (part.isByHash) writeInOrder(file, frozen, part) else writeRecords(file, frozen, part)
      }
      frozen.pastRecords()
      if (frozen.families.exists(_.spilled > 0)) writeSpilled(file, frozen)
      file.finish()
    }
  }

  private def writeRecords(
      file: RecordFile, frozen: FrozenVersion, part: FrozenVersion.Part): Unit = {
    var index = 0L
    while (index < part.records.size) {
      if (part.family.kind.multiValue) writeList(file, frozen, part, index)
      else writeRecord(file, frozen, part, index)
      index += 1
    }
  }

  private def writeInOrder(
      file: RecordFile, frozen: FrozenVersion, part: FrozenVersion.Part): Unit = {
    val ordered = new HashedRecords(part.records, frozen)
    while (ordered.next()) {
      file.nextHash(ordered.hash)
      while (!frozen.reading(file.tryPut(part.family.id, ordered.record))) file.writeBlock()
    }
  }

  private def writeRecord(
      file: RecordFile, frozen: FrozenVersion, part: FrozenVersion.Part, index: Long): Unit =
    while (!frozen.reading(file.tryPut(part.family.id, part.record(index)))) file.writeBlock()

  private def writeList(
      file: RecordFile, frozen: FrozenVersion, part: FrozenVersion.Part, index: Long): Unit = {
    val refs = new ColdRefs(frozen.reading(file.spilledOf(part.record(index)).raw))
    val spilled = file.readSpilled(refs, part.family.readColdOnce)
    while (!frozen.reading(file.tryPutList(part.family.id, part.record(index), spilled))) {
      file.writeBlock()
    }
  }

  /**
   * Records in the log; values of lists were written with their lists. They are counted: an entry too
   * many would be a row that is not there, and no snapshot is better than that one.
   */
  private def writeSpilled(file: RecordFile, frozen: FrozenVersion): Unit = {
    val parts = frozen.families.filter(_.spilled > 0)
    val sorted = parts.map(part => part.family.id -> frozen.log.sorted(hashOf)).toMap
    try {
      val left = mutable.Map.empty[Int, Long].withDefaultValue(0L)
      parts.foreach(part => left(part.family.id) = part.spilled)
      frozen.log.foreach(() => frozen.stopIfCancelled()) { entry =>
        if (entry.count == 0) {
          left(entry.family) -= 1
          sorted.get(entry.family).foreach(_.add(entry))
        }
      }
      left.find(_._2 != 0).foreach { case (id, missing) =>
        throw new IllegalStateException(s"of the spilled records of family $id in $store, version " +
          s"${frozen.version}, $missing are not in the log")
      }
      parts.foreach { part =>
        file.section(part.family.id, byHash = true, blockSize)
        sorted(part.family.id).foreach { (hash, entry) =>
          file.nextHash(hash)
          file.put(entry.family, entry)
        }
      }
    } finally sorted.values.foreach(_.close())
  }

  private val hashOf: EntryHash =
    entry => HashLayout.hashOf(entry.bytes, entry.key, entry.keyLength)
}
