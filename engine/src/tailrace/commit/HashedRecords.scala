package tailrace.commit

import java.util.Arrays

import tailrace.layout.Record
import tailrace.layout.hash.HashLayout
import tailrace.memory.AddressList
import tailrace.store.FrozenVersion

/**
 * Problem: a snapshot has records in the order of their hashes, and a large table must not be sorted
 * as a whole, in memory that nobody has allowed for.
 *
 * Answer: the table lists its records almost in that order: one segment after the other, each with
 * the hashes above those of the one before; only inside a segment records stand aside. So a window of
 * twice the largest segment is sorted, half of it given, and filled again.
 *
 * Invariant: records are read inside `FrozenVersion.reading` only.
 */
private[commit] final class HashedRecords(records: AddressList, frozen: FrozenVersion) {
  import HashedRecords._

  private val window = math.min(2L * HashLayout.LargestSegment, math.max(1L, records.size)).toInt
  /** A hash, and behind it the place of the address. */
  private val keys = new Array[Long](window)
  private var addresses = new Array[Long](window)
  private var filled = 0
  private var at = 0
  private var until = 0 // of those that can be given
  private var taken = 0L // from the list
  private var present = 0L

  /** Goes to the next record, in the order of hashes; false: there is none. */
  def next(): Boolean = {
    if (at == until) refill()
    val isThere = at < until
    if (isThere) {
      present = keys(at)
      at += 1
    }
    isThere
  }

  def hash: Int = (present >>> PlaceBits).toInt ^ Int.MinValue

  def record: Record = new Record(addresses((present & PlaceMask).toInt))

  private def refill(): Unit = {
    val kept = filled - at
    val before = addresses
    addresses = new Array[Long](window)
    var index = 0
    while (index < kept) {
      val key = keys(at + index)
      addresses(index) = before((key & PlaceMask).toInt)
      keys(index) = key & ~PlaceMask | index
      index += 1
    }
    filled = kept
    at = 0
    if (taken < records.size) frozen.reading(read())
    Arrays.sort(keys, 0, filled)
    until = if (taken < records.size) filled - window / 2 else filled
  }

  private def read(): Unit = while (filled < window && taken < records.size) {
    val found = new Record(records(taken))
    val hash = HashLayout.hashOf(null, found.keyAddress, found.keyLength)
    addresses(filled) = found.address
    // With the top bit turned, the order of signed numbers is that of unsigned hashes.
    keys(filled) = (hash ^ Int.MinValue).toLong << PlaceBits | filled
    filled += 1
    taken += 1
  }
}

private object HashedRecords {
  private val PlaceBits = 31
  private val PlaceMask = (1L << PlaceBits) - 1
}
