package tailrace.memory

import org.apache.spark.unsafe.Platform

/**
 * A growing list of 64-bit words outside the heap: the changes of a batch, the records of a
 * snapshot, those that expire together. One writer; readers only while it does not write.
 *
 * Words are raw here: their type (`layout.Record`, `layout.Node`, `cold.ColdRef`, a number) is known
 * to the class that keeps the list.
 */
final class AddressList(
    budget: Budget, firstCapacity: Long = 64L, mayOverdraw: Boolean = false) {
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
    if (count == capacity) {
      val larger = grown
      if (mayOverdraw) budget.overdraw((larger - capacity) << 3)
      else budget.reserve((larger - capacity) << 3)
      growTo(larger)
    }
    Platform.putLong(null, base + (count << 3), word)
    count += 1
  }

  /** Takes memory for so many words, if there is as much, and some to spare. */
  def tryReserve(words: Long): Boolean = {
    val fits = words <= capacity || budget.tryReserveSpare((words - capacity) << 3)
    if (fits && words > capacity) growTo(words)
    fits
  }

  def clear(): Unit = count = 0L

  def close(): Unit = if (base != 0L) {
    Platform.freeMemory(base)
    budget.release(capacity << 3)
    base = 0L
    capacity = 0L
    count = 0L
  }

  /** Long lists grow by a quarter: records could use the memory of a larger reserve. */
  private def grown: Long = math.max(firstCapacity,
    if (capacity < AddressList.LongList) capacity * 2 else capacity + capacity / 4)

  private def growTo(larger: Long): Unit = {
    val moved = Platform.allocateMemory(larger << 3)
    if (count > 0) Platform.copyMemory(null, base, null, moved, count << 3)
    if (base != 0L) Platform.freeMemory(base)
    base = moved
    capacity = larger
  }
}

private object AddressList {
  val LongList = 1L << 16
}
