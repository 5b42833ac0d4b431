/*
 * Problem: the state-store SPI is Scala, our contract is written and generated in Python, and one
 * py4j call per put would make thousands of generated steps slow.
 * Answer: `Operations.run`: a JSON list of operations in, a JSON list of results out. Providers,
 * stores and iterators live here between calls under names that the caller chooses.
 * Invariant: nothing here knows which store it drives.
 */
package org.apache.spark.sql.tailrace.testing

import java.io.Closeable
import java.util.UUID

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.conf.Configuration

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/** The codecs of one column family: its keys, its values and the keys of its prefix scans. */
private[testing] final class Family(
    keySchema: StructType, valueSchema: StructType, val spec: KeyStateEncoderSpec) {
  val key = new RowCodec(keySchema)
  val value = new RowCodec(valueSchema)
  val prefix = new RowCodec(spec match {
    case PrefixKeyScanStateEncoderSpec(_, columns) => StructType(keySchema.take(columns))
    case RangeKeyScanStateEncoderSpec(_, ordinals) => StructType(ordinals.map(keySchema(_)))
    case _: TimestampAsPostfixKeyStateEncoderSpec => StructType(keySchema.dropRight(1))
    case _ => keySchema
  })
}

private[testing] final class OpenProvider(
    val provider: StateStoreProvider, val families: mutable.Map[String, Family])

private[testing] final class OpenStore(val owner: OpenProvider, val store: ReadStateStore) {
  def writable: StateStore = store match {
    case store: StateStore => store
    case _ => throw new UnsupportedOperationException("this store was opened for reading")
  }
}

private[testing] final class OpenIterator(
    val family: Family, val rows: Iterator[UnsafeRowPair] with Closeable)

class StoreHarness extends Operations {
  import RowCodec.nodes

  private val providers = mutable.Map.empty[String, OpenProvider]
  private val stores = mutable.Map.empty[String, OpenStore]
  private val iterators = mutable.Map.empty[String, OpenIterator]

  override protected def execute(operation: JsonNode): JsonNode = {
    val name = operation.path("op").asText()
    providerOperation(name, operation)
      .orElse(storeOperation(name, operation))
      .orElse(iteratorOperation(name, operation))
      .getOrElse(throw new IllegalArgumentException(s"the harness knows no operation '$name'"))
  }

  // ---- providers -------------------------------------------------------------------------------

  private def providerOperation(name: String, operation: JsonNode): Option[JsonNode] = {
    def slot: OpenProvider = provider(operation)
    def version: Long = operation.path("version").asLong()
    def checkpointId: Option[String] = text(operation, "checkpoint_id")
    def force: Boolean = operation.path("force_snapshot").asBoolean(false)
    name match {
      case "open" =>
        done { providers(operation.path("provider").asText()) = open(operation) }
      case "load" => done {
        val empty = operation.path("load_empty").asBoolean(false)
        keep(operation, slot, slot.provider.getStore(version, checkpointId, force, empty))
      }
      case "load_read" => done {
        keep(operation, slot, slot.provider.getReadStore(version, checkpointId))
      }
      case "upgrade" => done {
        val readStore = stores(operation.path("read_store").asText()).store
        keep(operation, slot,
          slot.provider.upgradeReadStoreToWriteStore(readStore, version, checkpointId, force))
      }
      case "fault" => done { FaultyFileSystem.fault = operation.path("kind").asText() }
      case "maintain" => done { slot.provider.doMaintenance() }
      case "maintain_snapshot" => done { slot.provider.doSnapshotMaintenance() }
      case "maintain_cleanup" => done { slot.provider.doCleanupMaintenance() }
      case "close" => done {
        releaseStoresOf(slot)
        slot.provider.close()
        providers.remove(operation.path("provider").asText())
      }
      case "supported_custom_metrics" =>
        Some(names(slot.provider.supportedCustomMetrics.map(_.name)))
      case "supported_instance_metrics" =>
        Some(names(slot.provider.supportedInstanceMetrics.map(_.metricPrefix)))
      case "provider_id" => Some(nodes.textNode(slot.provider.stateStoreId.toString))
      case "supports_replay" =>
        Some(nodes.booleanNode(slot.provider.isInstanceOf[SupportsFineGrainedReplay]))
      case "changes" => Some(changes(slot, operation))
      case "replay" => done {
        keep(operation, slot, slot.provider.asInstanceOf[SupportsFineGrainedReplay]
          .replayStateFromSnapshot(
            operation.path("snapshot_version").asLong(), version, readOnly = true))
      }
      case _ => None
    }
  }

