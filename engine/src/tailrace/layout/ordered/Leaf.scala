package tailrace.layout.ordered

import org.apache.spark.unsafe.Platform

import tailrace.layout.Record
import tailrace.memory.Budget

/**
 * A sorted run of up to `Leaf.Capacity` entries.
 * {{{ entry := sort word(u64) record(address, u64) }}}
 */
private[ordered] final class Leaf(budget: Budget) {
  budget.reserve(Leaf.Bytes)
  private val base = Platform.allocateMemory(Leaf.Bytes)
  private var entries = 0

  def count: Int = entries

  def isFull: Boolean = entries == Leaf.Capacity

  def word(index: Int): Long = Platform.getLong(null, base + (index.toLong << 4))

  def record(index: Int): Record =
    new Record(Platform.getLong(null, base + (index.toLong << 4) + 8))

  def setRecord(index: Int, record: Record): Unit =
    Platform.putLong(null, base + (index.toLong << 4) + 8, record.address)

  def insert(index: Int, word: Long, record: Record): Unit = {
    val at = base + (index.toLong << 4)
    Platform.copyMemory(null, at, null, at + 16, (entries - index).toLong << 4)
    Platform.putLong(null, at, word)
    Platform.putLong(null, at + 8, record.address)
    entries += 1
  }

  def delete(index: Int): Unit = {
    val at = base + (index.toLong << 4)
    Platform.copyMemory(null, at + 16, null, at, (entries - index - 1).toLong << 4)
    entries -= 1
  }

  /** Moves the entries from `index` on into a new leaf. */
  def splitAt(index: Int): Leaf = {
    val right = new Leaf(budget)
    val moved = entries - index
    Platform.copyMemory(null, base + (index.toLong << 4), null, right.base, moved.toLong << 4)
    right.entries = moved
    entries = index
    right
  }

  def close(): Unit = {
    Platform.freeMemory(base)
    budget.release(Leaf.Bytes)
  }
}

private[ordered] object Leaf {
  val Capacity = 256
  val Bytes: Long = Capacity * 16L
}
