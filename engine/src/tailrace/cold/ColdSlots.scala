package tailrace.cold

import java.io.IOException
import java.util.BitSet
import java.util.concurrent.atomic.AtomicInteger
import java.util.zip.CRC32C

import org.apache.spark.unsafe.Platform

import tailrace.errors.ColdFileDamaged

/**
 * Problem: the reference to a spilled record takes a slot of the hash table. With small records and
 * little memory the slots alone outgrow it.
 *
 * Answer: the references of one segment of the table in a file, in the order of their hashes, cut into
 * pages. In memory are the first hash of every page, which names the page of a hash, and a filter of
 * one byte an entry, which says of most absent keys that they are absent. So a look-up reads one page
 * and one record, and an absent key seldom reads anything.
 *
 * {{{
 *   page := check(u32: CRC-32C of the rest) count(u32) hash(u32){340} reference(u64){340}
 *           padded to 4096 bytes
 * }}}
 * Numbers are in the machine's order: no other machine, and no later process, reads them.
 *
 * Invariants: the file is never written again. An entry counts only while its reference is live in the
 * log (`ColdLog.isLive`): a record that was fetched, moved or removed is not taken out of the file, its
 * reference is dead.
 *
 * Threads: immutable, but for the number of owners. Any thread reads it.
 */
final class ColdSlots private[cold] (
    val id: Int, private[cold] val file: SegmentFile, fences: Array[Int], val size: Int,
    filter: SlotFilter, log: ColdLog) {
  import ColdSlots._

  /** Pages that are read without need, rather than with a request of their own. */
  private val pagesBetween = (log.storage.tier.largestGap / PageSize).toInt

  /** Segments of the table that look here: more than one after a split. */
  private val owners = new AtomicInteger(1)

  /** Bytes in memory, and in the file. */
  def memoryBytes: Long = FixedBytes + 4L * fences.length + filter.bytes

  def fileBytes: Long = fences.length.toLong * PageSize

  def ownerCount: Int = owners.get()

  def share(): ColdSlots = {
    owners.incrementAndGet()
    this
  }

  /** One owner less. True: it was the last, and the file is deleted by the next step that cleans. */
  def release(): Boolean = {
    val isLast = owners.decrementAndGet() == 0
    if (isLast) log.slots.drop(this)
    isLast
  }

  private[cold] def delete(): Unit = file.delete()

  /** False: no entry has this hash. */
  def mayHave(hash: Int): Boolean = filter.mayHave(hash)

  // ---- reading

  /** The references of this hash. Reads one page, and seldom a second one. */
  def find(hash: Int): ColdRefs = {
    val found = new scala.collection.mutable.ArrayBuilder.ofLong
    var page = firstPageOf(hash)
    while (page < fences.length && isUpTo(fences(page), hash)) {
      val bytes = readPages(page, 1)
      findIn(bytes, 0, hash, ref => found += ref.raw)
      page += 1
    }
    new ColdRefs(found.result())
  }

  /**
   * The references of many hashes, which are in their order: neighbouring pages with one read. For I/O
   * threads, ahead of look-ups: the file may be deleted meanwhile, which is an `IOException` like any
   * other trouble. The look-up finds out for itself.
   */
  def findAll(hashes: Array[Int])(visit: SlotVisitor): Unit = {
    var first = 0
    while (first < hashes.length) {
      val from = firstPageOf(hashes(first))
      var until = lastPageOf(hashes(first)) + 1
      var last = first + 1
      while (last < hashes.length && firstPageOf(hashes(last)) <= until + pagesBetween &&
          lastPageOf(hashes(last)) - from < MostPages) {
        until = math.max(until, lastPageOf(hashes(last)) + 1)
        last += 1
      }
      if (until > from) {
        val bytes = new Array[Byte]((until - from) * PageSize)
        file.read(from.toLong * PageSize, bytes)
        log.countRead(bytes.length)
        if (firstDamaged(bytes) >= 0) throw new IOException(s"${file.name} has a damaged page")
        while (first < last) {
          val hash = hashes(first)
          var page = math.max(from, firstPageOf(hash))
          while (page < until && isUpTo(fences(page), hash)) {
            findIn(bytes, page - from, hash, ref => visit(hash, ref))
            page += 1
          }
          first += 1
        }
      }
      first = last
    }
  }

  /** How much `findAll` reads, about. */
  def bytesOf(hashes: Array[Int]): Long = math.min(hashes.length, fences.length).toLong * PageSize

  /** Every entry from the hash `from` to `to`, both included, in their order. */
  def foreach(from: Int, to: Int)(visit: SlotVisitor): Unit = {
    var page = firstPageOf(from)
    while (page < fences.length && isUpTo(fences(page), to)) {
      val pages = math.min(MostPages, fences.length - page)
      val bytes = readPages(page, pages)
      var at = 0
      while (at < pages) {
        visitPage(bytes, at, from, to, visit)
        at += 1
      }
      page += pages
    }
  }

  private def visitPage(bytes: Array[Byte], page: Int, from: Int, to: Int, visit: SlotVisitor): Unit = {
    val count = countIn(bytes, page)
    var at = 0
    while (at < count) {
      val hash = hashIn(bytes, page, at)
      if (isUpTo(from, hash) && isUpTo(hash, to)) visit(hash, refIn(bytes, page, at))
      at += 1
    }
  }

  private def findIn(bytes: Array[Byte], page: Int, hash: Int, visit: RefVisitor): Unit = {
    val count = countIn(bytes, page)
    var low = 0
    var high = count
    while (low < high) { // the first entry whose hash is not smaller
      val middle = (low + high) >>> 1
      if (Integer.compareUnsigned(hashIn(bytes, page, middle), hash) < 0) low = middle + 1
      else high = middle
    }
    while (low < count && hashIn(bytes, page, low) == hash) {
      visit(refIn(bytes, page, low))
      low += 1
    }
  }

  /** The page in which the first entry of the hash is, if there is one: the last that begins before. */
  private def firstPageOf(hash: Int): Int = {
    var low = 0
    var high = fences.length
    while (low < high) { // the first page that begins with this hash or a larger one
      val middle = (low + high) >>> 1
      if (Integer.compareUnsigned(fences(middle), hash) < 0) low = middle + 1 else high = middle
    }
    math.max(0, low - 1)
  }

  /** The last page that begins with this hash or a smaller one; -1: there is none. */
  private def lastPageOf(hash: Int): Int = {
    var page = firstPageOf(hash)
    if (page >= fences.length || !isUpTo(fences(page), hash)) return page - 1
    while (page + 1 < fences.length && isUpTo(fences(page + 1), hash)) page += 1
    page
  }

  private def readPages(first: Int, count: Int): Array[Byte] = {
    val bytes = new Array[Byte](count * PageSize)
    log.readSlots(file, first.toLong * PageSize, bytes)
    val damaged = firstDamaged(bytes)
    if (damaged >= 0) {
      throw log.damaged(new ColdFileDamaged(
        file.name, (first + damaged).toLong * PageSize, log.storage.tier.place))
    }
    bytes
  }
}