  private def open(operation: JsonNode): OpenProvider = {
    val keySchema = StructType.fromDDL(operation.path("key").asText())
    val valueSchema = StructType.fromDDL(operation.path("value").asText())
    val spec = encoder(operation.path("encoder"), keySchema)
    val className = operation.path("class").asText()

    val sqlConf = new SQLConf
    val hadoopConf = new Configuration(SparkContext.getOrCreate().hadoopConfiguration)
    hadoopConf.setClassLoader(getClass.getClassLoader) // a file system of the harness's own
    sqlConf.setConfString("spark.sql.streaming.stateStore.providerClass", className)
    operation.path("confs").properties().asScala.foreach { entry =>
      sqlConf.setConfString(entry.getKey, entry.getValue.asText())
      hadoopConf.set(entry.getKey, entry.getValue.asText())
    }
    hadoopConf.set(StreamExecution.RUN_ID_KEY,
      text(operation, "run_id").getOrElse(UUID.randomUUID().toString))

    val provider = StateStoreProvider.create(className)
    provider.init(
      StateStoreId(
        operation.path("directory").asText(),
        operation.path("operator").asLong(0),
        operation.path("partition").asInt(0),
        text(operation, "name").getOrElse(StateStoreId.DEFAULT_STORE_NAME)),
      keySchema, valueSchema, spec,
      operation.path("column_families").asBoolean(false),
      new StateStoreConf(sqlConf),
      hadoopConf,
      operation.path("multiple_values").asBoolean(false),
      None)
    new OpenProvider(provider, mutable.Map(
      StateStore.DEFAULT_COL_FAMILY_NAME -> new Family(keySchema, valueSchema, spec)))
  }

  private def encoder(node: JsonNode, keySchema: StructType): KeyStateEncoderSpec =
    node.path("kind").asText("none") match {
      case "none" => NoPrefixKeyStateEncoderSpec(keySchema)
      case "prefix" => PrefixKeyScanStateEncoderSpec(keySchema, node.path("columns").asInt())
      case "range" => RangeKeyScanStateEncoderSpec(
        keySchema, node.path("ordinals").elements().asScala.map(_.asInt()).toSeq)
      case "timestamp_prefix" => TimestampAsPrefixKeyStateEncoderSpec(keySchema)
      case "timestamp_postfix" => TimestampAsPostfixKeyStateEncoderSpec(keySchema)
      case other => throw new IllegalArgumentException(s"no key encoder is called '$other'")
    }

  /** Close must not wait for a store that a failed test did not close. */
  private def releaseStoresOf(slot: OpenProvider): Unit = {
    iterators.values.foreach(open => try open.rows.close() catch { case _: Exception => () })
    iterators.clear()
    stores.filter(_._2.owner eq slot).foreach { case (name, open) =>
      try {
        open.store match {
          case store: StateStore if !store.hasCommitted => store.abort()
          case _: StateStore => ()
          case store => store.release()
        }
      } catch { case _: Exception => () }
      stores.remove(name)
    }
  }

  private def changes(slot: OpenProvider, operation: JsonNode): JsonNode = {
    val family = slot.families(familyName(operation))
    val reader = slot.provider.asInstanceOf[SupportsFineGrainedReplay]
      .getStateStoreChangeDataReader(
        operation.path("start_version").asLong(), operation.path("end_version").asLong(),
        text(operation, "family"), text(operation, "checkpoint_id"))
    val result = nodes.arrayNode()
    try {
      reader.foreach { case (kind, key, value, version) =>
        result.addArray().add(kind.toString.toLowerCase).add(family.key.decode(key))
          .add(family.value.decode(value)).add(version)
      }
    } finally reader.closeIfNeeded()
    result
  }

  // ---- stores ----------------------------------------------------------------------------------

