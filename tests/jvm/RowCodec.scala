/*
 * Problem: a test in Python thinks in lists of values, a state store in UnsafeRows.
 * Answer: a codec per schema turns a JSON array into an UnsafeRow and back.
 * Invariant: `encode` returns the SAME row object, on the same buffer, every time, as Spark's
 * operators do. A store that keeps a reference instead of a copy is caught by the next call.
 * A caller that needs several rows at once uses `encodeAll`, which copies.
 *
 *   value := number (byte, short, int, long, float, double, timestamp and date as their integer)
 *          | "NaN" | "Infinity" | "-Infinity" (float, double)
 *          | string | true | false | null
 *          | base64 string (binary)
 *          | [value ...] (struct in field order, array)
 */
package org.apache.spark.sql.tailrace.testing

import java.util.Base64

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, JsonNodeFactory}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

private[testing] final class RowCodec(val schema: StructType) {
  private val projection = UnsafeProjection.create(schema)

  /** The row of a JSON array, on a buffer that the next call overwrites; null for JSON null. */
  def encode(node: JsonNode): UnsafeRow =
    if (RowCodec.isNull(node)) null else projection(RowCodec.toRow(node, schema))

  /** Independent copies, null for each JSON null. */
  def encodeAll(nodes: JsonNode): Array[UnsafeRow] =
    if (RowCodec.isNull(nodes)) {
      null
    } else {
      nodes.elements().asScala.map { node =>
        val row = encode(node)
        if (row == null) null else row.copy()
      }.toArray
    }

  def decode(row: InternalRow): JsonNode =
    if (row == null) RowCodec.nodes.nullNode() else RowCodec.fromRow(row, schema)
}

private[testing] object RowCodec {
  val nodes: JsonNodeFactory = JsonNodeFactory.instance

  def isNull(node: JsonNode): Boolean = node == null || node.isNull || node.isMissingNode

  private def toRow(node: JsonNode, schema: StructType): InternalRow = {
    require(node.size() == schema.length,
      s"a row of ${schema.length} fields (${schema.catalogString}) was given ${node.size()} values")
    new GenericInternalRow(schema.fields.zipWithIndex.map { case (field, index) =>
      toValue(node.get(index), field.dataType)
    })
  }

  private def toValue(node: JsonNode, dataType: DataType): Any =
    if (isNull(node)) {
      null
    } else {
      dataType match {
        case ByteType => node.longValue().toByte
        case ShortType => node.longValue().toShort
        case IntegerType | DateType => node.longValue().toInt
        case LongType | TimestampType | TimestampNTZType => node.longValue()
        case FloatType => toDouble(node).toFloat
        case DoubleType => toDouble(node)
        case BooleanType => node.booleanValue()
        case _: StringType => UTF8String.fromString(node.textValue())
        case BinaryType => Base64.getDecoder.decode(node.textValue())
        case struct: StructType => toRow(node, struct)
        case ArrayType(element, _) =>
          new GenericArrayData(node.elements().asScala.map(toValue(_, element)).toArray[Any])
        case other => throw new IllegalArgumentException(s"no JSON form for $other")
      }
    }

  private def toDouble(node: JsonNode): Double =
    if (node.isTextual) java.lang.Double.parseDouble(node.textValue()) else node.doubleValue()

  private def fromRow(row: InternalRow, schema: StructType): ArrayNode = {
    val array = nodes.arrayNode(schema.length)
    schema.fields.zipWithIndex.foreach { case (field, index) =>
      array.add(
        if (row.isNullAt(index)) nodes.nullNode()
        else fromValue(row.get(index, field.dataType), field.dataType))
    }
    array
  }

  private def fromArray(values: ArrayData, element: DataType): ArrayNode = {
    val array = nodes.arrayNode()
    values.foreach(element, (_, value) =>
      array.add(if (value == null) nodes.nullNode() else fromValue(value, element)))
    array
  }

  private def fromValue(value: Any, dataType: DataType): JsonNode = dataType match {
    case ByteType => nodes.numberNode(value.asInstanceOf[Byte])
    case ShortType => nodes.numberNode(value.asInstanceOf[Short])
    case IntegerType | DateType => nodes.numberNode(value.asInstanceOf[Int])
    case LongType | TimestampType | TimestampNTZType => nodes.numberNode(value.asInstanceOf[Long])
    case FloatType => fromDouble(value.asInstanceOf[Float].toDouble)
    case DoubleType => fromDouble(value.asInstanceOf[Double])
    case BooleanType => nodes.booleanNode(value.asInstanceOf[Boolean])
    case _: StringType => nodes.textNode(value.toString)
    case BinaryType =>
      nodes.textNode(Base64.getEncoder.encodeToString(value.asInstanceOf[Array[Byte]]))
    case struct: StructType => fromRow(value.asInstanceOf[InternalRow], struct)
    case ArrayType(element, _) => fromArray(value.asInstanceOf[ArrayData], element)
    case other => throw new IllegalArgumentException(s"no JSON form for $other")
  }

  private def fromDouble(value: Double): JsonNode =
    if (value.isNaN || value.isInfinite) nodes.textNode(value.toString) else nodes.numberNode(value)
}
