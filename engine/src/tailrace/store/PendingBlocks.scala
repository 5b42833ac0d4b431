package tailrace.store

import java.nio.ByteBuffer
import java.util.BitSet

import scala.collection.mutable

import org.apache.spark.unsafe.Platform

import tailrace.errors.{CheckpointError, CorruptFile, MissingFile, UnreadableFile}
import tailrace.format.{EntryKind, SnapshotBlocks, SnapshotIndex}
import tailrace.io.{IoJob, IoKind, IoScheduler}
import tailrace.layout.{PendingRecords, Record}
import tailrace.layout.hash.HashLayout
import tailrace.memory.Arena

/**
 * Problem: a restart that reads all state before its first batch takes the longer the more state
 * there is; the first batch needs little of it.
 *
 * Answer (RFC 16): the records of a family stay in the blocks of a snapshot, which are in the order of
 * the keys' hashes, until one is asked for. A look-up by key brings the block of its hash into the
 * table first. Blocks that are expected are read ahead by I/O threads, in the order of the file; the
 * rest is brought behind ([[tailrace.versions.LoadBehind]]).
 *
 * Invariants: a record counts once: in a pending block, unless its key is in the table or was removed
 * by changes that were loaded over the snapshot (`passOver`); or in the table. A block that was not
 * brought to its end (memory was short, the thread was interrupted) is brought again, and its records
 * that are in the table stay as they are. In the end as many records were brought as the files say.
 *
 * Threads: the store's owner; I/O threads read blocks and put them into `arrived`, under `lock`.
 */
