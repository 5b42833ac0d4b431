package tailrace.store

import org.apache.spark.sql.catalyst.expressions.XXH64

/**
 * Problem: a batch can run twice, and the two runs need not agree. Files of one run must never be
 * combined with those of another.
 *
 * Answer: each version has a lineage, a 64-bit digest of the version before it and of the batch's
 * changes, whatever their order. Every file carries its own and its parent's. Two runs that changed
 * the same things the same way have the same lineage; others have not, and do not fit together.
 */
object Lineage {
  /** The lineage of version 0: no state. */
  val Empty = 0L

  def next(before: Long, version: Long, changes: Changes, familyOf: Int => Family): Long = {
    var sum = 0L
    var index = 0L
    while (index < changes.size) {
      if (changes.counts(index)) sum += digest(changes, index, familyOf)
      index += 1
    }
    XXH64.hashLong(sum, XXH64.hashLong(version, before))
  }

  private def digest(changes: Changes, index: Long, familyOf: Int => Family): Long = {
    val kind = changes.kind(index)
    val named = if (kind == Change.Remove) changes.replaced(index) else changes.record(index)
    val key = hash(named.keyAddress, named.keyLength,
      (kind.toLong << 32) | changes.family(index))
    kind match {
      case Change.Remove => key
      case Change.Put => hash(named.valueAddress, named.valueLength, key)
      case Change.Append =>
        val node = named.listLast
        // The number makes appends of one key count in their order.
        hash(node.valueAddress, node.length, key + named.listCount)
      case Change.PutList =>
        var digest = key
        named.nodes.foreach(node => digest = hash(node.valueAddress, node.length, digest))
        digest
    }
  }

  private def hash(address: Long, length: Int, seed: Long): Long =
    if ((length & 7) == 0) XXH64.hashUnsafeWords(null, address, length, seed)
    else XXH64.hashUnsafeBytes(null, address, length, seed)
}
