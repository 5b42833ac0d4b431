package tailrace.recovery

import tailrace.format.StateFileWriter

/**
 * What a restart reads before the first batch: all state, or the index of the newest snapshot (RFC 16).
 *
 * @param blockSize of snapshots that are written: what one look-up then reads of them
 */
sealed abstract class RestartMode(val name: String, val isLazy: Boolean, val blockSize: Int)

object RestartMode {
  case object Eager extends RestartMode("eager", isLazy = false, StateFileWriter.HashedBlockSize)
  case object Lazy extends RestartMode("lazy", isLazy = true, StateFileWriter.HashedBlockSize)
  /** For tests: blocks of a few records, so that a small state has many. */
  case object Always extends RestartMode("always", isLazy = true, 128)

  val all: Seq[RestartMode] = Seq(Eager, Lazy, Always)
}
