package tailrace.cache

import java.util.Arrays

import tailrace.cold.ColdRef

/** References that will be looked up, in the order in which that was said. */
private[cache] final class ExpectedRefs {
  import ExpectedRefs._

  private var refs = new Array[Long](Few)
  private var count = 0
  private var size = 0L

  def isEmpty: Boolean = count == 0

  /** Of their entries, and of others that were added. */
  def bytes: Long = size

  def add(ref: ColdRef): Unit = {
    if (count == refs.length) refs = Arrays.copyOf(refs, 2 * count)
    refs(count) = ref.raw
    count += 1
    size += ref.size
  }

  def addBytes(more: Long): Unit = size += more

  /** All of them; none is left. */
  def taken(): Array[Long] = {
    val all = Arrays.copyOf(refs, count)
    count = 0
    all
  }

  def clear(): Unit = {
    count = 0
    size = 0L
    if (refs.length > Few) refs = new Array[Long](Few)
  }
}

private object ExpectedRefs {
  val Few = 64
}
