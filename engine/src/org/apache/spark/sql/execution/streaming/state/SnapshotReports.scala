package org.apache.spark.sql.execution.streaming.state

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.spark.internal.config.ConfigEntry
import org.apache.spark.sql.internal.SQLConf

import tailrace.commit.{SnapshotLag, SnapshotPolicy}

/**
 * Reports a store's snapshots to Spark's coordinator, and knows when it would miss one. It takes a
 * store without a recent snapshot for one that lags behind, warns about it, and asks for a snapshot
 * with every commit (see [[SnapshotLag]]). In this package because Spark keeps the reference to its
 * coordinator to itself.
 */
final class SnapshotReports(store: StateStoreId, conf: StateStoreConf, hadoopConf: Configuration) {
  import SnapshotReports._

  private val lag = new SnapshotLag(
    versions = setting(conf, Versions) * conf.minDeltasForSnapshot,
    millis = setting(conf, Millis) * conf.maintenanceInterval,
    share = SnapshotLag.Share * SnapshotPolicy.shareOf(store.partitionId))

  def uploaded(version: Long): Unit = StateStoreProvider.coordinatorRef.foreach { coordinator =>
    val run = UUID.fromString(StateStoreProvider.getRunId(hadoopConf))
    val now = System.currentTimeMillis()
    coordinator.snapshotUploaded(StateStoreProviderId(store, run), version, now)
    lag.reported(version, now)
  }

  def isMissed(version: Long): Boolean = lag.isNear(version, System.currentTimeMillis())
}

object SnapshotReports {
  private val Versions = SQLConf.STATE_STORE_COORDINATOR_MULTIPLIER_FOR_MIN_VERSION_DIFF_TO_LOG
  private val Millis = SQLConf.STATE_STORE_COORDINATOR_MULTIPLIER_FOR_MIN_TIME_DIFF_TO_LOG

  /** As the coordinator reads it, if the query's session and the first one agree. */
  private def setting(conf: StateStoreConf, entry: ConfigEntry[Long]): Long =
    conf.sqlConfs.get(entry.key).map(_.toLong).getOrElse(entry.defaultValue.get)
}
