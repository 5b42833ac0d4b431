package tailrace.commit

/**
 * When a snapshot is due. Changes files are cheap to write and dear to replay; a snapshot is the
 * other way round. A new one is due once the changes since the last weigh `ratio` times as much as
 * it did, which bounds both what is written (1 + 1/ratio times the changes) and what is replayed
 * (ratio times the state); small states are spared until `SmallestBytes` of changes. Whatever the
 * sizes, no restart replays more than `maxChanges` files.
 *
 * @param share of both limits that counts here, up to 1: the stores of a query grow alike, and with
 *              different shares they do not all write their snapshots beside the same batch
 */
final class SnapshotPolicy(ratio: Double, maxChanges: Int, share: Double = 1.0) {
  import SnapshotPolicy._

  private var snapshotBytes = 0L
  private var changesBytes = 0L
  private var changesFiles = 0
  // What the snapshot that is being written will make unnecessary.
  private var coveredBytes = 0L
  private var coveredFiles = 0

  def isDue: Boolean = synchronized {
    changesFiles >= math.ceil(share * maxChanges) ||
      changesBytes >= share * math.max(SmallestBytes.toDouble, ratio * snapshotBytes)
  }

  def changesWritten(bytes: Long): Unit = synchronized {
    changesBytes += bytes
    changesFiles += 1
  }

  /** The state was frozen for a snapshot; changes written from now on count against it. */
  def snapshotStarted(): Unit = synchronized {
    coveredBytes = changesBytes
    coveredFiles = changesFiles
    changesBytes = 0L
    changesFiles = 0
  }

  def snapshotWritten(bytes: Long): Unit = synchronized {
    snapshotBytes = bytes
    coveredBytes = 0L
    coveredFiles = 0
  }

  /** There is no snapshot after all: what it was to cover is still to be replayed. */
  def snapshotFailed(): Unit = synchronized {
    changesBytes += coveredBytes
    changesFiles += coveredFiles
    coveredBytes = 0L
    coveredFiles = 0
  }

  def loaded(snapshotBytes: Long, changesBytes: Long, changesFiles: Int): Unit = synchronized {
    this.snapshotBytes = snapshotBytes
    this.changesBytes = changesBytes
    this.changesFiles = changesFiles
    coveredBytes = 0L
    coveredFiles = 0
  }
}

object SnapshotPolicy {
  private val SmallestBytes = 8L << 20

  /** The share of a partition: one of eight between 3/4 and 1. */
  def shareOf(partition: Int): Double = 1.0 - (partition & 7) / 32.0
}
