package tailrace.layout

import tailrace.cold.ColdRef
import tailrace.memory.Arena

/** The nodes of a new list, made one after the other, for `Record.createList`. */
final class NodeChain(arena: Arena) {
  private var firstNode = Node.None
  private var lastNode = Node.None
  private var nodes = 0L

  def first: Node = firstNode

  def last: Node = lastNode

  /** How many values. */
  def count: Long = nodes

  def add(base: AnyRef, offset: Long, length: Int): Unit = {
    lastNode = Node.create(arena, lastNode, base, offset, length)
    if (firstNode.isNone) firstNode = lastNode
    nodes += 1
  }

  /** A node for `values` values that were spilled. */
  def addCold(ref: ColdRef, values: Int): Unit = {
    lastNode = Node.createCold(arena, lastNode, ref, values)
    if (firstNode.isNone) firstNode = lastNode
    nodes += values
  }
}
