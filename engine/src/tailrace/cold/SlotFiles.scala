package tailrace.cold

import scala.collection.mutable

import tailrace.io.{IoJob, IoPieces}

/**
 * The files of a log that hold slots ([[ColdSlots]]): one for each segment of the hash table whose
 * slots were spilled.
 *
 * Threads: I/O threads write and delete; the store's owner drops. No file is touched under the lock.
 */
final class SlotFiles private[cold] (log: ColdLog) {
  // Guarded by this.
  private var nextId = 0
  private val present = mutable.Map.empty[Int, ColdSlots]
  private val garbage = mutable.ArrayBuffer.empty[ColdSlots]

  /** Bytes of all files that are in use. */
  def bytes: Long = synchronized(present.valuesIterator.map(_.fileBytes).sum)

  def hasGarbage: Boolean = synchronized(garbage.nonEmpty)

  /** Writes a file of these entries, which are in the order of their hashes. */
  def write(entries: SlotEntries, job: IoJob): ColdSlots = {
    val id = synchronized {
      nextId += 1
      nextId - 1
    }
    val made = log.writing(writeFile(id, entries, new IoPieces(job)))
    synchronized(present(id) = made)
    made
  }

  private def writeFile(id: Int, entries: SlotEntries, pieces: IoPieces): ColdSlots = {
    val file = log.openFile(s"$id.slots")
    try {
      val last = math.max(0, entries.size - 1)
      val filter = new SlotFilter(entries.hash(0), entries.hash(last), entries.size)
      val fences = new Array[Int]((entries.size + ColdSlots.PerPage - 1) / ColdSlots.PerPage)
      val page = new Array[Byte](ColdSlots.PageSize)
      var at = 0
      fences.indices.foreach { number =>
        fences(number) = entries.hash(at)
        at += ColdSlots.fillPage(page, entries, at)
        pieces.add(page.length.toLong)
        file.write(page, 0, page.length)
      }
      pieces.finish()
      file.finish()
      at = 0
      while (at < entries.size) {
        filter.add(entries.hash(at))
        at += 1
      }
      new ColdSlots(id, file, fences, entries.size, filter, log)
    } catch {
      case error: Throwable =>
        file.delete()
        throw error
    }
  }

  private[cold] def drop(slots: ColdSlots): Unit = synchronized {
    present.remove(slots.id).foreach(garbage += _)
  }

  /** Deletes files that are not needed any more. For I/O threads. */
  def deleteGarbage(): Unit = {
    val found = synchronized {
      val taken = garbage.toSeq
      garbage.clear()
      taken
    }
    found.foreach(_.delete())
  }

  /** Gives all files up; the caller deletes them. */
  private[cold] def forget(): Seq[ColdSlots] = synchronized {
    val left = present.values.toSeq ++ garbage
    present.clear()
    garbage.clear()
    left
  }
}
