package tailrace.bench

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/**
 * Problem: how much of a batch is the state store's, and how much the rest of Spark's?
 *
 * Answer: a store that keeps nothing. Gets find nothing, puts go nowhere, scans are empty; only the
 * protocol with Spark is kept. A batch's cost on it is the cost of the rest of vanilla Spark,
 * and the floor for a store that changes nothing else. (One that also brings a faster way to write
 * Spark's own logs can go below it.)
 *
 * Invariant: its results are wrong, always. It is for measuring and for nothing else.
 */
final class NothingStateStoreProvider extends StateStoreProvider {
  private var identifier: StateStoreId = _
  private var conf: StateStoreConf = _
  private var hadoopConf: Configuration = _

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConf: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]): Unit = {
    this.identifier = stateStoreId
    this.conf = storeConf
    this.hadoopConf = hadoopConf
  }

  override def stateStoreId: StateStoreId = identifier

  override def getStore(
      version: Long, checkpointId: Option[String], forceSnapshot: Boolean,
      loadEmpty: Boolean): StateStore = new NothingStateStore(this, version)

  override def close(): Unit = {}

  private[bench] def reportCommit(version: Long): Unit =
    if (conf.commitValidationEnabled) {
      StateStore.reportCommitToCoordinator(version, identifier, hadoopConf)
    }

  private[bench] def checkpointInfo(version: Long): StateStoreCheckpointInfo = {
    def id(of: Long) =
      if (conf.enableStateStoreCheckpointIds && of > 0) Some(s"nothing-$of") else None
    StateStoreCheckpointInfo(identifier.partitionId, version, id(version), id(version - 1))
  }
}

private final class NothingStateStore(
    provider: NothingStateStoreProvider, override val version: Long)
  extends StateStore {
  private var committed = false

  override def id: StateStoreId = provider.stateStoreId

  override def get(key: UnsafeRow, family: String): UnsafeRow = null

  override def multiGet(keys: Array[UnsafeRow], family: String): Iterator[UnsafeRow] =
    keys.iterator.map(_ => null)

  override def keyExists(key: UnsafeRow, family: String): Boolean = false

  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] = Iterator.empty

  override def iterator(family: String): StateStoreIterator[UnsafeRowPair] = nothing

  override def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] = nothing

  override def prefixScan(
      prefix: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] = nothing

  override def prefixScanWithMultiValues(
      prefix: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] = nothing

  override def rangeScan(
      start: Option[UnsafeRow], end: Option[UnsafeRow],
      family: String): StateStoreIterator[UnsafeRowPair] = nothing

  override def rangeScanWithMultiValues(
      start: Option[UnsafeRow], end: Option[UnsafeRow],
      family: String): StateStoreIterator[UnsafeRowPair] = nothing

  override def put(key: UnsafeRow, value: UnsafeRow, family: String): Unit = {}

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = {}

  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit = {}

  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = {}

  override def remove(key: UnsafeRow, family: String): Unit = {}

  override def deleteRange(begin: UnsafeRow, end: UnsafeRow, family: String): Unit = {}

  override def createColFamilyIfAbsent(
      name: String, keySchema: StructType, valueSchema: StructType, spec: KeyStateEncoderSpec,
      multiValue: Boolean, internal: Boolean): Unit = {}

  override def registerColFamily(
      name: String, keySchema: StructType, valueSchema: StructType, spec: KeyStateEncoderSpec,
      multiValue: Boolean, internal: Boolean): Unit = {}

  override def removeColFamilyIfExists(name: String): Boolean = false

  override def allColumnFamilyNames: Set[String] = Set(StateStore.DEFAULT_COL_FAMILY_NAME)

  override def commit(): Long = {
    committed = true
    provider.reportCommit(version + 1)
    version + 1
  }

  override def abort(): Unit = {}

  override def release(): Unit = {}

  override def hasCommitted: Boolean = committed

  override def metrics: StateStoreMetrics = StateStoreMetrics(0L, 0L, Map.empty)

  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo =
    provider.checkpointInfo(version + 1)

  private def nothing: StateStoreIterator[UnsafeRowPair] = new StateStoreIterator(Iterator.empty)
}
