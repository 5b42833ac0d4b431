package tailrace.prefetch

/**
 * The hints of one task on their way out: by partition, some thousand to a message.
 *
 * Left out are hot keys (see [[CountMinSketch]]) and keys of which the task has sent a hint a short
 * time ago: a table with one place for many hashes remembers the last of each.
 *
 * @param send takes a partition, its hashes, and how many keys were left out as hot since the last call
 */
final class HintBuffers(
    partitions: Int, sketch: CountMinSketch, send: (Int, Array[Int], Long) => Unit) {
  import HintBuffers._

  private val pending = new Array[Array[Int]](partitions)
  private val filled = new Array[Int](partitions)
  private val recent = new Array[Int](Recent)
  private var hot = 0L

  /** Whether the key of this hash needs a hint; its partition is found only then. */
  def isWanted(hash: Int): Boolean = {
    val place = hash & (Recent - 1)
    if (sketch.isHot(hash)) {
      hot += 1
      false
    } else if (recent(place) == hash) {
      false
    } else {
      recent(place) = hash
      true
    }
  }

  def add(partition: Int, hash: Int): Unit = {
    var hashes = pending(partition)
    if (hashes == null) {
      hashes = new Array[Int](FirstSize)
      pending(partition) = hashes
    } else if (filled(partition) == hashes.length) {
      hashes = java.util.Arrays.copyOf(hashes, math.min(Most, 4 * hashes.length))
      pending(partition) = hashes
    }
    hashes(filled(partition)) = hash
    filled(partition) += 1
    if (filled(partition) == Most) flush(partition)
  }

  /** The task has no more rows. */
  def flush(): Unit = pending.indices.foreach(flush)

  private def flush(partition: Int): Unit = if (filled(partition) > 0) {
    val hashes = java.util.Arrays.copyOf(pending(partition), filled(partition))
    filled(partition) = 0
    val left = hot
    hot = 0L
    send(partition, hashes, left)
  }
}

private object HintBuffers {
  /** Of a message: 16 KiB. */
  val Most: Int = 1 << 12
  val FirstSize: Int = 1 << 8
  val Recent: Int = 1 << 12
}
