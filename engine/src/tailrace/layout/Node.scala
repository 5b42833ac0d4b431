package tailrace.layout

import org.apache.spark.unsafe.Platform

import tailrace.cold.ColdRef
import tailrace.memory.Arena

/**
 * One value of a list, or several that were spilled together, in a slot of the arena. A list's
 * [[Record]] names its last node, and each node the one before it.
 *
 * {{{
 *   node := node before it (address, u64; 0 is the first)  length(u32)  cold(u32)  value
 *           cold 0: the value is the list's; otherwise it is a reference (see ColdRef) to as many
 *           values of the list, which were spilled
 * }}}
 *
 * Invariant: only the reference of a cold node ever changes, when the log is cleaned. Lists that
 * grow by a value share the nodes of the list before.
 *
 * At run time a node is its address. In a collection, a tuple or a function's type it would be an
 * object: many nodes are a [[Nodes]], and functions of nodes are those of Visitors.scala.
 */
final class Node(val address: Long) extends AnyVal {
  import Node._

  def exists: Boolean = address != 0L

  def isNone: Boolean = address == 0L

  def before: Node = new Node(Platform.getLong(null, address))

  def length: Int = Platform.getInt(null, address + 8)

  def valueAddress: Long = address + HeaderSize

  def size: Long = HeaderSize.toLong + length

  def isCold: Boolean = coldValues > 0

  /** How many values a node stands for that are not in memory; 0: it has its value. */
  def coldValues: Int = Platform.getInt(null, address + 12)

  def coldRef: ColdRef = new ColdRef(Platform.getLong(null, address + HeaderSize))

  def setColdRef(ref: ColdRef): Unit = Platform.putLong(null, address + HeaderSize, ref.raw)

  def free(arena: Arena): Unit = arena.free(address, size)
}

object Node {
  private final val HeaderSize = 16

  /** In the place of a node: there is none. */
  def None: Node = new Node(0L)

  def create(
      arena: Arena, before: Node, valueBase: AnyRef, valueOffset: Long, length: Int): Node = {
    val address = arena.allocate(HeaderSize.toLong + length)
    Platform.putLong(null, address, before.address)
    Platform.putInt(null, address + 8, length)
    Platform.putInt(null, address + 12, 0)
    Platform.copyMemory(valueBase, valueOffset, null, address + HeaderSize, length.toLong)
    new Node(address)
  }

  /** A node for values that were spilled. */
  def createCold(arena: Arena, before: Node, ref: ColdRef, values: Int): Node = {
    val address = arena.allocate(HeaderSize + 8L)
    Platform.putLong(null, address, before.address)
    Platform.putInt(null, address + 8, 8)
    Platform.putInt(null, address + 12, values)
    Platform.putLong(null, address + HeaderSize, ref.raw)
    new Node(address)
  }
}
