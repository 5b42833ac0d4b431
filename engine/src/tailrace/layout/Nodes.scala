package tailrace.layout

/** Some nodes, as an array of their addresses: an `Array[Node]` would have an object of each. */
final class Nodes(val raw: Array[Long]) extends AnyVal {
  def length: Int = raw.length

  def apply(index: Int): Node = new Node(raw(index))

  def foreach(visit: NodeVisitor): Unit = {
    var index = 0
    while (index < raw.length) {
      visit(new Node(raw(index)))
      index += 1
    }
  }

  /** The first that passes the test, or -1. */
  def indexWhere(test: NodeTest): Int = {
    var index = 0
    while (index < raw.length && !test(new Node(raw(index)))) index += 1
    if (index < raw.length) index else -1
  }

  /** The sum of a number of each. */
  def sum(number: NodeNumber): Long = {
    var total = 0L
    var index = 0
    while (index < raw.length) {
      total += number(new Node(raw(index)))
      index += 1
    }
    total
  }

  def drop(count: Int): Nodes = new Nodes(raw.drop(count))
}

object Nodes {
  val Empty: Nodes = new Nodes(Array.emptyLongArray)
}
