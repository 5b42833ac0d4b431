package tailrace.memory

import org.apache.spark.unsafe.Platform

/**
 * Problem: millions of small records that come and go; as objects they would be the garbage
 * collector's work, and one `malloc` each would cost more than the record.
 *
 * Answer: chunks of raw memory, cut by a moving pointer. A freed slot goes to the list of its size
 * (the link is kept inside the slot) and is the first to be used again. Sizes up to 1 KiB are exact
 * multiples of eight, larger ones are rounded to four steps per power of two, and what is larger
 * than half a chunk has a piece of memory of its own.
 *
 * Invariants: addresses are multiples of eight; a slot's size follows from the size asked for, so
 * `free` must be given the same one; one thread at a time.
 */
final class Arena(budget: Budget) {
  import Arena._

  private val freeLists = new Array[Long](ClassCount)
  private val chunks = new scala.collection.mutable.ArrayBuffer[(Long, Long)]
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

  /** Bytes of all slots that were ever asked for: how much a batch takes. */
  def allocatedBytes: Long = allocated

  def allocate(size: Long): Long = {
    val slot = slotSize(size)
    live += slot
    allocated += slot
    if (slot > LargestSlot) return allocateLarge(slot)
    val list = classOf(slot)
    val head = freeLists(list)
    if (head != 0L) {
      freeLists(list) = Platform.getLong(null, head)
      return head
    }
    if (cursor + slot > end) addChunk()
    val address = cursor
    cursor += slot
    address
  }

  def free(address: Long, size: Long): Unit = {
    val slot = slotSize(size)
    live -= slot
    if (slot > LargestSlot) {
      large.remove(address)
      Platform.freeMemory(address)
      reserved -= slot
      budget.release(slot)
    } else {
      val list = classOf(slot)
      Platform.putLong(null, address, freeLists(list))
      freeLists(list) = address
    }
  }

  /** Gives everything back. Addresses handed out before must not be touched again. */
  def close(): Unit = if (!closed) {
    closed = true
    chunks.foreach { case (address, _) => Platform.freeMemory(address) }
    large.keySet.forEach(address => Platform.freeMemory(address))
    budget.release(reserved)
    chunks.clear()
    large.clear()
    reserved = 0L
    live = 0L
  }

  private def allocateLarge(slot: Long): Long = {
    budget.reserve(slot)
    val address = Platform.allocateMemory(slot)
    reserved += slot
    large.put(address, slot)
    address
  }

  /** A small budget is not spent on one chunk: state has to leave memory before it is full. */
  private def largestChunk: Long =
    math.max(FirstChunk, math.min(LargestChunk, budget.limit / ChunksPerBudget))

  private def addChunk(): Unit = {
    // What is left of the old chunk serves small records later on.
    val rest = end - cursor
    if (rest >= 8 && rest <= LargestExact) {
      Platform.putLong(null, cursor, freeLists(classOf(rest)))
      freeLists(classOf(rest)) = cursor
    }
    budget.reserve(nextChunk)
    cursor = Platform.allocateMemory(nextChunk)
    end = cursor + nextChunk
    chunks += ((cursor, nextChunk))
    reserved += nextChunk
    nextChunk = math.min(nextChunk * 2, largestChunk)
  }
}

object Arena {
  private val FirstChunk = 64L << 10
  private val LargestChunk = 4L << 20
  private val ChunksPerBudget = 64
  private val LargestExact = 1024L
  private val LargestSlot = FirstChunk / 2
  private val ExactClasses = (LargestExact / 8).toInt + 1
  private val StepsPerDoubling = 4
  private val ClassCount = ExactClasses + StepsPerDoubling * 6

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
}