private[store] final class PendingBlocks(
    family: Family, table: HashLayout, arena: () => Arena, source: SnapshotBlocks,
    sections: Seq[SnapshotIndex.Section], io: IoScheduler, meter: PendingMeter)
  extends PendingRecords {
  import PendingBlocks._

  private val parts = sections.map(new Part(_)).toArray
  private var remaining = parts.map(_.section.size).sum
  private var remainingBytes = sections.map(_.lengths.map(_.toLong).sum).sum
  private var expectedRows = 0L
  /** Keys that changes have removed, by bytes: their records are passed over. */
  private val removed = mutable.HashSet.empty[ByteBuffer]
  /** Brings all that is left from other files if this one cannot be read; throws if there are none. */
  private[store] var rescue: CheckpointError => Unit = throw _
  /** After so many bytes were brought between two operations. */
  private[store] var makeRoom: () => Unit = () => ()

  private val lock = new Object
  private var readAheadBytes = 0L // of blocks asked for, or arrived; guarded by `lock`

  override def rows: Long = expectedRows

  /** Of blocks that are not in the table yet. */
  def bytes: Long = remainingBytes

  /** The changes were loaded: in all, the family has so many rows. */
  private[store] def settle(allRows: Long): Unit = {
    expectedRows = allRows - table.present
    if (remaining == 0) finish()
  }

  // ---- for the table

  override def bring(hash: Int): Unit = {
    if (failure != null) throw failure
    var index = 0
    while (index < parts.length) {
      val part = parts(index)
      val block = part.pendingBlockOf(hash)
      if (block >= 0) bringBlock(part, block)
      index += 1
    }
  }

  override def bringAll(): Unit = {
    if (failure != null) throw failure
    parts.foreach(bringAll)
  }

  private def bringAll(part: Part): Unit = {
    var bytes = 0L
    var first = part.nextPending()
    while (first >= 0) {
      val until = part.chunkFrom(first)
      bytes += part.bytes(first, until)
      readAndInstall(part, first, until)
      if (bytes > BytesBetweenLooks) {
        makeRoom()
        bytes = 0L
      }
      first = part.nextPending()
    }
  }

  override def passOver(
      hash: Int, base: AnyRef, offset: Long, length: Int, isRemoved: Boolean): Unit =
    parts.foreach { part =>
      val block = part.pendingBlockOf(hash)
      if (block >= 0) {
        if (isRemoved && removed.size >= MostRemoved) {
          bringBlock(part, block)
        } else {
          part.mixed.set(block)
          if (isRemoved) removed += keyOf(base, offset, length)
        }
      }
    }

  override def close(): Unit = {
    val isFirst = lock.synchronized {
      val isFirst = !isClosed
      isClosed = true
      parts.foreach(_.arrived.clear())
      lock.notifyAll()
      isFirst
    }
    if (isFirst) source.close()
  }

  private var isClosed = false // guarded by `lock`

  private def hasEnded: Boolean = lock.synchronized(isClosed)

  // ---- bringing

  private def bringBlock(part: Part, block: Int): Unit = {
    val started = System.nanoTime()
    val arrived = takeArrived(part, block)
    if (arrived != null) {
      install(part, block, arrived)
    } else {
      meter.blocks += 1
      readAndInstall(part, block, block + 1)
    }
    meter.nanos += System.nanoTime() - started
  }

  private def readAndInstall(part: Part, first: Int, until: Int): Unit = {
    val blocks = new mutable.ArrayBuffer[SnapshotBlocks.Block]
    try {
      source.read(part.section, first, until)((_, block) => blocks += block)
      var number = first
      while (number < until) {
        if (!part.done.get(number)) install(part, number, blocks(number - first))
        number += 1
      }
    } catch {
      case error: CheckpointError if failure == null && isOfTheFile(error) => rescue(error)
    }
  }

  private def isOfTheFile(error: CheckpointError): Boolean = error match {
    case corrupt: CorruptFile => corrupt.file == source.name
    case missing: MissingFile => missing.file == source.name
    case unreadable: UnreadableFile =>
      unreadable.file == source.name && !isInterruption(unreadable.getCause)
    case _ => false // of the file of spilled state, say
  }

  /** Puts the records of a block into the table. */
  private def install(part: Part, number: Int, block: SnapshotBlocks.Block): Unit = {
    val looks = part.mixed.get(number)
    part.mixed.set(number) // until it is through
    val section = part.section
    block.foreach { (kind, familyId, base, key, keyLength, value, valueLength) =>
      val hash = HashLayout.hashOf(base, key, keyLength)
      if (kind != EntryKind.Put || familyId != family.id || !section.isIn(number, hash)) {
        throw new CorruptFile(source.name, "a block has entries that belong to another one")
      }
      if (!looks || isMissing(hash, base, key, keyLength)) {
        add(hash, Record.create(
          arena(), tailed = false, base, key, keyLength, base, value, valueLength))
      }
    }
    part.done.set(number)
    remaining -= 1
    remainingBytes -= section.lengths(number)
    if (remaining == 0) finish()
  }

  private def isMissing(hash: Int, base: AnyRef, key: Long, length: Int): Boolean =
    !(removed.nonEmpty && removed.contains(keyOf(base, key, length))) &&
      !table.has(hash, base, key, length)

  private def add(hash: Int, record: Record): Unit = {
    record.clearBatchMarks()
    table.addPending(hash, record)
    expectedRows -= 1
  }

  /** All blocks are in the table. If they do not add up, nothing is shown of the state any more. */
  private def finish(): Unit = {
    close()
    if (expectedRows != 0) {
      failure = new CorruptFile(source.name,
        s"Of the records of ${family.name} that the last file counts, $expectedRows are not in it" +
          (if (expectedRows < 0) " (it has more)." else "."))
      throw failure
    }
    family.pending = null
    table.setPending(null)
  }

  private var failure: CheckpointError = null

  def isBroken: Boolean = failure != null

  /** The records of another table of this version, which was loaded from other files. */
  private[store] def bringFrom(other: Family): Unit = {
    val cursor = other.layout.cursor()
    var record = cursor.next()
    while (record.exists) {
      val hash = HashLayout.hashOf(null, record.keyAddress, record.keyLength)
      if (parts.exists(_.pendingBlockOf(hash) >= 0) &&
          !table.has(hash, null, record.keyAddress, record.keyLength)) {
        add(hash, Record.create(arena(), tailed = false, null, record.keyAddress, record.keyLength,
          null, record.valueAddress, record.valueLength))
      }
      record = cursor.next()
    }
    parts.foreach(part => part.done.set(0, part.section.size))
    remaining = 0
    finish()
  }

  // ---- reading ahead, and behind

  /** The block of this hash is needed soon. */
  def expect(hash: Int): Unit = parts.foreach { part =>
    val block = part.pendingBlockOf(hash)
    if (block >= 0) part.wanted.set(block)
  }

  /** Has the blocks that are expected read, as many at a time as there is room for. */
  def fetchExpected(): Unit = parts.foreach { part =>
    val blocks = new mutable.ArrayBuffer[Int]
    lock.synchronized {
      var block = part.wanted.nextSetBit(0)
      while (block >= 0) {
        if (readAheadBytes < MostReadAhead && !part.done.get(block) && !part.asked.get(block) &&
            !part.arrived.contains(block)) {
          part.asked.set(block)
          readAheadBytes += part.section.lengths(block)
          blocks += block
        }
        block = part.wanted.nextSetBit(block + 1)
      }
    }
    part.wanted.clear()
    blocks.grouped(BlocksInJob).foreach(submit(part, _))
  }

  private def submit(part: Part, blocks: Iterable[Int]): Unit =
    io.submit(IoKind.Read, s"Reading ahead in ${source.name}") { job =>
      try readAhead(part, blocks, job) finally giveUp(part, blocks)
    }

  private def readAhead(part: Part, blocks: Iterable[Int], job: IoJob): Unit =
    try blocks.foreach { block =>
      job.pace(part.section.lengths(block).toLong)
      source.read(part.section, block, block + 1) { (number, found) =>
        lock.synchronized {
          if (part.asked.get(number)) part.arrived(number) = found
          lock.notifyAll()
        }
      }
    } catch {
      case _: CheckpointError => // the look-up finds out for itself
    }

  private def giveUp(part: Part, blocks: Iterable[Int]): Unit = lock.synchronized {
    blocks.filterNot(part.arrived.contains).foreach(forget(part, _))
    lock.notifyAll()
  }

  private def forget(part: Part, block: Int): Unit = if (part.asked.get(block)) {
    part.asked.clear(block)
    readAheadBytes -= part.section.lengths(block)
  }

  /** The block, if it was read ahead or is being read; null: it is to be read now. */
  private def takeArrived(part: Part, block: Int): SnapshotBlocks.Block = lock.synchronized {
    val deadline = System.nanoTime() + MostWaitNanos
    while (part.asked.get(block) && !part.arrived.contains(block) && System.nanoTime() < deadline) {
      lock.wait(LookMillis)
    }
    val found = part.arrived.remove(block).orNull
    forget(part, block)
    found
  }

  /** The next blocks that nobody has asked for, or null; for the owner. */
  def nextChunk(): PendingChunk = {
    val part = parts.find(_.nextPending() >= 0).orNull
    if (part == null) {
      null
    } else {
      val first = part.nextPending()
      new Chunk(part, first, part.chunkFrom(first))
    }
  }

  final class Chunk private[PendingBlocks] (part: Part, first: Int, until: Int)
      extends PendingChunk {
    private val read = new mutable.ArrayBuffer[(Int, SnapshotBlocks.Block)]

    override def bytes: Long = part.bytes(first, until)

    override def fetch(): Unit = source.read(part.section, first, until)((number, block) =>
      read += number -> block)

    /** Nothing, if the table has been emptied since, or is complete. */
    override def install(): Unit = if (!hasEnded) {
      read.foreach { case (number, block) =>
        if (!part.done.get(number)) PendingBlocks.this.install(part, number, block)
      }
    }
  }
}

