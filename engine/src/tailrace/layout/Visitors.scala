package tailrace.layout

/*
 * Problem: records, nodes and slots' words are addresses at run time, but in a function's type, such
 * as `Record => Unit`, each would become an object with every call.
 *
 * Answer: a trait with one method for each kind of function. A lambda can be given for it, and its
 * method takes the address as it is.
 */

@FunctionalInterface
trait RecordVisitor {
  def apply(record: Record): Unit
}

/** Makes another object of a record: its key's row, say. */
@FunctionalInterface
trait RecordReader[+T] {
  def apply(record: Record): T
}

/** Copies a record to another address, which it returns. */
@FunctionalInterface
trait RecordMover {
  def apply(record: Record): Record
}

/** Is shown records and their stamps by the clock hand, and says whether to go on. */
@FunctionalInterface
trait SweepVisitor {
  def apply(hash: Int, record: Record, stamp: Int): Boolean
}

@FunctionalInterface
trait WordVisitor {
  def apply(word: SlotWord): Unit
}

@FunctionalInterface
trait NodeVisitor {
  def apply(node: Node): Unit
}

@FunctionalInterface
trait NodeTest {
  def apply(node: Node): Boolean
}

@FunctionalInterface
trait NodeNumber {
  def apply(node: Node): Long
}
