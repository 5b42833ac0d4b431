package tailrace.bench

import java.util

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.connector.read.{Scan, ScanBuilder}
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.internal.connector.SimpleTableProvider
import org.apache.spark.sql.types.{LongType, StructField, StructType, TimestampType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import tailrace.semantics.ReplayableSource

/**
 * A stream of event numbers behind a [[Gate]], with the columns of Spark's `rate-micro-batch`:
 * `timestamp` (when the batch was let through) and `value` (0, 1, 2, ...).
 *
 * Options: `gate`, the gate's name; `numPartitions`.
 */
final class GatedSource extends SimpleTableProvider {
  override def getTable(options: CaseInsensitiveStringMap): Table =
    new GatedTable(options.get("gate"), options.getInt("numPartitions", 1))
}

private final class GatedTable(gate: String, partitions: Int) extends Table with SupportsRead {
  override def name(): String = s"gated($gate)"

  override def schema(): StructType = GatedTable.Schema

  override def capabilities(): util.Set[TableCapability] =
    util.EnumSet.of(TableCapability.MICRO_BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => new Scan {
    override def readSchema(): StructType = GatedTable.Schema

    override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
      new GatedStream(Gate.named(gate), partitions)

    override def columnarSupportMode(): Scan.ColumnarSupportMode =
      Scan.ColumnarSupportMode.UNSUPPORTED
  }
}

private object GatedTable {
  val Schema: StructType =
    StructType(Array(StructField("timestamp", TimestampType), StructField("value", LongType)))
}

private final class GatedStream(gate: Gate, partitions: Int)
  extends MicroBatchStream with SupportsAdmissionControl with ReplayableSource {

  override def initialOffset(): Offset = GatedOffset(0L, 0L)

  override def latestOffset(): Offset =
    throw new UnsupportedOperationException("This source is asked with a start and a limit.")

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val from = start.asInstanceOf[GatedOffset]
    val end = gate.latest(from.end)
    if (end == from.end) from else GatedOffset(end, System.currentTimeMillis())
  }

  override def deserializeOffset(json: String): Offset = GatedOffset.parse(json)

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val first = start.asInstanceOf[GatedOffset].end
    val until = end.asInstanceOf[GatedOffset]
    Array.tabulate(partitions) { number =>
      GatedPartition(first + number, partitions, until.end, until.millis * 1000L)
    }
  }

  override def createReaderFactory(): PartitionReaderFactory = GatedReaders

  override def commit(end: Offset): Unit = {}

  override def stop(): Unit = {}
}

private final case class GatedOffset(end: Long, millis: Long) extends Offset {
  override def json(): String = s"[$end,$millis]"
}

private object GatedOffset {
  def parse(json: String): GatedOffset =
    json.trim.stripPrefix("[").stripSuffix("]").split(',') match {
      case Array(end, millis) => GatedOffset(end.trim.toLong, millis.trim.toLong)
      case _ => throw new IllegalArgumentException(s"Not an offset of a gated source: $json")
    }
}

private final case class GatedPartition(first: Long, step: Int, until: Long, micros: Long)
  extends InputPartition

private object GatedReaders extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new GatedReader(partition.asInstanceOf[GatedPartition])
}

private final class GatedReader(partition: GatedPartition) extends PartitionReader[InternalRow] {
  private var value = partition.first - partition.step

  override def next(): Boolean = {
    value += partition.step
    value < partition.until
  }

  override def get(): InternalRow = InternalRow(partition.micros, value)

  override def close(): Unit = {}
}
