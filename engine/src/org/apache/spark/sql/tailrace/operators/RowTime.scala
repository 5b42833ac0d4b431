package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.types.{StructType, TimestampNTZType, TimestampType}

import tailrace.layout.UseClock

/**
 * The event time of rows, in microseconds: the column on which there is a watermark. Of a window, its
 * end.
 *
 * @param place  of the column; -1: rows tell no time
 * @param fields of the window; 0: the column is a time
 */
final class RowTime private (place: Int, fields: Int) extends Serializable {
  def isKnown: Boolean = place >= 0

  def of(row: InternalRow): Long =
    if (place < 0 || row.isNullAt(place)) {
      UseClock.Unknown
    } else if (fields == 0) {
      row.getLong(place)
    } else {
      val window = row.getStruct(place, fields)
      if (window.isNullAt(fields - 1)) UseClock.Unknown else window.getLong(fields - 1)
    }
}

object RowTime {
  /** The first such column. */
  def in(columns: Seq[Attribute]): RowTime = {
    val found = columns.iterator.zipWithIndex.flatMap { case (column, place) =>
      if (!column.metadata.contains(EventTimeWatermark.delayKey)) {
        None
      } else {
        column.dataType match {
          case TimestampType | TimestampNTZType => Some(new RowTime(place, 0))
          case window: StructType if window.fields.lastOption.exists(last =>
              last.dataType == TimestampType || last.dataType == TimestampNTZType) =>
            Some(new RowTime(place, window.length))
          case _ => None
        }
      }
    }
    found.nextOption().getOrElse(new RowTime(-1, 0))
  }
}
