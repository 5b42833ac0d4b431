package tailrace.cold

import java.io.IOException
import java.util.BitSet
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.atomic.LongAdder

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import tailrace.errors.{CheckpointError, ColdFileDamaged, ColdLogUsedUp, SpillFailed}
import tailrace.io.{IoKind, IoScheduler}

/**
 * Problem: state that does not fit into memory, on a disk that is good at long writes only.
 *
 * Answer: a log of entries, cut into segments, each a file of the [[ColdTier]]. It is no part of the
 * checkpoint: changes are durable without it, and a process that ends takes its log with it.
 * Entries are never written again. Entries that are given up are only marked; a segment without
 * living entries is deleted, and when the log is near `maxAmplification` times its living part, the
 * one with the smallest living part is cleaned: its living entries are copied to another segment (see
 * `nextToClean`).
 *
 * Threads: the store's owner reads and frees entries and takes note of where they went; I/O
 * threads write (`spilling`, `cleaning`), clean and delete. One lock guards their shared fields; no
 * file is touched under it.
 *
 * Invariant: while the log is pinned no file is deleted: a snapshot that is being written may show
 * entries that were given up since.
 */
final class ColdLog(private[cold] val storage: ColdStorage, io: IoScheduler) {
  import ColdLog._

  val spilling = new ColdWriter(this)
  val cleaning = new ColdWriter(this)
  /** Slots of the hash table that were spilled, too. */
  val slots = new SlotFiles(this)

  private val segments = new ConcurrentHashMap[Int, ColdSegment] // all that have a file
  private val bytesRead = new LongAdder
  @volatile private var failed = false
  private val making = new Object // guards that one folder is made
  // Guarded by this.
  private var folder: ColdFolder = null
  private var nextId = 0
  private var live = 0L
  private var total = 0L
  private var written = 0L
  private var pins = 0
  private val doomed = mutable.ArrayBuffer.empty[ColdSegment] // given up, shown by a snapshot
  private val garbage = mutable.ArrayBuffer.empty[ColdSegment] // to be deleted

  /** Bytes of the entries that are still needed, and of all files. */
  def liveBytes: Long = synchronized(live)

  def totalBytes: Long = synchronized(total)

  def readBytes: Long = bytesRead.sum()

  def writtenBytes: Long = synchronized(written)

  def isEmpty: Boolean = segments.isEmpty

  /** Whether there may be files: segments, or slots, or those that are to be deleted. */
  def hasFolder: Boolean = synchronized(folder != null)

  /** Not: something could not be read or written. The caller may have stopped half-way. */
  def isSound: Boolean = !failed

  // ---- reading

  /** Whether the reference has not been given up. */
  def isLive(ref: ColdRef): Boolean = {
    val segment = segments.get(ref.segment)
    segment != null && synchronized(!segment.isDead(ref.offset))
  }

  def read(ref: ColdRef): ColdEntry = {
    val bytes = new Array[Byte](ref.size)
    verified(readRange(find(ref.segment), ref.offset, bytes), 0, ref)
  }

  /** Reads many entries in the order of the disk, neighbours with one call. */
  def readAll(refs: ColdRefs)(visit: EntryVisitor): Unit =
    readInOrder(refs.inOrderOfTheDisk)(visit)

  private def readInOrder(ordered: ColdRefs)(visit: EntryVisitor): Unit = {
    var first = 0
    while (first < ordered.length) {
      val range = ordered.rangeAt(first, storage.tier.largestGap, LargestRead)
      val bytes = readRange(find(range.segment), range.from, new Array[Byte](range.size))
      while (first < range.until) {
        val ref = ordered(first)
        visit(ref, verified(bytes, (ref.offset - range.from).toInt, ref))
        first += 1
      }
    }
  }

  /**
   * The same for entries that may be asked for later, in the order of the disk already. Entries
   * that were deleted meanwhile, cannot be read or are damaged are left out: a look-up that needs one
   * will find out. For I/O threads.
   */
  def readHinted(ordered: ColdRefs)(visit: EntryVisitor): Unit = {
    var first = 0
    while (first < ordered.length) {
      val range = ordered.rangeAt(first, storage.tier.largestGap, LargestRead)
      val bytes = tryRead(range)
      while (first < range.until) {
        val ref = ordered(first)
        val entry = if (bytes == null) null else new ColdEntry(bytes, (ref.offset - range.from).toInt)
        if (entry != null && entry.isIntact && entry.size == ref.size) visit(ref, entry)
        first += 1
      }
    }
  }

