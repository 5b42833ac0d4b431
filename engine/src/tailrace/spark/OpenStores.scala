package tailrace.spark

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.execution.streaming.state.StateStoreId

/**
 * The stores that tasks are updating now, by run and id. A join has four for each partition, in the
 * hands of the same task; what is due in one says which keys of another are of interest.
 */
private[spark] object OpenStores {
  private val stores = new ConcurrentHashMap[(String, StateStoreId), TailraceStateStore]

  def opened(run: String, store: TailraceStateStore): Unit = stores.put((run, store.id), store)

  def ended(run: String, store: TailraceStateStore): Unit = stores.remove((run, store.id), store)

  /** The store of the same operator and partition with this name. */
  def sibling(run: String, id: StateStoreId, name: String): Option[TailraceStateStore] =
    Option(stores.get((run, id.copy(storeName = name))))
}
