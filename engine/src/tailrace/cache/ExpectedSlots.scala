package tailrace.cache

import scala.collection.mutable

import tailrace.cold.ColdSlots

/** Hashes that will be looked up, by the file of slots that may have their references. */
private[cache] final class ExpectedSlots {
  private val files = mutable.LinkedHashMap.empty[ColdSlots, mutable.ArrayBuilder.ofInt]
  private var lastFile: ColdSlots = null
  private var lastHashes: mutable.ArrayBuilder.ofInt = _

  def add(slots: ColdSlots, hash: Int): Unit = {
    if (slots ne lastFile) {
      lastFile = slots
      lastHashes = files.getOrElseUpdate(slots, new mutable.ArrayBuilder.ofInt)
    }
    lastHashes += hash
  }

  /** Gives the hashes of each file, in their order, each once, some at a time; then none is left. */
  def takeAll(most: Int)(use: (ColdSlots, Array[Int]) => Unit): Unit = if (files.nonEmpty) {
    val taken = files.toSeq
    clear()
    taken.foreach { case (slots, hashes) =>
      ExpectedSlots.inOrder(hashes.result()).grouped(most).foreach(use(slots, _))
    }
  }

  def clear(): Unit = {
    files.clear()
    lastFile = null
  }
}

private object ExpectedSlots {
  /** As unsigned numbers, each once. */
  def inOrder(hashes: Array[Int]): Array[Int] = {
    val flipped = hashes.map(_ ^ Int.MinValue)
    java.util.Arrays.sort(flipped)
    var kept = 0
    var at = 0
    while (at < flipped.length) {
      if (at == 0 || flipped(at) != flipped(at - 1)) {
        flipped(kept) = flipped(at)
        kept += 1
      }
      at += 1
    }
    java.util.Arrays.copyOf(flipped, kept).map(_ ^ Int.MinValue)
  }
}