  private def storeOperation(name: String, operation: JsonNode): Option[JsonNode] = {
    def slot: OpenStore = stores.getOrElse(operation.path("store").asText(),
      throw new IllegalStateException(s"no store '${operation.path("store").asText()}' is open"))
    def family: String = familyName(operation)
    def codecs: Family = slot.owner.families.getOrElse(
      family, slot.owner.families(StateStore.DEFAULT_COL_FAMILY_NAME))
    def key: UnsafeRow = codecs.key.encode(operation.get("key"))
    def value: UnsafeRow = codecs.value.encode(operation.get("value"))
    def values: Array[UnsafeRow] = codecs.value.encodeAll(operation.get("values"))
    def prefix: UnsafeRow = codecs.prefix.encode(operation.get("prefix"))
    def bound(field: String): Option[UnsafeRow] =
      Option(codecs.key.encode(operation.get(field))).map(_.copy())
    name match {
      case "put" => done { slot.writable.put(key, value, family) }
      case "put_all" => done {
        val (store, family_, codecs_) = (slot.writable, family, codecs)
        operation.path("pairs").elements().asScala.foreach { pair =>
          store.put(codecs_.key.encode(pair.get(0)), codecs_.value.encode(pair.get(1)), family_)
        }
      }
      case "get" => Some(codecs.value.decode(slot.store.get(key, family)))
      case "key_exists" => Some(nodes.booleanNode(slot.store.keyExists(key, family)))
      case "multi_get" =>
        val found = slot.store.multiGet(codecs.key.encodeAll(operation.get("keys")), family)
        val result = nodes.arrayNode()
        found.foreach(row => result.add(codecs.value.decode(row)))
        Some(result)
      case "remove" => done { slot.writable.remove(key, family) }
      case "merge" => done { slot.writable.merge(key, value, family) }
      case "merge_list" => done { slot.writable.mergeList(key, values, family) }
      case "put_list" => done { slot.writable.putList(key, values, family) }
      case "values" =>
        val result = nodes.arrayNode()
        slot.store.valuesIterator(key, family)
          .foreach(row => result.add(codecs.value.decode(row)))
        Some(result)
      case "delete_range" => done {
        slot.writable.deleteRange(bound("start").orNull, bound("end").orNull, family)
      }
      case "iterate" => Some(drain(codecs, slot.store.iterator(family)))
      case "iterate_multiple" => Some(drain(codecs, slot.store.iteratorWithMultiValues(family)))
      case "prefix_scan" => Some(drain(codecs, slot.store.prefixScan(prefix, family)))
      case "prefix_scan_multiple" =>
        Some(drain(codecs, slot.store.prefixScanWithMultiValues(prefix, family)))
      case "range_scan" =>
        Some(drain(codecs, slot.store.rangeScan(bound("start"), bound("end"), family)))
      case "range_scan_multiple" => Some(
        drain(codecs, slot.store.rangeScanWithMultiValues(bound("start"), bound("end"), family)))
      case "evict" => Some(evict(slot.writable, family, codecs))
      case "open_iterator" => done {
        iterators(operation.path("iterator").asText()) =
          new OpenIterator(codecs, operation.path("scan").asText("iterate") match {
            case "iterate" => slot.store.iterator(family)
            case "prefix_scan" => slot.store.prefixScan(prefix, family)
            case "range_scan" => slot.store.rangeScan(bound("start"), bound("end"), family)
          })
      }
      case "create_family" | "register_family" => done { registerFamily(name, slot, operation) }
      case "remove_family" =>
        Some(nodes.booleanNode(slot.writable.removeColFamilyIfExists(family)))
      case "family_names" => Some(names(slot.store.allColumnFamilyNames.toSeq.sorted))
      case "commit" => Some(nodes.numberNode(slot.writable.commit()))
      case "abort" => done { slot.store.abort() }
      case "release" => done { slot.store.release() }
      case "has_committed" => Some(nodes.booleanNode(slot.writable.hasCommitted))
      case "store_version" => Some(nodes.numberNode(slot.store.version))
      case "store_id" => Some(nodes.textNode(slot.store.id.toString))
      case "metrics" => Some(metrics(slot.writable.metrics))
      case "checkpoint_info" => Some(checkpointInfo(slot.writable.getStateStoreCheckpointInfo()))
      case _ => None
    }
  }

