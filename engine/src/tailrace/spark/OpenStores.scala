package tailrace.spark

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.execution.streaming.state.StateStoreId

/**
 * The stores that tasks read or update now, by run and id. A join has four for each partition, in the
 * hands of the same task; the rows due in one say which keys of another are of interest. The rows that
 * an operator has not asked for yet say which keys of its store will be (`LookaheadExec`).
 */
private[spark] final class OpenStores {
  private val stores = new ConcurrentHashMap[(String, StateStoreId), TailraceStateStore]

  def opened(run: String, store: TailraceStateStore): Unit = stores.put((run, store.id), store)

  def ended(run: String, store: TailraceStateStore): Unit = stores.remove((run, store.id), store)

  def find(run: String, id: StateStoreId): Option[TailraceStateStore] = Option(stores.get((run, id)))

  /** The store of the same operator and partition with this name. */
  def sibling(run: String, id: StateStoreId, name: String): Option[TailraceStateStore] =
    find(run, id.copy(storeName = name))
}