object ColdSlots {
  private[cold] val PageSize = 4096
  private[cold] val PerPage = 340
  private val HeaderSize = 8
  private val RefsAt = HeaderSize + 4 * PerPage
  private val MostPages = 256
  private val FixedBytes = 128L

  /** Hashes are unsigned numbers. */
  private def isUpTo(hash: Int, bound: Int): Boolean = Integer.compareUnsigned(hash, bound) <= 0

  private def place(page: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + page.toLong * PageSize

  private def countIn(bytes: Array[Byte], page: Int): Int = Platform.getInt(bytes, place(page) + 4)

  private def hashIn(bytes: Array[Byte], page: Int, at: Int): Int =
    Platform.getInt(bytes, place(page) + HeaderSize + 4L * at)

  private def refIn(bytes: Array[Byte], page: Int, at: Int): ColdRef =
    new ColdRef(Platform.getLong(bytes, place(page) + RefsAt + 8L * at))

  /** The first page that is not as it was written, or -1. */
  private def firstDamaged(bytes: Array[Byte]): Int =
    (0 until bytes.length / PageSize).find(page => !isIntact(bytes, page)).getOrElse(-1)

  private def isIntact(bytes: Array[Byte], page: Int): Boolean = {
    val count = countIn(bytes, page)
    count > 0 && count <= PerPage && Platform.getInt(bytes, place(page)) == checkOf(bytes, page)
  }

  private def checkOf(bytes: Array[Byte], page: Int): Int = {
    val check = new CRC32C
    check.update(bytes, page * PageSize + 4, PageSize - 4)
    check.getValue.toInt
  }

  /** One page with the entries from `first` on. */
  private[cold] def fillPage(page: Array[Byte], entries: SlotEntries, first: Int): Int = {
    java.util.Arrays.fill(page, 0.toByte)
    val count = math.min(PerPage, entries.size - first)
    Platform.putInt(page, place(0) + 4, count)
    var at = 0
    while (at < count) {
      Platform.putInt(page, place(0) + HeaderSize + 4L * at, entries.hash(first + at))
      Platform.putLong(page, place(0) + RefsAt + 8L * at, entries.ref(first + at).raw)
      at += 1
    }
    Platform.putInt(page, place(0), checkOf(page, 0))
    count
  }
}

/** Is shown a hash and a reference that it has. */
@FunctionalInterface
trait SlotVisitor {
  def apply(hash: Int, ref: ColdRef): Unit
}

/**
 * One byte an entry: a bit is set where a hash falls, as a fraction of the range of the hashes. Of
 * eight absent keys it lets one pass.
 */
private[cold] final class SlotFilter(lowest: Int, highest: Int, entries: Int) {
  private val bits = math.max(64L, entries.toLong * 8)
  private val range = (highest.toLong & 0xffffffffL) - (lowest.toLong & 0xffffffffL) + 1
  private val set = new BitSet(bits.toInt)

  def bytes: Long = bits / 8

  def add(hash: Int): Unit = set.set(bitOf(hash))

  def mayHave(hash: Int): Boolean =
    Integer.compareUnsigned(hash, lowest) >= 0 && Integer.compareUnsigned(hash, highest) <= 0 &&
      set.get(bitOf(hash))

  private def bitOf(hash: Int): Int =
    (((hash.toLong & 0xffffffffL) - (lowest.toLong & 0xffffffffL)) * bits / range).toInt
}
