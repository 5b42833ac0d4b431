package tailrace.format

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.nio.ByteBuffer
import java.util.zip.CRC32C

import tailrace.errors.CorruptFile

/**
 * What a snapshot has at its end (format 2): where each of its blocks is. With it a reader finds the
 * records of a hash, and reads nothing else.
 *
 * {{{
 *   index   := length(u32: of the sections) sections(u32) section* indexCheck(u32: CRC-32C of all
 *              bytes before it, from `length` on)
 *   section := family(u16) order(u8: 0 as they came | 1 by hash) blocks(u32) block*
 *   block   := offset(u64) length(u32: with its header) payloadCheck(u32) entries(u32)
 *              firstHash(u32; 0 if the section has no order)
 *   trailer := indexOffset(u64) headerCheck(u32: as behind the header)
 *              trailerCheck(u32: CRC-32C of the 12 bytes before it)
 * }}}
 *
 * Invariants: the sections have all blocks of the file, in their order, and each block has entries of
 * its section's family alone. A key is in one section only. In one that is ordered by hash, hashes
 * (unsigned) do not become smaller from entry to entry, and the entries of one hash are in one block.
 */
final case class SnapshotIndex(sections: Seq[SnapshotIndex.Section]) {
  def encode: Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeInt(sections.size)
    sections.foreach { section =>
      out.writeShort(section.family)
      out.writeByte(if (section.byHash) 1 else 0)
      out.writeInt(section.size)
      var block = 0
      while (block < section.size) {
        out.writeLong(section.offsets(block))
        out.writeInt(section.lengths(block))
        out.writeInt(section.checks(block))
        out.writeInt(section.entries(block))
        out.writeInt(section.firstHashes(block))
        block += 1
      }
    }
    bytes.toByteArray
  }
}

object SnapshotIndex {
  val TrailerSize = 16
  private val BlockSize = 24
  private val LargestIndex = 1 << 30

  /** The blocks of one family; arrays, because a large state has very many. */
  final class Section(
      val family: Int, val byHash: Boolean, val offsets: Array[Long], val lengths: Array[Int],
      val checks: Array[Int], val entries: Array[Int], val firstHashes: Array[Int]) {
    def size: Int = offsets.length

    /** The last block that begins with this hash or a smaller one; the first, if there is none. */
    def blockOf(hash: Int): Int = {
      var low = 0
      var high = size
      while (low < high) {
        val middle = (low + high) >>> 1
        if (Integer.compareUnsigned(firstHashes(middle), hash) <= 0) low = middle + 1
        else high = middle
      }
      math.max(0, low - 1)
    }

    /** Whether an entry of this hash belongs to this block. */
    def isIn(block: Int, hash: Int): Boolean = blockOf(hash) == block &&
      Integer.compareUnsigned(firstHashes(block), hash) <= 0
  }

  /** Where the index begins, and the check behind the file's header. */
  final case class Trailer(indexOffset: Long, headerCheck: Int) {
    def encode: Array[Byte] = {
      val bytes = ByteBuffer.allocate(TrailerSize).putLong(indexOffset).putInt(headerCheck)
      bytes.putInt(checkOf(bytes.array(), 12)).array()
    }
  }

  def trailer(bytes: Array[Byte], file: String): Trailer = {
    val fields = ByteBuffer.wrap(bytes)
    val found = Trailer(fields.getLong, fields.getInt)
    if (fields.getInt != checkOf(bytes, 12)) {
      throw new CorruptFile(file, "the checksum of its last bytes is wrong")
    }
    found
  }

  /** The index with its length before and its check behind it. */
  def frame(index: Array[Byte]): Array[Byte] = {
    val bytes = ByteBuffer.allocate(4 + index.length + 4).putInt(index.length).put(index)
    bytes.putInt(checkOf(bytes.array(), 4 + index.length)).array()
  }

  /** Takes a framed index apart. */
  def decode(framed: Array[Byte], file: String): SnapshotIndex = {
    def corrupt(what: String): Nothing = throw new CorruptFile(file, what)

    val length = framed.length - 8
    val fields = ByteBuffer.wrap(framed)
    if (length < 4 || fields.getInt != length ||
        fields.getInt(4 + length) != checkOf(framed, 4 + length)) {
      corrupt("the checksum of its index is wrong")
    }
    val in = new DataInputStream(new ByteArrayInputStream(framed, 4, length))
    var left = length - 4
    val sections = Seq.fill(in.readInt()) {
      val family = in.readUnsignedShort()
      val byHash = in.readUnsignedByte() == 1
      val size = in.readInt()
      left -= 7
      if (size < 0 || size > left / BlockSize) corrupt("its index names more blocks than it has")
      left -= size * BlockSize
      val section = new Section(family, byHash, new Array(size), new Array(size), new Array(size),
        new Array(size), new Array(size))
      var block = 0
      while (block < size) {
        section.offsets(block) = in.readLong()
        section.lengths(block) = in.readInt()
        section.checks(block) = in.readInt()
        section.entries(block) = in.readInt()
        section.firstHashes(block) = in.readInt()
        block += 1
      }
      section
    }
    if (left != 0) corrupt("its index has bytes that name no block")
    SnapshotIndex(sections)
  }

  /** The length of an index whose first four bytes say it. */
  def framedLength(length: Int, file: String): Int = {
    if (length < 4 || length > LargestIndex) {
      throw new CorruptFile(file, s"an index of $length bytes")
    }
    4 + length + 4
  }

  /** Collects the blocks of a file as they are written. */
  final class Builder {
    private val sections = Seq.newBuilder[Section]
    private var open: Growing = null

    def section(family: Int, byHash: Boolean): Unit = {
      close()
      open = new Growing(family, byHash)
    }

    def add(offset: Long, length: Int, check: Int, entries: Int, firstHash: Int): Unit =
      open.add(offset, length, check, entries, firstHash)

    def result(): SnapshotIndex = {
      close()
      SnapshotIndex(sections.result())
    }

    private def close(): Unit = if (open != null) {
      sections += open.result()
      open = null
    }
  }

  private final class Growing(family: Int, byHash: Boolean) {
    private val offsets = Array.newBuilder[Long]
    private val lengths, checks, entries, firstHashes = Array.newBuilder[Int]

    def add(offset: Long, length: Int, check: Int, count: Int, firstHash: Int): Unit = {
      offsets += offset
      lengths += length
      checks += check
      entries += count
      firstHashes += firstHash
    }

    def result(): Section = new Section(family, byHash, offsets.result(), lengths.result(),
      checks.result(), entries.result(), firstHashes.result())
  }

  private def checkOf(bytes: Array[Byte], length: Int): Int = {
    val check = new CRC32C
    check.update(bytes, 0, length)
    check.getValue.toInt
  }
}
