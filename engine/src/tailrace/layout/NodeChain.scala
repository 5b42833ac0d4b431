package tailrace.layout

import tailrace.memory.Arena

/** The nodes of a new list, made one after the other: what `Record.createList` is given. */
final class NodeChain(arena: Arena) {
  private var firstNode = 0L
  private var lastNode = 0L
  private var nodes = 0L

  def first: Long = firstNode

  def last: Long = lastNode

  /** How many values. */
  def count: Long = nodes

  def add(base: AnyRef, offset: Long, length: Int): Unit = {
    lastNode = Record.createNode(arena, lastNode, base, offset, length)
    if (firstNode == 0L) firstNode = lastNode
    nodes += 1
  }

  /** A node for `values` values that have left memory. */
  def addCold(ref: Long, values: Int): Unit = {
    lastNode = Record.createColdNode(arena, lastNode, ref, values)
    if (firstNode == 0L) firstNode = lastNode
    nodes += values
  }
}
