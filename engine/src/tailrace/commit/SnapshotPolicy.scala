package tailrace.commit

/**
 * When a snapshot is due. Changes files are cheap to write and dear to replay; a snapshot is the
 * other way round. A new one is due once the changes since the last weigh `ratio` times as much as
 * it did, which bounds both the bytes written (1 + 1/ratio times the changes) and the bytes replayed
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
  // The changes that the snapshot being written will make unnecessary.
  private var coveredBytes = 0L
  private var coveredFiles = 0
  // A snapshot turned out to be damaged: another is due, whatever the sizes.
  private var isWanted = false
  private var coveredWish = false

  def isDue: Boolean = synchronized {
    isWanted || changesFiles >= math.ceil(share * maxChanges) ||
      changesBytes >= share * math.max(SmallestBytes.toDouble, ratio * snapshotBytes)
  }

  /** Another one is due at once. */
  def want(): Unit = synchronized { isWanted = true }

  def changesWritten(bytes: Long): Unit = synchronized {
    changesBytes += bytes
    changesFiles += 1
  }

  /** The state was frozen for a snapshot; changes written from now on count against it. */
  def snapshotStarted(): Unit = synchronized {
    coveredBytes = changesBytes
    coveredFiles = changesFiles
    coveredWish = isWanted
    changesBytes = 0L
    changesFiles = 0
    isWanted = false
  }

  def snapshotWritten(bytes: Long): Unit = synchronized {
    snapshotBytes = bytes
    coveredBytes = 0L
    coveredFiles = 0
    coveredWish = false
  }

  /** There is no snapshot after all: the changes that it was to cover are still to be replayed. */
  def snapshotFailed(): Unit = synchronized {
    changesBytes += coveredBytes
    changesFiles += coveredFiles
    isWanted |= coveredWish
    coveredBytes = 0L
    coveredFiles = 0
  }

  /** @param wanted whether a snapshot is due at once */
  def loaded(
      snapshotBytes: Long, changesBytes: Long, changesFiles: Int,
      wanted: Boolean = false): Unit = synchronized {
    this.snapshotBytes = snapshotBytes
    this.changesBytes = changesBytes
    this.changesFiles = changesFiles
    isWanted = wanted
    coveredWish = false
    coveredBytes = 0L
    coveredFiles = 0
  }
}

object SnapshotPolicy {
  private val SmallestBytes = 8L << 20

  /** The share of a partition: one of eight between 3/4 and 1. */
  def shareOf(partition: Int): Double = 1.0 - (partition & 7) / 32.0
}
