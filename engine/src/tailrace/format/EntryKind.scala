package tailrace.format

/** The kinds of entry in a state file (FORMAT.md). A snapshot has puts and lists only. */
object EntryKind {
  final val Put = 1
  final val Remove = 2
  final val Append = 3
  final val PutList = 4
}
