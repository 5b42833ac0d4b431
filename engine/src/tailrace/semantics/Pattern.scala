package tailrace.semantics

/** How an operator uses a store. FlowKV and APSys '18 choose a layout by it. */
sealed abstract class Pattern(val name: String)

object Pattern {
  /** Rows are read, changed and written back, one key at a time. */
  case object Update extends Pattern("update")
  /** The same, and rows expire with event time: a window, or a time of their own. */
  case object WindowedUpdate extends Pattern("windowed update")
  /** Rows are added to their window's, and read once, when it closes. */
  case object AlignedAppend extends Pattern("aligned append")
  /** Rows are added to lists that are read once, each at a time of its own. */
  case object UnalignedAppend extends Pattern("unaligned append")
  /** Rows are found by a part of their key, or in the key's order. */
  case object Range extends Pattern("range")
  /** The plan does not say. The general layout serves every use. */
  case object Unknown extends Pattern("unknown")

  /** Those that a hint may name. */
  val all: Seq[Pattern] = Seq(Update, WindowedUpdate, AlignedAppend, UnalignedAppend, Range)
}
