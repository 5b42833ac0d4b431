package tailrace.spark

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair
import org.apache.spark.sql.types.StructType

import tailrace.layout.{Cursor, Node, Record}
import tailrace.store.Family

/**
 * A column family as Spark sees it: rows in, rows out. Rows that come out point straight into the
 * table's memory; they are valid until the task ends, but the row object is used again by the next
 * call, as with Spark's RocksDB store.
 */
final class FamilyAccess(val family: Family, val keys: KeyCodec, valueSchema: StructType) {
  private val valueRow = new UnsafeRow(valueSchema.length)

  def multiValue: Boolean = family.kind.multiValue

  /** The value of a record, or null for none; of a list its first value, as RocksDB gives it. */
  def valueOf(record: Record): UnsafeRow =
    if (record.isNone) null else pointAtValue(record, valueRow)

  def valuesOf(record: Record): Iterator[UnsafeRow] =
    if (record.isNone) {
      Iterator.empty
    } else {
      valuesIn(record, new UnsafeRow(valueSchema.length))
    }

  /** Oldest first. The values of a cold node are in an array of their own. */
  private def valuesIn(record: Record, row: UnsafeRow): Iterator[UnsafeRow] =
    new Iterator[UnsafeRow] {
      private val nodes = record.nodes
      private var place = 0
      private var cold: Iterator[(Array[Byte], Long, Int)] = Iterator.empty

      override def hasNext: Boolean = cold.hasNext || place < nodes.length

      override def next(): UnsafeRow = {
        if (!cold.hasNext) {
          val node = nodes(place)
          place += 1
          if (!node.isCold) return pointAtNode(node, row)
          cold = family.readCold(node).values
        }
        val (bytes, offset, length) = cold.next()
        row.pointTo(bytes, offset, length)
        row
      }
    }

  /** The key of each record; no value is looked at, so nothing is read from the log. */
  def keysIn(cursor: Cursor): Iterator[UnsafeRow] = cursor.map(keys.newDecoder())

  /** Key and value of each record; of a list its first value, which may be read from the log. */
  def pairs(cursor: Cursor): Iterator[UnsafeRowPair] = new Iterator[UnsafeRowPair] {
    private val pair = new UnsafeRowPair
    private val decodeKey = keys.newDecoder()
    private val row = new UnsafeRow(valueSchema.length)
    private var following = cursor.next()

    override def hasNext: Boolean = following.exists

    override def next(): UnsafeRowPair = {
      if (following.isNone) throw new NoSuchElementException("no more rows in the state")
      val record = following
      following = cursor.next()
      pair.withRows(decodeKey(record), pointAtValue(record, row))
    }
  }

  /** Key and value for every value of each record's list. */
  def pairsOfAllValues(cursor: Cursor): Iterator[UnsafeRowPair] = {
    val pair = new UnsafeRowPair
    val decodeKey = keys.newDecoder()
    val row = new UnsafeRow(valueSchema.length)
    cursor.map { record =>
      val key = decodeKey(record)
      valuesIn(record, row).map(value => pair.withRows(key, value))
    }.flatten
  }

  private def pointAtValue(record: Record, row: UnsafeRow): UnsafeRow =
    if (multiValue) {
      valuesIn(record, row).next()
    } else {
      row.pointTo(null, record.valueAddress, record.valueLength)
      row
    }

  private def pointAtNode(node: Node, row: UnsafeRow): UnsafeRow = {
    row.pointTo(null, node.valueAddress, node.length)
    row
  }
}
