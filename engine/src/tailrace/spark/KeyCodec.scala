package tailrace.spark

import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow, XXH64}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.Platform

import tailrace.layout.{Cursor, OrderedScans, Record, RecordReader}
import tailrace.layout.ordered.SortWord

/** Look-ups beyond single keys. */
trait PrefixScans {
  /** The records whose keys have these leading columns. */
  def prefixCursor(layout: OrderedScans, prefix: UnsafeRow): Cursor
}

/**
 * How a family's keys become bytes and rows again. `encode` puts the bytes into `base`, `offset`
 * and `length`, because three results need no allocation that way.
 */
sealed abstract class KeyCodec {
  var base: AnyRef = _
  var offset: Long = 0L
  var length: Int = 0

  def order: Option[SortWord]

  def encode(row: UnsafeRow): Unit

  /** A key's row without its last column. */
  def beginning: UnsafeRow => UnsafeRow =
    throw new UnsupportedOperationException("only keys for point access are cut")

  /**
   * Gives a record's key. The row may be the same object each time; where decoding
   * is costly to set up, also across decoders, as in Spark's RocksDB store.
   */
  def newDecoder(): RecordReader[UnsafeRow]
}

/** Point access: a key is the bytes of its row, taken from where they are. */
final class RowKeyCodec(schema: StructType) extends KeyCodec {
  override lazy val beginning: UnsafeRow => UnsafeRow = {
    val columns = schema.fields.init.zipWithIndex.map { case (field, index) =>
      BoundReference(index, field.dataType, field.nullable)
    }
    val projection = UnsafeProjection.create(columns.toSeq)
    row => projection(row)
  }

  override def order: Option[SortWord] = None

  override def encode(row: UnsafeRow): Unit = {
    base = row.getBaseObject
    offset = row.getBaseOffset
    length = row.getSizeInBytes
  }

  override def newDecoder(): RecordReader[UnsafeRow] = {
    val row = new UnsafeRow(schema.length)
    record => {
      row.pointTo(null, record.keyAddress, record.keyLength)
      row
    }
  }
}

/**
 * Prefix scans: `hash of the leading columns (8 bytes, big-endian) row`. Keys with the same leading
 * columns are neighbours, and a key's row is there as it is: no encoding, no decoding. Two groups
 * whose hashes are equal are told apart by the columns themselves.
 */
final class PrefixKeyCodec(schema: StructType, prefixColumns: Int)
  extends KeyCodec with PrefixScans {
  import PrefixKeyCodec._

  private val leading = UnsafeProjection.create(schema.fields.take(prefixColumns).zipWithIndex.map {
    case (field, index) => BoundReference(index, field.dataType, field.nullable)
  }.toSeq)
  private var buffer = new Array[Byte](64)
  private val scanned = new UnsafeRow(schema.length)

  override val order: Option[SortWord] = Some(SortWord.Skipping(0))

  override def encode(row: UnsafeRow): Unit = {
    length = HashSize + row.getSizeInBytes
    if (buffer.length < length) buffer = new Array[Byte](length * 2)
    base = buffer
    offset = Platform.BYTE_ARRAY_OFFSET.toLong
    Platform.putLong(base, offset, java.lang.Long.reverseBytes(hashOf(leading(row))))
    Platform.copyMemory(
      row.getBaseObject, row.getBaseOffset, base, offset + HashSize, row.getSizeInBytes.toLong)
  }

  override def newDecoder(): RecordReader[UnsafeRow] = {
    val row = new UnsafeRow(schema.length)
    record => pointAt(record, row)
  }

  override def prefixCursor(layout: OrderedScans, prefix: UnsafeRow): Cursor = {
    val wanted = prefix.copy() // the caller may use the row again before the cursor is at its end
    val bytes = new Array[Byte](HashSize)
    Platform.putLong(bytes, Platform.BYTE_ARRAY_OFFSET.toLong,
      java.lang.Long.reverseBytes(hashOf(wanted)))
    val sameHash = layout.prefixCursor(bytes)
    () => {
      var record = sameHash.next()
      while (record.exists && leading(pointAt(record, scanned)) != wanted) record = sameHash.next()
      record
    }
  }

  private def pointAt(record: Record, row: UnsafeRow): UnsafeRow = {
    row.pointTo(null, record.keyAddress + HashSize, record.keyLength - HashSize)
    row
  }
}

object PrefixKeyCodec {
  private val HashSize = 8
  private val Seed = 0x707265666978L

  private def hashOf(row: UnsafeRow): Long =
    XXH64.hashUnsafeWords(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, Seed)
}

/** Range scans: Spark's own order-preserving encodings, and their order here. */
final class ScanKeyCodec(spec: KeyStateEncoderSpec, valueSchema: StructType)
  extends KeyCodec with PrefixScans {
  private val encoder =
    spec.toEncoder(new UnsafeRowDataEncoder(spec, valueSchema), useColumnFamilies = true)

  def supportsRangeScan: Boolean = encoder.supportsRangeScan

  def supportsDeleteRange: Boolean = encoder.supportsDeleteRange

  override val order: Option[SortWord] = Some(spec match {
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

  override def prefixCursor(layout: OrderedScans, prefix: UnsafeRow): Cursor = {
    if (!encoder.supportPrefixKeyScan) throw PrefixScans.unsupported
    layout.prefixCursor(encoder.encodePrefixKey(prefix))
  }

  override def newDecoder(): RecordReader[UnsafeRow] = record => {
    val bytes = new Array[Byte](record.keyLength)
    Platform.copyMemory(
      null, record.keyAddress, bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length.toLong)
    encoder.decodeKey(bytes)
  }
}

object ScanKeyCodec {
  /**
   * Where the first ordering column's bytes begin: after the length (4), the encoder's version (1),
   * the row's null bits and one word for each ordering column, which are the same in all keys.
   */
  private def rangeValueOffset(orderingColumns: Int): Int =
    4 + 1 + UnsafeRow.calculateBitSetWidthInBytes(orderingColumns) + 8 * orderingColumns
}

object PrefixScans {
  def unsupported: RuntimeException =
    new IllegalArgumentException("Prefix scan requires setting prefix key!")
}

object KeyCodec {
  def apply(spec: KeyStateEncoderSpec, valueSchema: StructType): KeyCodec = spec match {
    case NoPrefixKeyStateEncoderSpec(schema) => new RowKeyCodec(schema)
    case PrefixKeyScanStateEncoderSpec(schema, columns) => new PrefixKeyCodec(schema, columns)
    case other => new ScanKeyCodec(other, valueSchema)
  }
}
