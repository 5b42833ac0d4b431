package tailrace.memory

import org.apache.spark.unsafe.Platform

/**
 * Problem: millions of small records that come and go; as objects they would be the garbage
 * collector's work, and one `malloc` each would cost more than the record.
 *
 * Answer: chunks of raw memory, cut by a moving pointer. A freed slot goes to the list of its size
 * (the link is kept inside the slot) and is the first to be used again. Sizes up to 1 KiB are exact
 * multiples of eight, larger ones are rounded to four steps per power of two, and a slot larger
 * than half a chunk has a piece of memory of its own.
 *
 * When the budget gives no further chunk, `makeRoom` is asked to free slots (the store spills
 * records), larger slots are cut for smaller records, and chunks without a slot in use go back.
 *
 * Invariants: addresses are multiples of eight; a slot's size follows from the size asked for, so
 * `free` must be given the same one; one thread at a time. Addresses are raw here, plain `Long`s:
 * code that writes a record or a node there gives the address its type (`layout.Record`,
 * `layout.Node`).
 *
 * @param makeRoom frees slots of this arena, of any size; false: there is nothing to free
 */
final class Arena(budget: Budget, makeRoom: () => Boolean = Arena.CannotSpill) {
  import Arena._

  private val spills = makeRoom ne CannotSpill

  private val freeLists = new Array[Long](ClassCount)
  private val chunks = new scala.collection.mutable.ArrayBuffer[Chunk]
  private val large = new java.util.HashMap[Long, Long]
  private var nextChunk = FirstChunk
  private var cursor = 0L
  private var end = 0L
  private var reserved = 0L
  private var live = 0L
  private var allocated = 0L
  private var closed = false

  /** Bytes taken from the machine. */
  def reservedBytes: Long = reserved

  /** Bytes of the slots in use. */
  def liveBytes: Long = live

  /** Bytes that need not be asked for: slots that were freed, and the rest of the last chunk. */
  def freeBytes: Long = reserved - live

  /** Bytes of all slots that were ever asked for: how much a batch takes. */
  def allocatedBytes: Long = allocated

  def allocate(size: Long): Long = {
    val slot = slotSize(size)
    val address = if (slot > LargestSlot) allocateLarge(slot) else allocateSlot(slot)
    live += slot
    allocated += slot
    address
  }

  private def allocateSlot(slot: Long): Long = {
    val list = classOf(slot)
    val head = freeLists(list)
    if (head != 0L) {
      freeLists(list) = Platform.getLong(null, head)
      head
    } else {
      if (cursor + slot > end && !addChunk()) return allocateInNeed(slot)
      val address = cursor
      cursor += slot
      address
    }
  }

  def free(address: Long, size: Long): Unit = {
    val slot = slotSize(size)
    live -= slot
    if (budget.poisons) Platform.setMemory(address, Poison, slot)
    if (slot > LargestSlot) {
      large.remove(address)
      Platform.freeMemory(address)
      reserved -= slot
      budget.release(slot)
    } else {
      push(address, slot)
    }
  }

  /** Gives everything back. Addresses handed out before must not be touched again. */
  def close(): Unit = if (!closed) {
    closed = true
    if (budget.poisons) chunks.foreach(chunk => Platform.setMemory(chunk.start, Poison, chunk.size))
    chunks.foreach(chunk => Platform.freeMemory(chunk.start))
    large.keySet.forEach(address => Platform.freeMemory(address))
    budget.release(reserved)
    chunks.clear()
    large.clear()
    reserved = 0L
    live = 0L
  }

  private def push(address: Long, slot: Long): Unit = {
    Platform.putLong(null, address, freeLists(classOf(slot)))
    freeLists(classOf(slot)) = address
  }

  private def allocateLarge(slot: Long): Long = {
    var isHope = spills
    while (isHope && !budget.tryReserveForRecords(slot)) {
      isHope = makeRoom()
      releaseEmptyChunks()
    }
    if (!isHope) budget.reserve(slot)
    val address = named(Platform.allocateMemory(slot), slot)
    reserved += slot
    large.put(address, slot)
    address
  }

  /** A small budget, or a small share of it, is not spent on one chunk. */
  private def largestChunk: Long =
    math.max(FirstChunk, math.min(LargestChunk, budget.share / ChunksPerShare))

  private def addChunk(): Boolean = {
    val size = math.min(nextChunk, largestChunk)
    if (!spills) budget.reserve(size)
    val fits = !spills || budget.tryReserveForRecords(size)
    if (fits) useChunk(size)
    fits
  }

  private def useChunk(size: Long): Unit = {
    retireRest()
    cursor = named(Platform.allocateMemory(size), size)
    end = cursor + size
    chunks += Chunk(cursor, size)
    reserved += size
    nextChunk = size * 2
  }

  /** Takes room for all that another arena holds; false: there is not enough. */
  def prepare(other: Arena): Boolean = {
    val inSlots = other.live - other.largeBytes
    val fits = budget.tryReserve(inSlots + other.largeBytes)
    if (fits) {
      budget.release(other.largeBytes)
      if (inSlots > 0) useChunk(inSlots) else budget.release(inSlots)
      nextChunk = FirstChunk
    }
    fits
  }

  private def largeBytes: Long = {
    var total = 0L
    large.values.forEach(size => total += size)
    total
  }

