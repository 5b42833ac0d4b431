package org.apache.spark.sql.execution.streaming.state

import java.util.UUID

import org.apache.hadoop.conf.Configuration

/**
 * Tells Spark's coordinator of snapshots. It takes a store that never reports one for a store that
 * lags behind, warns about it, and asks for a snapshot with every commit. In this package because
 * Spark keeps the reference to its coordinator to itself.
 */
object SnapshotReports {
  def uploaded(store: StateStoreId, version: Long, conf: Configuration): Unit =
    StateStoreProvider.coordinatorRef.foreach { coordinator =>
      val run = UUID.fromString(StateStoreProvider.getRunId(conf))
      coordinator.snapshotUploaded(
        StateStoreProviderId(store, run), version, System.currentTimeMillis())
    }
}
