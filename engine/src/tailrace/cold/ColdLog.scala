package tailrace.cold

import java.io.{File, IOException, RandomAccessFile}
import java.nio.file.Files
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import tailrace.errors.ColdFileDamaged

/**
 * Problem: state that does not fit into memory, on a disk that is good at long writes only.
 *
 * Answer: a log of entries, cut into segments of some megabytes, on this machine. It is no part of
 * the checkpoint: changes are durable without it, and a process that ends takes its log with it.
 * Entries are never written again. What is given up is only counted; a segment without living
 * entries is deleted, and one with few of them is emptied by whoever owns the entries (see
 * `segmentToClean`), when the log is `maxAmplification` times what lives in it.
 *
 * A lane is a chain of segments of its own: what falls due together is written together, and
 * deleted together, with no copying (FlowKV's file per window).
 *
 * Invariants: one writing thread; any thread reads. While the log is pinned no file is deleted: a
 * snapshot that is being written may show entries that were given up since.
 */
final class ColdLog(storage: ColdStorage) {
  import ColdLog._

  private var folder: File = null
  private val segments = new ConcurrentHashMap[Int, Segment] // all that have a file
  private val open = mutable.LongMap.empty[Segment] // by lane
  private var nextId = 0
  private var live = 0L
  private var total = 0L
  private var pins = 0
  private val doomed = mutable.ArrayBuffer.empty[Segment]
  @volatile private var bytesRead = 0L
  @volatile private var failed = false
  private var bytesWritten = 0L

  /** Bytes of the entries that are still somebody's, and of all files. */
  def liveBytes: Long = live

  def totalBytes: Long = total

  def readBytes: Long = bytesRead

  def writtenBytes: Long = bytesWritten

  def isEmpty: Boolean = segments.isEmpty

  /** Not: something could not be read back. Whoever asked for it may have stopped half-way. */
  def isSound: Boolean = !failed

  /** Writes an entry; it can be read after the next `flush`. */
  def append(lane: Long, bytes: Array[Byte], start: Int, size: Int): Long = {
    val segment = segmentFor(lane, size)
    val ref = ColdRef(segment.id, segment.length, size.toLong)
    segment.write(bytes, start, size)
    live += size
    total += size
    bytesWritten += size
    ref
  }

  def flush(): Unit = open.foreachValue(_.flush())

  /** Not: whatever the reference was, it has been given up. */
  def hasSegmentOf(ref: Long): Boolean = segments.containsKey(ColdRef.segment(ref))

  def read(ref: Long): ColdEntry = {
    val bytes = new Array[Byte](ColdRef.size(ref))
    verified(readRange(ColdRef.segment(ref), ColdRef.offset(ref), bytes), 0, ref)
  }

  /** Reads many entries in the order of the disk, neighbours with one call. */
  def readAll(refs: Array[Long])(visit: (Long, ColdEntry) => Unit): Unit = {
    val ordered = refs.sortBy(ref => (ColdRef.segment(ref), ColdRef.offset(ref)))
    var first = 0
    while (first < ordered.length) {
      val segment = ColdRef.segment(ordered(first))
      val from = ColdRef.offset(ordered(first))
      var to = from + ColdRef.size(ordered(first))
      var last = first + 1
      while (last < ordered.length && ColdRef.segment(ordered(last)) == segment &&
          ColdRef.offset(ordered(last)) - to <= LargestGap && to - from <= LargestRead) {
        to = ColdRef.offset(ordered(last)) + ColdRef.size(ordered(last))
        last += 1
      }
      val bytes = readRange(segment, from, new Array[Byte]((to - from).toInt))
      while (first < last) {
        val ref = ordered(first)
        visit(ref, verified(bytes, (ColdRef.offset(ref) - from).toInt, ref))
        first += 1
      }
    }
  }

  /** The entry is nobody's any more. */
  def free(ref: Long): Unit = {
    val segment = find(ColdRef.segment(ref))
    segment.live -= ColdRef.size(ref)
    live -= ColdRef.size(ref)
    if (segment.live == 0L && segment.isSealed) drop(segment)
  }

  /** The sealed segment with the smallest living part, if the log has grown too large. */
  def segmentToClean: Option[Int] =
    if (total <= live * storage.maxAmplification + SlackSegments * storage.segmentSize) {
      None
    } else {
      segments.values.asScala.filter(each => each.isSealed && each.live > 0 && each.live < each.length)
        .minByOption(each => each.live.toDouble / each.length).map(_.id)
    }

