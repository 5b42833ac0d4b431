package tailrace.format

import java.io.BufferedInputStream
import java.nio.ByteBuffer
import java.util.concurrent.atomic.AtomicInteger
import java.util.zip.CRC32C

import tailrace.errors.CorruptFile

/**
 * The blocks of a snapshot with an index (format 2), each of which is read alone. Opening it reads
 * the header, the index and the last bytes, whatever its size.
 *
 * Invariants: no byte is used before its checksum was verified, against the block's own numbers and
 * against the index: a block that is whole, but of another file, is damage. Any thread reads.
 */
final class SnapshotBlocks private (
    file: PositionedFile, val name: String, val header: FileHeader, val index: SnapshotIndex,
    codec: Codec) {
  import StateFileWriter.BlockHeaderSize

  /** Blocks of a section from `first` on, with one read; `visit` is given each with its number. */
  def read(section: SnapshotIndex.Section, first: Int, until: Int)(
      visit: (Int, SnapshotBlocks.Block) => Unit): Unit = ReadErrors.named(name) {
    val from = section.offsets(first)
    val size = section.offsets(until - 1) + section.lengths(until - 1) - from
    val bytes = new Array[Byte](Math.toIntExact(size))
    file.read(from, bytes)
    var block = first
    while (block < until) {
      visit(block, decode(section, block, bytes, (section.offsets(block) - from).toInt))
      block += 1
    }
  }

  /** One more reader, who closes it once. The first need not say so. */
  def share(): Unit = users.incrementAndGet()

  def close(): Unit = if (users.decrementAndGet() == 0) file.close()

  private val users = new AtomicInteger(1)

  private def decode(
      section: SnapshotIndex.Section, block: Int, bytes: Array[Byte],
      at: Int): SnapshotBlocks.Block = {
    val numbers = ByteBuffer.wrap(bytes, at, BlockHeaderSize)
    val rawLength = numbers.getInt
    val storedLength = numbers.getInt
    val payloadCheck = numbers.getInt
    if (numbers.getInt != checkOf(bytes, at, 12)) corrupt("a block's lengths are wrong")
    if (payloadCheck != section.checks(block) ||
        storedLength != section.lengths(block) - BlockHeaderSize || rawLength <= 0) {
      corrupt("a block is not the one that the index names")
    }
    val stored = java.util.Arrays.copyOfRange(
      bytes, at + BlockHeaderSize, at + BlockHeaderSize + storedLength)
    if (checkOf(stored, 0, storedLength) != payloadCheck) corrupt("a block's checksum is wrong")
    val raw = new Array[Byte](rawLength)
    codec.decompress(stored, storedLength, raw, rawLength)
    new SnapshotBlocks.Block(this, section.entries(block), raw)
  }

  private def corrupt(detail: String): Nothing = throw new CorruptFile(name, detail)

  private def checkOf(bytes: Array[Byte], from: Int, length: Int): Int = {
    val check = new CRC32C
    check.update(bytes, from, length)
    check.getValue.toInt
  }
}

object SnapshotBlocks {
  private val HeaderRead = 8 << 10

  /** Entries that were read and verified. */
  final class Block(of: SnapshotBlocks, entries: Int, raw: Array[Byte]) {
    def bytes: Long = raw.length.toLong

    /** Throws, at the end, if there were more or fewer entries than the index says. */
    def foreach(visit: StateFileReader.Visitor): Unit = {
      val found = StateFileReader.visitEntries(raw, raw.length, visit)
      if (found != entries) of.corrupt(s"a block has $found entries, not $entries")
    }
  }

  /** None: the snapshot has a format without an index. */
  def open(file: PositionedFile, name: String): Option[SnapshotBlocks] = {
    var opened: Option[SnapshotBlocks] = None
    try {
      val reader = new StateFileReader(new BufferedInputStream(file.stream, HeaderRead), name)
      if (reader.isIndexed) {
        opened = Some(new SnapshotBlocks(
          file, name, reader.header, readIndex(file, name, reader.checkOfHeader), reader.codec))
      }
      opened
    } finally {
      if (opened.isEmpty) file.close()
    }
  }

  private def readIndex(file: PositionedFile, name: String, headerCheck: Int): SnapshotIndex = {
    val last = new Array[Byte](SnapshotIndex.TrailerSize)
    if (file.length < last.length) throw new CorruptFile(name, "It ends too early.")
    file.read(file.length - last.length, last)
    val trailer = SnapshotIndex.trailer(last, name)
    val size = file.length - last.length - trailer.indexOffset
    if (trailer.headerCheck != headerCheck || size < 0 || size > Int.MaxValue) {
      throw new CorruptFile(name, "its last bytes belong to another file")
    }
    val framed = new Array[Byte](size.toInt)
    file.read(trailer.indexOffset, framed)
    SnapshotIndex.decode(framed, name)
  }
}
