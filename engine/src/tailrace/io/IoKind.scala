package tailrace.io

import java.util.Locale

/**
 * The kinds of work beside the batches, most urgent first: a pack that the gate waits for, then
 * memory and records that a task waits for, then all that only tidies up.
 *
 * @param free how many jobs of the kind can run without a permit
 */
sealed abstract class IoKind(val name: String, val urgency: Int, val free: Int) {
  /** The failpoint that each job of the kind passes as it begins. */
  val failpoint: String = s"io.${name.toLowerCase(Locale.ROOT)}"
}

object IoKind {
  case object Upload extends IoKind("upload", 0, free = 0)
  case object Spill extends IoKind("spill", 1, free = 1)
  /** A look-up waits for it; `Read` is for look-ups to come. */
  case object Fetch extends IoKind("fetch", 2, free = 4)
  case object Read extends IoKind("read", 3, free = 8)
  case object LocalCopy extends IoKind("localCopy", 4, free = 0)
  case object Merge extends IoKind("merge", 5, free = 0)
  case object Clean extends IoKind("clean", 6, free = 0)
  /** State that a restart has left in a snapshot. Look-ups that need some do not wait for this. */
  case object Load extends IoKind("load", 7, free = 0)
  case object Snapshot extends IoKind("snapshot", 8, free = 0)

  val all: Seq[IoKind] = Seq(Upload, Spill, Fetch, Read, LocalCopy, Merge, Clean, Load, Snapshot)
}