  /** The rest of the present chunk becomes free slots for small records. */
  private def retireRest(): Unit = {
    while (end - cursor >= 8) {
      // Only sizes that are a class of their own.
      val piece = math.min(end - cursor, LargestExact)
      push(cursor, piece)
      cursor += piece
    }
    cursor = 0L
    end = 0L
  }

  // ---- when the budget has no more chunks

  /** Slots are freed until one of this size is there, or can be cut; then memory is at its end. */
  private def allocateInNeed(slot: Long): Long = {
    while (makeRoom()) {
      val found = takeOrCut(slot)
      if (found != 0L) return found
    }
    val found = takeOrCut(slot)
    if (found != 0L) return found
    releaseEmptyChunks()
    val size = math.max(FirstChunk, slot)
    if (!budget.tryReserveForRecords(size)) budget.reserve(size)
    useChunk(size)
    allocateSlot(slot)
  }

  /** A free slot of this size, or the beginning of a larger one. */
  private def takeOrCut(slot: Long): Long = {
    var list = classOf(slot)
    val exact = (LargestExact / 8).toInt
    if (freeLists(list) == 0L && list <= exact) {
      // The rest must be a slot, too: of the exact sizes every multiple of eight is one.
      while (list <= exact && freeLists(list) == 0L) list += 1
      if (list > exact) return 0L
    }
    val head = freeLists(list)
    if (head == 0L) return 0L
    freeLists(list) = Platform.getLong(null, head)
    if (list <= exact && list * 8L > slot) push(head + slot, list * 8L - slot)
    head
  }

  /**
   * Chunks in which no slot is in use go back to the budget. Costs a walk over all free slots: for
   * when memory is short. Returns the bytes given back.
   */
  def releaseEmptyChunks(): Long = {
    retireRest()
    val ordered = chunks.sortBy(_.start).toArray
    val starts = ordered.map(_.start)
    val free = new Array[Long](ordered.length)
    foreachFree((address, slot) => free(chunkOf(starts, address)) += slot)
    val empty = ordered.indices.map(index => free(index) == ordered(index).size).toArray
    var released = 0L
    if (empty.contains(true)) {
      val kept = freeLists.clone()
      java.util.Arrays.fill(freeLists, 0L)
      foreachFree(kept) { (address, slot) =>
        if (!empty(chunkOf(starts, address))) push(address, slot)
      }
      chunks.clear()
      ordered.indices.foreach { index =>
        if (empty(index)) {
          Platform.freeMemory(ordered(index).start)
          released += ordered(index).size
        } else {
          chunks += ordered(index)
        }
      }
      reserved -= released
      budget.release(released)
    }
    released
  }

  private def foreachFree(visit: (Long, Long) => Unit): Unit = foreachFree(freeLists)(visit)

  private def foreachFree(heads: Array[Long])(visit: (Long, Long) => Unit): Unit = {
    var list = 0
    while (list < heads.length) {
      val slot = sizeOfClass(list)
      var address = heads(list)
      while (address != 0L) {
        val next = Platform.getLong(null, address)
        visit(address, slot)
        address = next
      }
      list += 1
    }
  }

  private def chunkOf(starts: Array[Long], address: Long): Int = {
    val found = java.util.Arrays.binarySearch(starts, address)
    if (found >= 0) found else -found - 2
  }
}

object Arena {
  /** The bytes that overwrite freed memory, where a test looks for code that still reads it. */
  private val Poison: Byte = 0xdb.toByte

  private val CannotSpill: () => Boolean = () => false
  private val FirstChunk = 64L << 10
  private val LargestChunk = 4L << 20
  private val ChunksPerShare = 32
  private val LargestExact = 1024L
  private val LargestSlot = FirstChunk / 2
  private val ExactClasses = (LargestExact / 8).toInt + 1
  private val StepsPerDoubling = 4
  private val ClassCount = ExactClasses + StepsPerDoubling * 6

  private final case class Chunk(start: Long, size: Long)

  /** Tables have other data in the rest of a word. No system that Java runs on has longer ones. */
  final val AddressBits = 48

  private def named(address: Long, size: Long): Long = {
    if (address + size >>> AddressBits != 0L) {
      throw new IllegalStateException(s"memory at $address: addresses have at most $AddressBits bits")
    }
    address
  }

  /** The size of the slot that `allocate(size)` cuts. */
  def slotSize(size: Long): Long = {
    val rounded = math.max(8L, (size + 7L) & ~7L)
    if (rounded <= LargestExact) {
      rounded
    } else if (rounded <= LargestSlot) {
      val step = java.lang.Long.highestOneBit(rounded - 1) / StepsPerDoubling
      (rounded + step - 1) / step * step
    } else {
      rounded
    }
  }

  private def classOf(slot: Long): Int = {
    if (slot <= LargestExact) {
      (slot / 8).toInt
    } else {
      val top = java.lang.Long.highestOneBit(slot - 1)
      val doubling = java.lang.Long.numberOfTrailingZeros(top / LargestExact)
      val step = ((slot - 1 - top) / (top / StepsPerDoubling)).toInt
      ExactClasses + doubling * StepsPerDoubling + step
    }
  }

  private def sizeOfClass(list: Int): Long =
    if (list < ExactClasses) {
      list * 8L
    } else {
      val top = LargestExact << ((list - ExactClasses) / StepsPerDoubling)
      top + ((list - ExactClasses) % StepsPerDoubling + 1) * (top / StepsPerDoubling)
    }
}