  private def tryRead(range: ColdRefs.Range): Array[Byte] = {
    val segment = segments.get(range.segment)
    if (segment == null) return null
    val bytes = new Array[Byte](range.size)
    try {
      segment.file.read(range.from, bytes)
      bytesRead.add(bytes.length.toLong)
      bytes
    } catch {
      case _: IOException => null
    }
  }

  // ---- giving up

  /** The entry is not needed any more. */
  def free(ref: ColdRef): Unit = synchronized {
    val segment = find(ref.segment)
    segment.markDead(ref.offset)
    segment.live -= ref.size
    live -= ref.size
    if (segment.live == 0L && segment.isSealed) drop(segment)
  }

  def pin(): Unit = synchronized(pins += 1)

  def unpin(): Unit = synchronized {
    pins -= 1
    if (pins == 0) {
      garbage ++= doomed
      doomed.clear()
    }
  }

  def hasGarbage: Boolean = synchronized(garbage.nonEmpty) || slots.hasGarbage

  /** Deletes files that are not needed any more. For I/O threads. */
  def deleteGarbage(): Unit = {
    slots.deleteGarbage()
    val found = synchronized {
      val taken = garbage.toSeq
      garbage.clear()
      taken
    }
    found.foreach { segment =>
      segments.remove(segment.id)
      segment.file.delete()
    }
  }

  /** Gives everything up. The returned function deletes the files, in an I/O thread. */
  def clear(): () => Unit = {
    spilling.forget()
    cleaning.forget()
    forget()
  }

  private def forget(): () => Unit = synchronized {
    val left = segments.values.asScala.toSeq
    val leftSlots = slots.forget()
    val emptied = Option(folder)
    segments.clear()
    doomed.clear()
    garbage.clear()
    live = 0L
    total = 0L
    failed = false
    folder = null
    () => emptied.foreach(_.delete(left.map(_.file) ++ leftSlots.map(_.file)))
  }

  // ---- cleaning

  /** Near its bound, beyond it: (total, live) would have to be cleaned soon, or now. */
  def nearsBound: Boolean = synchronized(isAbove(1 + (storage.maxAmplification - 1) * CleanFrom))

  def exceedsBound: Boolean = synchronized(isAbove(storage.maxAmplification))

  private def isAbove(amplification: Double): Boolean = total > live * amplification + storage.slack

  /** The segment with the smallest living part. Its number, or None: nothing can be gained. */
  def nextToClean: Option[Int] = synchronized {
    segments.values.asScala
      .filter(each => !each.isCleaned && each.live > 0 && each.live < each.length ||
        each.live == 0 && each.length > 0 && !each.isSealed)
      .minByOption(each => each.live.toDouble / each.length).map(_.id)
  }

  /**
   * Ends writing to the segment, and reads its living entries. For I/O threads. None: its last entry
   * was freed since it was chosen, and the segment is gone.
   */
  def readToClean(id: Int): Option[Living] = Option(segments.get(id)).map { segment =>
    spilling.seal(segment)
    cleaning.seal(segment)
    val (length, dead) = synchronized(segment.length -> segment.deadEntries)
    readLiving(segment, length, dead)
  }

  private[cold] def readLiving(segment: ColdSegment, length: Long, dead: BitSet): Living = {
    val bytes = new Array[Byte](length.toInt)
    reading(segment.file, 0L, bytes) // not counted: no store asked for it
    new Living(segment, bytes, dead)
  }

  /** All that lives now. To be read while the log is pinned. */
  def freeze(): FrozenLog = synchronized {
    new FrozenLog(this, segments.values.asScala.toSeq
      .filter(each => each.live > 0 && each.installed > 0).sortBy(_.id)
      .map(each => FrozenLog.Frozen(each, each.installed, each.deadEntries)))
  }

  /** The segment's entries have moved; those that still live in it are in no table now. */
  def cleaned(id: Int): Unit = synchronized {
    val segment = segments.get(id)
    if (segment != null) segment.isCleaned = true
  }

  /** The entries of a segment that lived when it was read, with their references. */
  final class Living(segment: ColdSegment, bytes: Array[Byte], dead: BitSet) {
    val size: Int = bytes.length

