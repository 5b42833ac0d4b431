package tailrace.commit

/**
 * Problem: Spark's coordinator takes a store for one that lags when the last reported snapshot is
 * more than `versions` versions and more than `millis` milliseconds old; it then warns, and asks
 * for a snapshot with every commit. A query with a slow trigger reaches both limits while
 * [[SnapshotPolicy]] still allows more changes files, though nothing lags.
 *
 * Answer: the store knows both limits and writes a snapshot before they are reached. It costs
 * little: because of the second limit there is at most one in several minutes.
 *
 * Like the coordinator, this begins with "a snapshot of version 0, long ago" in every run. Of a
 * query that ends by itself (`availableNow`) the coordinator looks at the versions alone: there it
 * may still ask first.
 *
 * @param share of both limits at which a snapshot is written, so that it is reported in time
 */
final class SnapshotLag(versions: Long, millis: Long, share: Double) {
  private var reportedVersion = 0L
  private var reportedMillis = 0L

  /** The snapshot of this version was reported to the coordinator. */
  def reported(version: Long, nowMillis: Long): Unit = synchronized {
    if (version > reportedVersion) {
      reportedVersion = version
      reportedMillis = nowMillis
    }
  }

  /** Whether the coordinator would soon miss a snapshot of a store that is at this version. */
  def isNear(version: Long, nowMillis: Long): Boolean = synchronized {
    version - reportedVersion >= share * versions && nowMillis - reportedMillis >= share * millis
  }
}

object SnapshotLag {
  /** The rest of both limits is for writing the snapshot and reporting it to the coordinator. */
  val Share = 0.8
}
