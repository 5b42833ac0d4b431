package tailrace.cold

/** Pairs of a hash and a reference, in two arrays; sorted before they are written to [[ColdSlots]]. */
final class SlotEntries(capacity: Int) {
  private var hashes = new Array[Int](math.max(16, capacity))
  private var refs = new Array[Long](math.max(16, capacity))
  private var filled = 0

  def size: Int = filled

  def hash(index: Int): Int = hashes(index)

  def ref(index: Int): ColdRef = new ColdRef(refs(index))

  def add(hash: Int, ref: ColdRef): Unit = {
    if (filled == hashes.length) {
      hashes = java.util.Arrays.copyOf(hashes, 2 * filled)
      refs = java.util.Arrays.copyOf(refs, 2 * filled)
    }
    hashes(filled) = hash
    refs(filled) = ref.raw
    filled += 1
  }

  /** The same in the order of their hashes, as unsigned numbers. */
  def sorted: SlotEntries = {
    val order = new Array[Long](filled)
    var at = 0
    while (at < filled) {
      order(at) = (hashes(at).toLong & 0xffffffffL) << 31 | at
      at += 1
    }
    java.util.Arrays.sort(order)
    val found = new SlotEntries(filled)
    at = 0
    while (at < filled) {
      val from = (order(at) & 0x7fffffffL).toInt
      found.add(hashes(from), new ColdRef(refs(from)))
      at += 1
    }
    found
  }

  /** Of sorted ones: whether this pair is among them. */
  def contains(hash: Int, ref: ColdRef): Boolean = {
    var low = 0
    var high = filled
    while (low < high) {
      val middle = (low + high) >>> 1
      if (Integer.compareUnsigned(hashes(middle), hash) < 0) low = middle + 1 else high = middle
    }
    while (low < filled && hashes(low) == hash && refs(low) != ref.raw) low += 1
    low < filled && hashes(low) == hash
  }
}
