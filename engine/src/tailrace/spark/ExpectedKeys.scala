package tailrace.spark

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreId}

import tailrace.cache.{Origin, PrefetchMode}
import tailrace.layout.UseClock
import tailrace.store.StateTable

/**
 * The keys that an operator will look up in a store: of rows that it has not asked for yet (RFC 12).
 * Used by the thread that owns the store, as all of it is.
 */
final class ExpectedKeys private[spark] (
    table: StateTable, mode: PrefetchMode, accessOf: String => FamilyAccess) {
  private var untilProbe = PrefetchMode.Probes
  private[spark] var beganMillis = 0L

  /** The operator asks for its first row: its look-ups begin. */
  def began(): Unit = if (beganMillis == 0L) beganMillis = System.currentTimeMillis()

  /** Whether they save time: some state is not in memory, and it takes time to read it. */
  def areOfUse: Boolean = isPartial || !table.coldLog.isEmpty && (mode match {
    case PrefetchMode.On | PrefetchMode.Demand => true
    case PrefetchMode.Auto => table.prefetch.isWorthwhile
    case PrefetchMode.Off => false
  })

  /** Some of it is still in a snapshot, from which a restart reads it. */
  private def isPartial: Boolean = mode != PrefetchMode.Off && table.isPartial

  /** Whether there is room for the records of more. */
  def haveRoom: Boolean = table.prefetch.hasRoom

  /** The operator works on a row of this time from now on. */
  def moveTo(time: Long): Unit = table.clock.moveTo(time)

  /**
   * Whether something has to be read for the key.
   *
   * @param time  of the row, or unknown
   * @param ahead how many rows the operator gets before it
   */
  def add(
      key: UnsafeRow, family: String = StateStore.DEFAULT_COL_FAMILY_NAME,
      time: Long = UseClock.Unknown, ahead: Int = 0): Boolean = {
    untilProbe -= 1
    val isTold = untilProbe > 0 || mode != PrefetchMode.Auto || table.isPartial
    val before = table.prefetch.expectations
    if (isTold) {
      val access = accessOf(family)
      access.keys.encode(key)
      access.family.expect(access.keys.base, access.keys.offset, access.keys.length,
        table.clock.stampFor(time, ahead))
    } else {
      untilProbe = PrefetchMode.Probes
    }
    table.prefetch.expectations > before
  }

  /** Looks up the only number of a record now, as the operator is about to; 0: there is none. */
  private[spark] def numberOf(key: UnsafeRow, family: String): Long = {
    val access = accessOf(family)
    access.keys.encode(key)
    val found = access.valueOf(
      access.family.get(access.keys.base, access.keys.offset, access.keys.length))
    if (found == null) 0L else found.getLong(0)
  }

  /** Has the records of all of them read, in the background. */
  def fetch(): Unit = table.fetchExpected(
    if (mode == PrefetchMode.Demand) Origin.Demand else Origin.LookAhead)
}

object ExpectedKeys {
  /** Of a store that a task of this run has open. */
  def in(run: String, store: StateStoreId): Option[ExpectedKeys] =
    EngineRuntime.current.openStores.find(run, store).map(_.expected)
}
