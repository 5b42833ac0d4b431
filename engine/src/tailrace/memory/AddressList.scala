package tailrace.memory

import org.apache.spark.unsafe.Platform

/**
 * A growing list of 64-bit words outside the heap: the changes of a batch, the records of a
 * snapshot, those that fall due together. One writer; readers only while nobody writes.
 */
final class AddressList(budget: Budget, firstCapacity: Long = 64L) {
  private var base = 0L
  private var capacity = 0L
  private var count = 0L

  def size: Long = count

  def apply(index: Long): Long = Platform.getLong(null, base + (index << 3))

  def update(index: Long, word: Long): Unit = Platform.putLong(null, base + (index << 3), word)

  def removeLast(): Long = {
    count -= 1
    Platform.getLong(null, base + (count << 3))
  }

  def reservedBytes: Long = capacity << 3

  def add(word: Long): Unit = {
    if (count == capacity) grow()
    Platform.putLong(null, base + (count << 3), word)
    count += 1
  }

  def clear(): Unit = count = 0L

  def close(): Unit = if (base != 0L) {
    Platform.freeMemory(base)
    budget.release(capacity << 3)
    base = 0L
    capacity = 0L
    count = 0L
  }

  private def grow(): Unit = {
    val larger = math.max(firstCapacity, capacity * 2)
    budget.reserve((larger - capacity) << 3)
    val moved = Platform.allocateMemory(larger << 3)
    if (count > 0) Platform.copyMemory(null, base, null, moved, count << 3)
    if (base != 0L) Platform.freeMemory(base)
    base = moved
    capacity = larger
  }
}
