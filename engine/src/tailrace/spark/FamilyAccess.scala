package tailrace.spark

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair
import org.apache.spark.sql.types.StructType

import tailrace.layout.{Cursor, Record}
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
  def valueOf(record: Long): UnsafeRow =
    if (record == 0L) null else pointAtValue(record, valueRow)

  def valuesOf(record: Long): Iterator[UnsafeRow] =
    if (record == 0L) {
      Iterator.empty
    } else {
      valuesIn(record, new UnsafeRow(valueSchema.length))
    }

  /** Oldest first. The values of a cold node are in an array of their own. */
  private def valuesIn(record: Long, row: UnsafeRow): Iterator[UnsafeRow] =
    new Iterator[UnsafeRow] {
      private val nodes = Record.nodes(record)
      private var place = 0
      private var cold: Iterator[(Array[Byte], Long, Int)] = Iterator.empty

      override def hasNext: Boolean = cold.hasNext || place < nodes.length

      override def next(): UnsafeRow = {
        if (!cold.hasNext) {
          val node = nodes(place)
          place += 1
          if (Record.coldValues(node) == 0) return pointAtNode(node, row)
          cold = family.readCold(node).values
        }
        val (bytes, offset, length) = cold.next()
        row.pointTo(bytes, offset, length)
        row
      }
    }

  /** Key and value of each record. */
  def pairs(cursor: Cursor): Iterator[UnsafeRowPair] = new Iterator[UnsafeRowPair] {
    private val pair = new UnsafeRowPair
    private val decodeKey = keys.newDecoder()
    private val row = new UnsafeRow(valueSchema.length)
    private var following = cursor.next()

    override def hasNext: Boolean = following != 0L

    override def next(): UnsafeRowPair = {
      if (following == 0L) throw new NoSuchElementException("no more rows in the state")
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
    Iterator.continually(cursor.next()).takeWhile(_ != 0L).flatMap { record =>
      val key = decodeKey(record)
      valuesIn(record, row).map(value => pair.withRows(key, value))
    }
  }

  private def pointAtValue(record: Long, row: UnsafeRow): UnsafeRow =
    if (multiValue) {
      valuesIn(record, row).next()
    } else {
      row.pointTo(null, Record.valueAddress(record), Record.valueLength(record))
      row
    }

  private def pointAtNode(node: Long, row: UnsafeRow): UnsafeRow = {
    row.pointTo(null, Record.nodeValue(node), Record.nodeLength(node))
    row
  }
}
