package tailrace.cold

import tailrace.files.LocalRoot

/**
 * Where and how a store keeps its spilled state.
 *
 * @param mode             when records are spilled
 * @param tier             where its files are
 * @param readRatio        the part of all lists that one read takes along (FlowKV: 0.02)
 * @param maxAmplification how many times larger than its living part the log may be (FlowKV: 1.5)
 * @param eviction         which records are spilled first
 */
final case class ColdStorage(
    mode: SpillMode, tier: ColdTier, readRatio: Double, maxAmplification: Double,
    eviction: EvictionPolicy) {

  /**
   * A sixteenth of the log, within bounds. One cleaning reads no more than that, and a segment that is
   * not full has no more than that in excess of its living part.
   */
  def segmentSize(liveBytes: Long): Long =
    if (mode == SpillMode.Always) 4L << 10
    else math.max(ColdStorage.SmallestSegment, math.min(ColdRef.LargestOffset, liveBytes / 16))

  /** How much of the log is sorted at a time. */
  def sortBuffer: Int = if (mode == SpillMode.Always) 4 << 10 else 8 << 20

  /** A log this small is not cleaned. */
  def slack: Long = if (mode == SpillMode.Always) 4L << 10 else ColdStorage.SmallestSegment
}

/** When records are spilled: never (a state that outgrows memory is an error), or if need be. */
sealed abstract class SpillMode(val name: String)

object SpillMode {
  case object Never extends SpillMode("off")
  case object WhenTight extends SpillMode("on")
  /**
   * For tests: every other batch begins with all state spilled; while the others run, all that they
   * do not use is spilled every few operations.
   */
  case object Always extends SpillMode("always")

  val all: Seq[SpillMode] = Seq(WhenTight, Never, Always)
}

object ColdStorage {
  val DefaultReadRatio = 0.02
  val DefaultMaxAmplification = 1.5
  private val SmallestSegment = 256L << 10

  def in(tier: ColdTier): ColdStorage =
    ColdStorage(SpillMode.WhenTight, tier, DefaultReadRatio, DefaultMaxAmplification,
      EvictionPolicy.Timestamp)

  /** In files on this machine. */
  def in(root: LocalRoot, folders: ColdFolders): ColdStorage =
    in(LocalTier.in(root, folders, ColdIo.Buffered))
}
