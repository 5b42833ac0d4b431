package tailrace.commit

import java.util.concurrent.{Executors, ThreadFactory}
import java.util.concurrent.atomic.AtomicInteger

import tailrace.cold.ColdRef
import tailrace.files.{FileNames, StateFolder}
import tailrace.format.{Codec, FileHeader, FileKind, StateFileWriter}
import tailrace.store.{Family, Image}

/**
 * Writes snapshots beside the batches, from a frozen [[tailrace.store.Image]]. A snapshot only
 * shortens the replay of changes that are durable already: if one fails, nothing is lost, and the
 * next is tried later.
 */
final class SnapshotWriter(folder: StateFolder, names: FileNames, codec: Codec, store: String) {

  /**
   * Writes in the background; exactly one of the two is called when it is over, and only then is
   * the image done: whoever waits for the image sees what became of it.
   */
  def submit(image: Image)(written: Long => Unit)(failed: Throwable => Unit): Unit =
    SnapshotWriter.pool.execute { () =>
      try written(write(image)) catch { case error: Throwable => failed(error) } finally image.done()
    }

  /** Writes now, in the caller's thread, and returns the file's size. */
  def write(image: Image): Long = {
    val families = image.families.map { part =>
      FileHeader.FamilyEntry(part.family.id, part.family.name, part.family.kind, part.records.size)
    }
    val header = FileHeader(
      FileKind.Snapshot, image.version, image.lineage, 0L, store, families)
    folder.write(names(FileKind.Snapshot, image.version, image.lineage)) { stream =>
      val file = new StateFileWriter(stream, header, codec)
      image.families.foreach { part =>
        var index = 0L
        while (index < part.records.size) {
          if ((index & 0xfff) == 0 && image.isCancelled) throw new SnapshotWriter.Cancelled
          write(file, part.family, part.records(index))
          index += 1
        }
      }
      file.finish()
    }
  }

  /** @param word a record's address, or a reference to one that has left memory */
  private def write(file: StateFileWriter, family: Family, word: Long): Unit =
    if (ColdRef.isCold(word)) file.put(family.id, family.readColdOnce(word))
    else if (family.kind.multiValue) file.putList(family.id, word, family.readColdOnce)
    else file.put(family.id, word)
}

object SnapshotWriter {
  final class Cancelled extends InterruptedException("the snapshot is not needed any more")

  /** One thread per process: a second would only compete with the batches for the cores. */
  private lazy val pool = Executors.newSingleThreadExecutor(new ThreadFactory {
    private val count = new AtomicInteger
    override def newThread(work: Runnable): Thread = {
      val thread = new Thread(work, s"tailrace-snapshot-${count.incrementAndGet()}")
      thread.setDaemon(true)
      thread.setPriority(Thread.MIN_PRIORITY)
      thread
    }
  })
}
