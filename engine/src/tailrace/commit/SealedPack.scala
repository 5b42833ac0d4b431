package tailrace.commit

import java.io.OutputStream

import tailrace.files.FileNames
import tailrace.format.PackHeader
import tailrace.io.{IoJob, PacedStream}

/** The file that one executor writes for a batch: an index, and the sealed batches of its stores. */
final class SealedPack private (val header: PackHeader, parts: Seq[SealedBatch]) {
  val name: String = FileNames.pack(header)

  def length: Long = header.fileLength

  /** Paces the job piece by piece. */
  def writeTo(out: OutputStream, job: IoJob): Unit = {
    val paced = new PacedStream(out, job)
    paced.write(header.encoded)
    parts.foreach(_.bytes.writeTo(paced))
    paced.finish()
  }
}

object SealedPack {
  def apply(version: Long, parts: Seq[SealedBatch]): SealedPack = {
    // In one order, whatever order the tasks ended in: the same content has the same name.
    val sorted = parts.sortBy(part => (part.store, part.lineage))
    val offsets = sorted.scanLeft(0L)(_ + _.bytes.length)
    val entries = sorted.zip(offsets).map { case (part, offset) =>
      PackHeader.Entry(part.store, part.lineage, part.parentLineage, offset, part.bytes.length)
    }
    new SealedPack(PackHeader(version, entries), sorted)
  }
}
