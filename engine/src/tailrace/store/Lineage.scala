package tailrace.store

import org.apache.spark.sql.catalyst.expressions.XXH64

import tailrace.layout.Record

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

  /** The name under which Spark knows a version's lineage (checkpoint format version 2). */
  def name(lineage: Long): String = f"$lineage%016x"

  def parse(name: String): Long = java.lang.Long.parseUnsignedLong(name, 16)

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
    val key = hash(Record.keyAddress(named), Record.keyLength(named),
      (kind.toLong << 32) | changes.family(index))
    kind match {
      case Change.Remove => key
      case Change.Put => hash(Record.valueAddress(named), Record.valueLength(named), key)
      case Change.Append =>
        val node = Record.listLast(named)
        // The number makes appends of one key count in their order.
        hash(Record.nodeValue(node), Record.nodeLength(node), key + Record.listCount(named))
      case Change.PutList =>
        Record.nodes(named).foldLeft(key) { (digest, node) =>
          hash(Record.nodeValue(node), Record.nodeLength(node), digest)
        }
    }
  }

  private def hash(address: Long, length: Int, seed: Long): Long =
    if ((length & 7) == 0) XXH64.hashUnsafeWords(null, address, length, seed)
    else XXH64.hashUnsafeBytes(null, address, length, seed)
}
