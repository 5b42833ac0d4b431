package tailrace.spark

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.Platform

import tailrace.layout.Record
import tailrace.layout.ordered.SortWord

/**
 * How a family's keys become bytes and rows again. `encode` leaves the bytes in `base`, `offset`
 * and `length`, because three results need no allocation that way.
 */
sealed abstract class KeyCodec {
  var base: AnyRef = _
  var offset: Long = 0L
  var length: Int = 0

  def order: Option[SortWord]

  def encode(row: UnsafeRow): Unit

  /** The key of a record. The row may be the same object each time. */
  def decode(record: Long): UnsafeRow

  /** Another decoder, for an iterator that lives beside others. */
  def newDecoder(): Long => UnsafeRow
}

/** Point access: a key is the bytes of its row, taken from where they are. */
final class RowKeyCodec(schema: StructType) extends KeyCodec {
  private val decoder = newDecoder()

  override def order: Option[SortWord] = None

  override def encode(row: UnsafeRow): Unit = {
    base = row.getBaseObject
    offset = row.getBaseOffset
    length = row.getSizeInBytes
  }

  override def decode(record: Long): UnsafeRow = decoder(record)

  override def newDecoder(): Long => UnsafeRow = {
    val row = new UnsafeRow(schema.length)
    record => {
      row.pointTo(null, Record.keyAddress(record), Record.keyLength(record))
      row
    }
  }
}

/** Prefix and range scans: Spark's own order-preserving encodings, and their order here. */
final class ScanKeyCodec(spec: KeyStateEncoderSpec, valueSchema: StructType) extends KeyCodec {
  private val encoder = newEncoder()

  def supportsPrefixScan: Boolean = encoder.supportPrefixKeyScan

  def supportsRangeScan: Boolean = encoder.supportsRangeScan

  def supportsDeleteRange: Boolean = encoder.supportsDeleteRange

  override val order: Option[SortWord] = Some(spec match {
    case _: PrefixKeyScanStateEncoderSpec => SortWord.CountedPrefix
    case RangeKeyScanStateEncoderSpec(_, ordinals) =>
      SortWord.Skipping(ScanKeyCodec.rangeValueOffset(ordinals.length))
    case _: TimestampAsPrefixKeyStateEncoderSpec => SortWord.Skipping(0)
    case _: TimestampAsPostfixKeyStateEncoderSpec => SortWord.BeforeTimestamp
    case other => throw new IllegalArgumentException(s"a key encoder that is not known: $other")
  })

  override def encode(row: UnsafeRow): Unit = {
    val bytes = encoder.encodeKey(row)
    base = bytes
    offset = Platform.BYTE_ARRAY_OFFSET.toLong
    length = bytes.length
  }

  def encodeKey(row: UnsafeRow): Array[Byte] = encoder.encodeKey(row)

  def encodePrefix(row: UnsafeRow): Array[Byte] = encoder.encodePrefixKey(row)

  override def decode(record: Long): UnsafeRow = decodeWith(encoder, record)

  override def newDecoder(): Long => UnsafeRow = {
    val own = newEncoder()
    record => decodeWith(own, record)
  }

  private def decodeWith(decoder: RocksDBKeyStateEncoder, record: Long): UnsafeRow = {
    val bytes = new Array[Byte](Record.keyLength(record))
    Platform.copyMemory(
      null, Record.keyAddress(record), bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length.toLong)
    decoder.decodeKey(bytes)
  }

  private def newEncoder(): RocksDBKeyStateEncoder =
    spec.toEncoder(new UnsafeRowDataEncoder(spec, valueSchema), useColumnFamilies = true)
}

object ScanKeyCodec {
  /**
   * Where the first ordering column's bytes begin: after the length (4), the encoder's version (1),
   * the row's null bits and one word for each ordering column, which are the same in all keys.
   */
  private def rangeValueOffset(orderingColumns: Int): Int =
    4 + 1 + UnsafeRow.calculateBitSetWidthInBytes(orderingColumns) + 8 * orderingColumns
}

object KeyCodec {
  def apply(spec: KeyStateEncoderSpec, valueSchema: StructType): KeyCodec = spec match {
    case NoPrefixKeyStateEncoderSpec(schema) => new RowKeyCodec(schema)
    case other => new ScanKeyCodec(other, valueSchema)
  }
}
