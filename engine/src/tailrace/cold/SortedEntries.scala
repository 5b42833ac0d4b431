package tailrace.cold

import java.util.{Arrays, PriorityQueue}

import scala.collection.mutable

import org.apache.spark.unsafe.Platform

import tailrace.errors.ColdFileDamaged

/**
 * Problem: a snapshot has its records in the order of their keys' hashes; the log has them in the order
 * in which they were spilled, and they do not fit into memory.
 *
 * Answer: as many as a buffer holds are sorted and written to a file of the log's folder, a run; in the
 * end the runs are merged. If one buffer is enough, no file is written.
 *
 * Invariant: entries are verified when they are read again, as all of the log are. `close` deletes the
 * runs; those of a process that was killed go with its log.
 *
 * For one I/O thread.
 */
final class SortedEntries private[cold] (log: ColdLog, bufferSize: Int, hashOf: EntryHash) {
  import SortedEntries._

  private var buffer = new Array[Byte](bufferSize)
  private var filled = 0
  /** A hash, and behind it the place of an entry in `starts`. */
  private var keys = new Array[Long](64)
  private var starts = new Array[Int](64)
  private var count = 0
  private val runs = mutable.ArrayBuffer.empty[Run]

  def add(entry: ColdEntry): Unit = {
    if (filled + entry.size > buffer.length && count > 0) writeRun()
    if (entry.size > buffer.length) buffer = new Array[Byte](entry.size)
    if (count == keys.length) {
      keys = Arrays.copyOf(keys, 2 * count)
      starts = Arrays.copyOf(starts, 2 * count)
    }
    System.arraycopy(entry.bytes, entry.start, buffer, filled, entry.size)
    // With the top bit turned, the order of signed numbers is that of unsigned hashes.
    keys(count) = (hashOf(entry) ^ Int.MinValue).toLong << PlaceBits | count
    starts(count) = filled
    filled += entry.size
    count += 1
  }

  /** All entries in the order of their hashes, as unsigned numbers. */
  def foreach(visit: (Int, ColdEntry) => Unit): Unit =
    if (runs.isEmpty) {
      Arrays.sort(keys, 0, count)
      var at = 0
      while (at < count) {
        visit(hashAt(at), entryAt(at))
        at += 1
      }
    } else {
      if (count > 0) writeRun()
      buffer = Array.emptyByteArray
      merge(visit)
    }

  def close(): Unit = runs.foreach(_.file.delete())

  private def hashAt(at: Int): Int = (keys(at) >>> PlaceBits).toInt ^ Int.MinValue

  private def entryAt(at: Int): ColdEntry = new ColdEntry(buffer, starts((keys(at) & PlaceMask).toInt))

  private def writeRun(): Unit = {
    Arrays.sort(keys, 0, count)
    val run = new Run(log.openSorted(), filled)
    runs += run
    var at = 0
    while (at < count) {
      val entry = entryAt(at)
      run.file.write(entry.bytes, entry.start, entry.size)
      at += 1
    }
    run.file.finish()
    filled = 0
    count = 0
  }

  private def merge(visit: (Int, ColdEntry) => Unit): Unit = {
    val heads = new PriorityQueue[Run](runs.length)
    runs.foreach(run => if (run.next()) heads.add(run))
    while (!heads.isEmpty) {
      val first = heads.poll()
      visit(first.hash, first.entry)
      if (first.next()) heads.add(first)
    }
  }

  private final class Run(val file: SegmentFile, length: Int) extends Comparable[Run] {
    private var piece = Array.emptyByteArray
    private var at = 0 // in the piece
    private var from = 0L // the piece, in the file
    var entry: ColdEntry = _
    var hash = 0

    override def compareTo(other: Run): Int = Integer.compareUnsigned(hash, other.hash)

    def next(): Boolean = {
      val left = length - (from + at)
      if (left > 0) {
        if (piece.length - at < 4) read(PieceSize)
        val size = Platform.getInt(piece, Platform.BYTE_ARRAY_OFFSET.toLong + at)
        if (size > piece.length - at && size <= left) read(math.max(PieceSize, size))
        entry = new ColdEntry(piece, at)
        if (!entry.isIntact) {
          throw new ColdFileDamaged(file.name, from + at, log.storage.tier.place)
        }
        hash = hashOf(entry)
        at += size
      }
      left > 0
    }

    private def read(wanted: Int): Unit = {
      from += at
      at = 0
      piece = new Array[Byte](math.min(wanted.toLong, length - from).toInt)
      file.read(from, piece)
    }
  }
}

/** By which entries are sorted. */
@FunctionalInterface
trait EntryHash {
  def apply(entry: ColdEntry): Int
}

private object SortedEntries {
  private val PlaceBits = 31
  private val PlaceMask = (1L << PlaceBits) - 1
  private val PieceSize = 64 << 10
}