    def foreach(visit: EntryVisitor): Unit = {
      var at = 0
      while (at < bytes.length) {
        val entry = new ColdEntry(bytes, at)
        val ref = ColdRef(segment.id, at.toLong, entry.size.toLong)
        verified(bytes, at, ref)
        if (!dead.get(at >> 5)) visit(ref, entry)
        at += entry.size
      }
    }
  }

  // ---- for writers

  private[cold] def hasRoom(segment: ColdSegment, size: Int): Boolean = synchronized {
    segment.length == 0L || segment.length + size <= storage.segmentSize(live)
  }

  private[cold] def newSegment(): ColdSegment = {
    val id = synchronized {
      if (nextId > ColdRef.LastSegment) throw new ColdLogUsedUp(nextId)
      nextId += 1
      nextId - 1
    }
    val segment = new ColdSegment(id, openFile(s"$id.cold"))
    segments.put(id, segment)
    segment
  }

  /** A new file for entries in another order, which its user deletes. */
  private[cold] def openSorted(): SegmentFile =
    openFile(s"sorted-${sortedCount.incrementAndGet()}.cold")

  private val sortedCount = new AtomicInteger

  /** A new file in the log's folder. */
  private[cold] def openFile(name: String): SegmentFile = {
    placeOfFiles().open(name)
  }

  /** The folder is made with the first file, under a lock that only I/O threads wait for. */
  private def placeOfFiles(): ColdFolder = making.synchronized {
    val known = synchronized(folder)
    if (known != null) {
      known
    } else {
      val made = storage.tier.newFolder()
      synchronized { folder = made }
      made
    }
  }

  private[cold] def entryAdded(segment: ColdSegment, size: Int): ColdRef = synchronized {
    val ref = ColdRef(segment.id, segment.length, size.toLong)
    segment.length += size
    segment.live += size
    live += size
    total += size
    written += size
    ref
  }

  private[cold] def installed(segment: ColdSegment): Unit =
    synchronized(segment.installed = segment.length)

  private[cold] def sealedNow(segment: ColdSegment): Unit = synchronized {
    segment.isSealed = true
    if (segment.live == 0L) drop(segment)
  }

  /** Runs code that writes files of this log. If it fails, the log is not sound from now on. */
  private[cold] def writing[T](body: => T): T = try body catch {
    case known: CheckpointError =>
      failed = true
      throw known
    case error: IOException =>
      failed = true
      throw new SpillFailed(storage.tier.place, totalBytes, error)
  }

  private def drop(segment: ColdSegment): Unit = {
    total -= segment.length
    if (pins == 0) garbage += segment else doomed += segment
  }

  private def readRange(segment: ColdSegment, offset: Long, bytes: Array[Byte]): Array[Byte] = {
    reading(segment.file, offset, bytes)
    bytesRead.add(bytes.length.toLong)
    bytes
  }

  private[cold] def readSlots(file: SegmentFile, offset: Long, bytes: Array[Byte]): Unit = {
    reading(file, offset, bytes)
    countRead(bytes.length)
  }

  private[cold] def countRead(bytes: Int): Unit = bytesRead.add(bytes.toLong)

  /** Reads in this thread, or in an I/O thread if this one may not. */
  private def reading(file: SegmentFile, offset: Long, bytes: Array[Byte]): Unit =
    try {
      if (storage.tier.anyThreadReads || IoScheduler.isIoThread) {
        file.readPatiently(offset, bytes)
      } else {
        io.submit(IoKind.Fetch, s"Reading ${file.name}") { job =>
          job.pace(bytes.length.toLong)
          file.readPatiently(offset, bytes)
        }.await()
      }
    } catch {
      case error: IOException =>
        failed = true
        throw error
    }

  private def find(id: Int): ColdSegment = {
    val segment = segments.get(id)
    if (segment == null) {
      throw new IllegalStateException(s"the log of cold state has no segment $id")
    }
    segment
  }

  private def verified(bytes: Array[Byte], at: Int, ref: ColdRef): ColdEntry = {
    val entry = new ColdEntry(bytes, at)
    if (!entry.isIntact || entry.size != ref.size) {
      throw damaged(
        new ColdFileDamaged(find(ref.segment).file.name, ref.offset, storage.tier.place))
    }
    entry
  }

  /** The error, and from now on the log is not sound. */
  private[cold] def damaged(error: ColdFileDamaged): ColdFileDamaged = {
    failed = true
    error
  }
}

object ColdLog {
  private val LargestRead = 4L << 20
  /** How far towards its bound the log grows before it is cleaned. */
  private val CleanFrom = 0.7
}
