package tailrace.cold

import java.io.File

/**
 * Where and how a store keeps what does not fit into memory.
 *
 * @param leaves           when state leaves memory
 * @param newFolder        makes an empty folder on this machine
 * @param readRatio        the part of all lists that one read takes along (FlowKV: 0.02)
 * @param maxAmplification how many times larger than its living part the log may be (FlowKV: 1.5)
 */
final case class ColdStorage(
    leaves: Leaves, newFolder: () => File, readRatio: Double, maxAmplification: Double) {

  /** What one cleaning reads at the most: it is done between two batches. */
  def segmentSize: Long = if (leaves == Leaves.Always) 4L << 10 else 4L << 20
}

/** When state leaves memory: never (a state that outgrows it is an error), or between batches. */
sealed abstract class Leaves(val name: String)

object Leaves {
  case object Never extends Leaves("off")
  case object WhenTight extends Leaves("on")
  /** All of it, after every batch: for tests. */
  case object Always extends Leaves("always")

  val all: Seq[Leaves] = Seq(WhenTight, Never, Always)
}

object ColdStorage {
  val DefaultReadRatio = 0.02
  val DefaultMaxAmplification = 1.5

  def default: ColdStorage = in(new File(System.getProperty("java.io.tmpdir")))

  def in(base: File): ColdStorage = ColdStorage(
    Leaves.WhenTight, () => ColdHome.newFolder(base), DefaultReadRatio, DefaultMaxAmplification)
}
