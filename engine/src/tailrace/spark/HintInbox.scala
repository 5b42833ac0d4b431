package tailrace.spark

import java.util.concurrent.{ConcurrentHashMap, CopyOnWriteArrayList}

import tailrace.prefetch.{HintBatch, HintedPartition}

/** The stores of this process that take hints, and the way to them. */
private[spark] final class HintInbox {
  private val stores = new ConcurrentHashMap[HintedPartition, CopyOnWriteArrayList[HintedStore]]

  def opened(partition: HintedPartition, store: HintedStore): Unit =
    stores.computeIfAbsent(partition, _ => new CopyOnWriteArrayList[HintedStore]).add(store)

  def closed(partition: HintedPartition, store: HintedStore): Unit =
    stores.computeIfPresent(partition, (_, present) => {
      present.remove(store)
      if (present.isEmpty) null else present
    })

  /** Nobody waits for it; hints for stores that are not here are dropped. */
  def take(hints: HintBatch): Unit = {
    val found = stores.get(hints.to)
    if (found != null) found.forEach(_.take(hints))
  }
}