/** What look-ups had to do with pending blocks: how many they read themselves, and the time it took. */
private[store] final class PendingMeter {
  var blocks = 0L
  var nanos = 0L
}

/** Some neighbouring blocks, to be read by any thread, and then installed by the store's owner. */
private[tailrace] trait PendingChunk {
  def bytes: Long
  def fetch(): Unit
  def install(): Unit
}

private[store] object PendingBlocks {
  /** A failure that says nothing of the file. */
  private def isInterruption(cause: Throwable): Boolean = cause match {
    case _: java.io.InterruptedIOException | _: java.nio.channels.ClosedByInterruptException => true
    case _ => false
  }

  private val MostRemoved = 20000
  private val MostReadAhead = 16L << 20
  private val BlocksInJob = 64
  private val BytesBetweenLooks = 256L << 10
  private val LookMillis = 50L
  /** A job that does not come to its turn is not waited for. */
  private val MostWaitNanos = 2000L * 1000000L
  private val BlocksInChunk = 8

  private def keyOf(base: AnyRef, offset: Long, length: Int): ByteBuffer = {
    val bytes = new Array[Byte](length)
    Platform.copyMemory(base, offset, bytes, Platform.BYTE_ARRAY_OFFSET.toLong, length.toLong)
    ByteBuffer.wrap(bytes)
  }

  /** A section, and what has become of its blocks. */
  private final class Part(val section: SnapshotIndex.Section) {
    /** In the table. */
    val done = new BitSet(section.size)
    /** Some of their records may be in the table, or removed. */
    val mixed = new BitSet(section.size)
    /** To be read ahead at the next opportunity. */
    val wanted = new BitSet(section.size)
    // Guarded by the lock: being read ahead, and those that have arrived.
    val asked = new BitSet(section.size)
    val arrived = mutable.HashMap.empty[Int, SnapshotBlocks.Block]

    /** The block that may have records of this hash and is not in the table yet, or -1. */
    def pendingBlockOf(hash: Int): Int =
      if (section.size == 0) {
        -1
      } else {
        val block = section.blockOf(hash)
        if (done.get(block)) -1 else block
      }

    /** Neighbours are read together, so many; their groups are scattered over the section. */
    private val bits = 32 - Integer.numberOfLeadingZeros((section.size - 1) / BlocksInChunk)
    private var group = 0

    /**
     * The first pending block of the next group, or -1. Not in the order of hashes: in a table that
     * is smaller than it will be, they would all go to the same place, and each probe walk over them.
     */
    def nextPending(): Int = {
      var found = -1
      while (found < 0 && group < (1 << bits)) {
        val first = (if (bits == 0) 0 else Integer.reverse(group) >>> (32 - bits)) * BlocksInChunk
        val block = done.nextClearBit(first)
        if (block < endOf(first)) found = block else group += 1
      }
      found
    }

    private def endOf(block: Int): Int =
      math.min(section.size, (block / BlocksInChunk + 1) * BlocksInChunk)

    def chunkFrom(first: Int): Int = {
      val next = done.nextSetBit(first)
      if (next < 0) endOf(first) else math.min(next, endOf(first))
    }

    def bytes(first: Int, until: Int): Long =
      section.offsets(until - 1) + section.lengths(until - 1) - section.offsets(first)
  }
}