  /** All entries of a segment with their references, dead ones included. */
  def entriesOf(segment: Int): Iterator[(Long, ColdEntry)] = {
    val length = find(segment).length
    val bytes = readRange(segment, 0L, new Array[Byte](length.toInt))
    var at = 0
    Iterator.continually(()).takeWhile(_ => at < length).map { _ =>
      val entry = new ColdEntry(bytes, at)
      val ref = ColdRef(segment, at.toLong, entry.size.toLong)
      verified(bytes, at, ref)
      at += entry.size
      ref -> entry
    }
  }

  // ---- the life of the files

  def pin(): Unit = pins += 1

  def isPinned: Boolean = pins > 0

  def unpin(): Unit = {
    pins -= 1
    if (pins == 0) {
      doomed.foreach(delete)
      doomed.clear()
    }
  }

  /** Gives everything up. */
  def clear(): Unit = {
    segments.values.asScala.foreach(_.delete())
    segments.clear()
    open.clear()
    doomed.clear()
    live = 0L
    total = 0L
    failed = false
    if (folder != null) {
      Files.deleteIfExists(folder.toPath)
      folder = null
    }
  }

  private def segmentFor(lane: Long, size: Int): Segment = {
    val current = open.getOrNull(lane)
    if (current != null && (current.length == 0L || current.length + size <= storage.segmentSize)) {
      return current
    }
    if (current != null) close(lane, current)
    if (open.size >= MostLanes) {
      val (oldest, segment) = open.minBy(_._2.id)
      close(oldest, segment)
    }
    if (nextId > ColdRef.LastSegment) {
      throw new IOException("the log of cold state has used up its numbers; restart the query")
    }
    if (folder == null) folder = storage.newFolder()
    val segment = new Segment(nextId, new File(folder, s"$nextId.cold"))
    nextId += 1
    segments.put(segment.id, segment)
    open(lane) = segment
    segment
  }

  private def close(lane: Long, segment: Segment): Unit = {
    segment.seal()
    open -= lane
    if (segment.live == 0L) drop(segment)
  }

  private def drop(segment: Segment): Unit = {
    total -= segment.length
    if (pins == 0) delete(segment) else doomed += segment
  }

  private def delete(segment: Segment): Unit = {
    segments.remove(segment.id)
    segment.delete()
  }

  private def readRange(id: Int, offset: Long, bytes: Array[Byte]): Array[Byte] = {
    try find(id).read(offset, bytes) catch {
      case error: IOException =>
        failed = true
        throw error
    }
    bytesRead += bytes.length
    bytes
  }

  private def find(id: Int): Segment = {
    val segment = segments.get(id)
    if (segment == null) {
      throw new IllegalStateException(s"the log of cold state has no segment $id")
    }
    segment
  }

  private def verified(bytes: Array[Byte], at: Int, ref: Long): ColdEntry = {
    val entry = new ColdEntry(bytes, at)
    if (!entry.isIntact || entry.size != ColdRef.size(ref)) {
      failed = true
      throw new ColdFileDamaged(find(ColdRef.segment(ref)).file.toString, ColdRef.offset(ref))
    }
    entry
  }
}

object ColdLog {
  private val MostLanes = 64
  private val LargestGap = 16L << 10
  private val LargestRead = 4L << 20
  /** A log this small is not worth cleaning. */
  private val SlackSegments = 2

  /**
   * A file of the log. Not a channel: those close themselves when a task's thread is interrupted,
   * and the next task needs the file.
   */
  private final class Segment(val id: Int, val file: File) {
    private val access = new RandomAccessFile(file, "rw")
    private var buffer = new Array[Byte](64 << 10)
    private var buffered = 0
    private var written = 0L
    @volatile private var closed = false
    var live = 0L

    def length: Long = written + buffered

    def isSealed: Boolean = buffer == null

    def write(bytes: Array[Byte], start: Int, size: Int): Unit = {
      if (buffered + size > buffer.length) flush()
      if (size > buffer.length) {
        store(bytes, start, size)
      } else {
        System.arraycopy(bytes, start, buffer, buffered, size)
        buffered += size
      }
      live += size
    }

    def flush(): Unit = if (buffered > 0) {
      store(buffer, 0, buffered)
      buffered = 0
    }

    def seal(): Unit = {
      flush()
      buffer = null
    }

    private def store(bytes: Array[Byte], start: Int, size: Int): Unit = access.synchronized {
      access.seek(written)
      access.write(bytes, start, size)
      written += size
    }

    def read(offset: Long, bytes: Array[Byte]): Unit = access.synchronized {
      access.seek(offset)
      access.readFully(bytes)
    }

    def delete(): Unit = if (!closed) {
      closed = true
      access.close()
      Files.deleteIfExists(file.toPath)
    }
  }
}