  private def registerFamily(name: String, slot: OpenStore, operation: JsonNode): Unit = {
    val keySchema = StructType.fromDDL(operation.path("key").asText())
    val valueSchema = StructType.fromDDL(operation.path("value").asText())
    val spec = encoder(operation.path("encoder"), keySchema)
    val multiple = operation.path("multiple_values").asBoolean(false)
    val internal = operation.path("internal").asBoolean(false)
    val family = familyName(operation)
    if (name == "create_family") {
      slot.writable.createColFamilyIfAbsent(
        family, keySchema, valueSchema, spec, multiple, internal)
    } else {
      slot.store.registerColFamily(family, keySchema, valueSchema, spec, multiple, internal)
    }
    slot.owner.families(family) = new Family(keySchema, valueSchema, spec)
  }

  /**
   * Iterates and removes, on the way, each row whose first value column is an even number: the way
   * Spark evicts. The key is the iterator's own row, which the store must not expect to keep.
   */
  private def evict(store: StateStore, name: String, family: Family): JsonNode = {
    val result = nodes.arrayNode()
    val rows = store.iterator(name)
    try {
      rows.foreach { row =>
        result.add(pair(family, row))
        if (!row.value.isNullAt(0) && Math.floorMod(row.value.getLong(0), 2) == 0) {
          store.remove(row.key, name)
        }
      }
    } finally rows.close()
    result
  }

  private def metrics(metrics: StateStoreMetrics): ObjectNode = {
    val result = nodes.objectNode()
    result.put("num_keys", metrics.numKeys)
    result.put("memory_bytes", metrics.memoryUsedBytes)
    val custom = result.putObject("custom")
    metrics.customMetrics.foreach { case (metric, value) => custom.put(metric.name, value) }
    val instance = result.putObject("instance")
    metrics.instanceMetrics.foreach { case (metric, value) =>
      instance.put(metric.metricPrefix, value)
    }
    result
  }

  private def checkpointInfo(info: StateStoreCheckpointInfo): ObjectNode = {
    val result = nodes.objectNode()
    result.put("partition", info.partitionId)
    result.put("version", info.batchVersion)
    result.put("checkpoint_id", info.stateStoreCkptId.orNull)
    result.put("base_checkpoint_id", info.baseStateStoreCkptId.orNull)
    result
  }

  // ---- iterators that stay open between calls --------------------------------------------------

  private def iteratorOperation(name: String, operation: JsonNode): Option[JsonNode] = {
    def slot: OpenIterator = iterators(operation.path("iterator").asText())
    name match {
      case "next" =>
        val result = nodes.arrayNode()
        val open = slot
        var left = operation.path("count").asInt(1)
        while (left > 0 && open.rows.hasNext) {
          result.add(pair(open.family, open.rows.next()))
          left -= 1
        }
        Some(result)
      case "close_iterator" => done {
        slot.rows.close()
        iterators.remove(operation.path("iterator").asText())
      }
      case _ => None
    }
  }

  private def drain(family: Family, rows: Iterator[UnsafeRowPair] with Closeable): JsonNode = {
    val result = nodes.arrayNode()
    try rows.foreach(row => result.add(pair(family, row))) finally rows.close()
    result
  }

  private def pair(family: Family, row: UnsafeRowPair): JsonNode =
    nodes.arrayNode(2).add(family.key.decode(row.key)).add(family.value.decode(row.value))

  // ---- helpers ---------------------------------------------------------------------------------

  private def provider(operation: JsonNode): OpenProvider = {
    val name = operation.path("provider").asText()
    providers.getOrElse(name, throw new IllegalStateException(s"no provider '$name' is open"))
  }

  private def keep(operation: JsonNode, owner: OpenProvider, store: ReadStateStore): Unit =
    stores(operation.path("store").asText()) = new OpenStore(owner, store)

  private def familyName(operation: JsonNode): String =
    text(operation, "family").getOrElse(StateStore.DEFAULT_COL_FAMILY_NAME)
}
