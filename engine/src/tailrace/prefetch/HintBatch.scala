package tailrace.prefetch

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.nio.ByteBuffer

/**
 * The stores of one partition of a stateful operator, in one run of a query.
 *
 * @param root the checkpoint's folder of state
 */
final case class HintedPartition(run: String, root: String, operator: Long, partition: Int)

/**
 * Prefetch hints (Keyed Prefetching, definition 2) on their way to the owner of a partition: hashes
 * of keys that will be looked up in the batch that begins at `version`. All of a batch's rows are
 * looked up in it, so the batch is the time at which a key is expected.
 *
 * @param version the version of the state at which the batch begins: hints of another one are stale
 * @param hot     keys that the sender left out since its last message because they are hot
 * @param dropped hints for this partition that it could not send since its last message
 */
final case class HintBatch(
    to: HintedPartition, version: Long, hashes: Array[Int], hot: Long, dropped: Long = 0L) {
  import HintBatch._

  /**
   * {{{
   *   hints := run(text) root(text) operator(i64) partition(i32) version(i64) hot(i64)
   *            dropped(i64) count(i32) hash(i32)*
   * }}}
   * Big-endian; `text` as `DataOutput.writeUTF` has it.
   */
  def encode(): Array[Byte] = {
    val bytes = new ByteArrayOutputStream(HeadSize + 4 * hashes.length)
    val out = new DataOutputStream(bytes)
    out.writeUTF(to.run)
    out.writeUTF(to.root)
    out.writeLong(to.operator)
    out.writeInt(to.partition)
    out.writeLong(version)
    out.writeLong(hot)
    out.writeLong(dropped)
    out.writeInt(hashes.length)
    val tail = ByteBuffer.allocate(4 * hashes.length)
    tail.asIntBuffer().put(hashes)
    out.write(tail.array())
    bytes.toByteArray
  }

  /** On the way; a message within the process has the same, so that figures can be compared. */
  def size: Int = HeadSize + to.run.length + to.root.length + 4 * hashes.length
}

object HintBatch {
  private val HeadSize = 44

  def decode(bytes: Array[Byte]): HintBatch = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    val to = HintedPartition(in.readUTF(), in.readUTF(), in.readLong(), in.readInt())
    val (version, hot, dropped) = (in.readLong(), in.readLong(), in.readLong())
    val hashes = new Array[Int](in.readInt())
    ByteBuffer.wrap(in.readNBytes(4 * hashes.length)).asIntBuffer().get(hashes)
    HintBatch(to, version, hashes, hot, dropped)
  }
}
