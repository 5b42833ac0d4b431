package tailrace.spark

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

import tailrace.format.LineageName
import tailrace.layout.{Cursor, NodeChain, Record}
import tailrace.layout.time.TimeColumn
import tailrace.metrics.BatchMeter
import tailrace.semantics.Scan
import tailrace.store.Family
import tailrace.versions.SnapshotWish

/**
 * A version of the state in the hands of a task: reading, or updating towards the next version.
 *
 * Invariant: from its making until it is committed, aborted or released, the instance owns the
 * store (see [[tailrace.versions.VersionedStore]]). A task that ends without saying so gives it back.
 *
 * @param looksFor by family, the rows that the task is looking for when it scans it, where those are
 *                 not all (see [[tailrace.semantics.Scan]])
 */
final class TailraceStateStore(
    private[spark] val provider: TailraceStateStoreProvider,
    override val version: Long,
    meter: BatchMeter,
    startPhase: StorePhase,
    private var snapshot: SnapshotWish,
    private var looksFor: Map[String, Scan])
  extends StateStore {
  import StateStore.DEFAULT_COL_FAMILY_NAME

  private val store = provider.store
  private val table = store.table
  private var phase: StorePhase = startPhase
  // The family used last: operators ask for the same one many times in a row.
  private var lastName = DEFAULT_COL_FAMILY_NAME
  private var lastAccess = provider.accessFor("open", DEFAULT_COL_FAMILY_NAME)
  private var appended = 0L
  private var rowsValidated = provider.usesColumnFamilies
  private var finalMetrics: Option[StateStoreMetrics] = None
  private var checkpoint: Option[StateStoreCheckpointInfo] = None
  private[spark] lazy val expected = new ExpectedKeys(
    table, provider.prefetchMode, accessFor("expect", _))

  provider.opened(this)
  Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit](_ => letGo()))

  override def id: StateStoreId = provider.stateStoreId

  // ---- reading

  override def get(key: UnsafeRow, familyName: String): UnsafeRow = {
    val started = meter.gets.start()
    val value = {
      val access = accessFor("get", familyName)
      access.valueOf(find(access, key))
    }
    meter.gets.stop(started)
    if (!rowsValidated && value != null) validate(key, value)
    value
  }

  /** Spilled records of the keys are read beside the task, in the order of the disk. */
  override def multiGet(keys: Array[UnsafeRow], familyName: String): Iterator[UnsafeRow] = {
    accessFor("multiGet", familyName)
    require(keys.forall(_ != null), "Keys cannot be null")
    if (keys.length > 1 && expected.areOfUse) {
      keys.foreach(expected.add(_, familyName))
      expected.fetch()
    }
    keys.iterator.map(get(_, familyName))
  }

  override def keyExists(key: UnsafeRow, familyName: String): Boolean = {
    val started = meter.gets.start()
    val present = find(accessFor("keyExists", familyName), key).exists
    meter.gets.stop(started)
    present
  }

  override def valuesIterator(key: UnsafeRow, familyName: String): Iterator[UnsafeRow] = {
    val access = listAccessFor("valuesIterator", familyName)
    val started = meter.gets.start()
    val record = find(access, key)
    meter.gets.stop(started)
    if (record.exists) readAtLast(record)
    access.valuesOf(record)
  }

  override def iterator(familyName: String): StateStoreIterator[UnsafeRowPair] = {
    val access = accessFor("iterator", familyName)
    pairs(access, scanned(familyName, access))
  }

  /** As `iterator`, the keys alone: for an operator that then reads the values of some. */
  def keys(familyName: String = DEFAULT_COL_FAMILY_NAME): Iterator[UnsafeRow] = {
    val access = accessFor("keys", familyName)
    access.keysIn(counted(scanned(familyName, access)))
  }

  override def iteratorWithMultiValues(familyName: String): StateStoreIterator[UnsafeRowPair] = {
    val access = listAccessFor("iteratorWithMultiValues", familyName)
    allPairs(access, access.family.layout.cursor())
  }

  override def prefixScan(
      prefix: UnsafeRow, familyName: String): StateStoreIterator[UnsafeRowPair] = {
    val access = accessFor("prefixScan", familyName)
    pairs(access, prefixCursor(access, prefix))
  }

  override def prefixScanWithMultiValues(
      prefix: UnsafeRow, familyName: String): StateStoreIterator[UnsafeRowPair] = {
    val access = listAccessFor("prefixScanWithMultiValues", familyName)
    allPairs(access, prefixCursor(access, prefix))
  }

  override def rangeScan(
      start: Option[UnsafeRow], end: Option[UnsafeRow],
      familyName: String): StateStoreIterator[UnsafeRowPair] = {
    val access = accessFor("rangeScan", familyName)
    pairs(access, rangeCursor(access, start, end))
  }

  override def rangeScanWithMultiValues(
      start: Option[UnsafeRow], end: Option[UnsafeRow],
      familyName: String): StateStoreIterator[UnsafeRowPair] = {
    val access = listAccessFor("rangeScanWithMultiValues", familyName)
    allPairs(access, rangeCursor(access, start, end))
  }

  // ---- writing

  override def put(key: UnsafeRow, value: UnsafeRow, familyName: String): Unit = {
    val started = meter.puts.start()
    val access = updatedFamily("put", familyName)
    require(value != null, "Cannot put a null value")
    val keys = encoded(access, key)
    if (access.multiValue) {
      putValues(access, keys, Array(value))
    } else {
      access.family.put(
        table.memory, table.changes, keys.base, keys.offset, keys.length,
        value.getBaseObject, value.getBaseOffset, value.getSizeInBytes)
    }
    meter.puts.stop(started)
  }

  /**
   * Replaces the key's value by the result of `change` (given null if there is none), with one look-up.
   * Returns the new value, whose bytes `change` still owns.
   */
  def update(key: UnsafeRow, change: UnsafeRow => UnsafeRow): UnsafeRow = {
    val started = meter.puts.start()
    val access = updatedFamily("update", DEFAULT_COL_FAMILY_NAME)
    val keys = encoded(access, key)
    val found = access.family.get(keys.base, keys.offset, keys.length)
    val value = change(access.valueOf(found))
    access.family.putAfterGet(
      table.memory, table.changes, keys.base, keys.offset, keys.length, found,
      value.getBaseObject, value.getBaseOffset, value.getSizeInBytes)
    meter.puts.stop(started)
    if (!rowsValidated) validate(key, value)
    value
  }

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], familyName: String): Unit = {
    val started = meter.puts.start()
    val access = updatedList("putList", familyName)
    requireValues(values)
    putValues(access, encoded(access, key), values)
    meter.puts.stop(started)
  }

  override def merge(key: UnsafeRow, value: UnsafeRow, familyName: String): Unit = {
    val started = meter.puts.start()
    val access = updatedList("merge", familyName)
    require(value != null, "Cannot merge a null value")
    append(access, encoded(access, key), value)
    meter.puts.stop(started)
  }

  /** As `merge`, for a list that is expected to be read at `due` (microseconds). */
  def mergeUntil(key: UnsafeRow, value: UnsafeRow, due: Long, familyName: String): Unit = {
    val started = meter.puts.start()
    val access = updatedList("merge", familyName)
    append(access, encoded(access, key), value, due)
    meter.puts.stop(started)
  }

  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], familyName: String): Unit = {
    val started = meter.puts.start()
    val access = updatedList("mergeList", familyName)
    requireValues(values)
    val keys = encoded(access, key)
    values.foreach(append(access, keys, _))
    meter.puts.stop(started)
  }

  override def remove(key: UnsafeRow, familyName: String): Unit = {
    val started = meter.removes.start()
    val access = updatedFamily("remove", familyName)
    val keys = encoded(access, key)
    access.family.remove(table.changes, keys.base, keys.offset, keys.length)
    meter.removes.stop(started)
  }

  override def deleteRange(begin: UnsafeRow, end: UnsafeRow, familyName: String): Unit = {
    val access = updatedFamily("deleteRange", familyName)
    access.keys match {
      case codec: ScanKeyCodec if codec.supportsDeleteRange =>
        val cursor = access.family.inOrder.rangeCursor(codec.encodeKey(begin), codec.encodeKey(end))
        var record = cursor.next()
        while (record.exists) {
          val started = meter.removes.start()
          access.family.remove(table.changes, null, record.keyAddress, record.keyLength)
          meter.removes.stop(started)
          record = cursor.next()
        }
      case _ => throw new IllegalStateException(
        "deleteRange requires a RangeKeyScanStateEncoderSpec for ordered key encoding")
    }
  }

  // ---- column families

  override def createColFamilyIfAbsent(
      name: String, keySchema: StructType, valueSchema: StructType, spec: KeyStateEncoderSpec,
      multiValue: Boolean, internal: Boolean): Unit = {
    requireOpen("create a column family")
    lastName = null
    provider.createFamily(name, valueSchema, spec, multiValue, internal)
  }

  override def registerColFamily(
      name: String, keySchema: StructType, valueSchema: StructType, spec: KeyStateEncoderSpec,
      multiValue: Boolean, internal: Boolean): Unit =
    createColFamilyIfAbsent(name, keySchema, valueSchema, spec, multiValue, internal)

  override def removeColFamilyIfExists(name: String): Boolean = {
    requireUpdating("remove a column family")
    lastName = null
    provider.removeFamily(name)
  }

  override def allColumnFamilyNames: Set[String] = table.families.map(_.name).toSet

  // ---- the end of the batch

  /**
   * 1. The changes are sealed and taken by the committer: durable (commit="sync"), or waiting to be
   *    written, after the batch before was published (RFC 4).
   * 2. They are applied: the table is at the next version.
   * 3. The store is free for the next task, and the commit is reported to Spark's coordinator.
   */
  override def commit(): Long = {
    requireUpdating("commit")
    val base = table.lineage
    // 1. and 2.
    val newVersion = store.commit(snapshot, meter)
    phase = StorePhase.move(phase, StorePhase.Committed)
    checkpoint = Some(provider.checkpointInfo(newVersion, base))
    provider.hinted.foreach { hints =>
      meter.hintSlackMillis = hints.slackMillis(version, expected.beganMillis)
    }
    finalMetrics = Some(StoreMetrics.of(table, meter, provider.hinted))
    provider.reporter.foreach(_.batchOver(version, expected.beganMillis))
    // 3.
    provider.ended(this)
    store.release()
    provider.reportCommit(newVersion)
    newVersion
  }

  override def abort(): Unit = phase match {
    case StorePhase.Updating | StorePhase.Reading =>
      val updating = phase == StorePhase.Updating
      phase = StorePhase.move(phase, StorePhase.Aborted)
      provider.ended(this)
      try if (updating) store.rollback() finally store.release()
    case _ =>
  }

  override def release(): Unit = phase match {
    case StorePhase.Released =>
    case StorePhase.Reading =>
      phase = StorePhase.move(phase, StorePhase.Released)
      provider.ended(this)
      store.release()
    case other => throw StorePhase.illegal(
      s"Cannot release a store that is ${other.name}: only a store that was opened for reading")
  }

  override def hasCommitted: Boolean = phase == StorePhase.Committed

  /** How many keys got at least one value more. */
  def keysAppendedTo: Long = appended

  override def metrics: StateStoreMetrics =
    finalMetrics.getOrElse(StoreMetrics.of(table, meter, provider.hinted))

  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = checkpoint.getOrElse(
    throw StorePhase.illegal("Cannot get the checkpoint's id before the store is committed"))

  /** The read store becomes a write store of the same version; the task keeps owning it. */
  private[spark] def upgrade(
      wish: SnapshotWish, looksFor: Map[String, Scan]): TailraceStateStore = {
    phase = StorePhase.move(phase, StorePhase.Updating)
    snapshot = wish
    this.looksFor = looksFor
    store.begin()
    this
  }

  override def toString: String =
    s"TailraceStateStore[$id, version $version, lineage ${LineageName(table.lineage)}]"

  // ---- inside

  private def letGo(): Unit = phase match {
    case StorePhase.Reading => release()
    case StorePhase.Updating => abort()
    case _ =>
  }

  private def find(access: FamilyAccess, key: UnsafeRow): Record = {
    val keys = encoded(access, key)
    access.family.get(keys.base, keys.offset, keys.length)
  }

  /** How far the estimate of a list's time was off, by the watermark of this batch. */
  private def readAtLast(record: Record): Unit = {
    val due = record.listDue
    looksFor.get(DEFAULT_COL_FAMILY_NAME) match {
      case Some(Scan.DueUpTo(now)) if due != TimeColumn.Never =>
        meter.estimates += 1
        meter.estimateErrorMicros += math.abs(now - due)
      case _ =>
    }
  }

  private def encoded(access: FamilyAccess, key: UnsafeRow): KeyCodec = {
    if (key == null) throw new IllegalStateException("Key cannot be null")
    access.keys.encode(key)
    access.keys
  }

  private def append(
      access: FamilyAccess, keys: KeyCodec, value: UnsafeRow, due: Long = Family.AsBefore): Unit = {
    val first = access.family.append(
      table.memory, table.changes, keys.base, keys.offset, keys.length,
      value.getBaseObject, value.getBaseOffset, value.getSizeInBytes, due)
    if (first) appended += 1
  }

  private def putValues(access: FamilyAccess, keys: KeyCodec, values: Array[UnsafeRow]): Unit =
    if (values.isEmpty) {
      access.family.remove(table.changes, keys.base, keys.offset, keys.length)
    } else {
      val chain = new NodeChain(table.memory)
      values.foreach { value =>
        chain.add(value.getBaseObject, value.getBaseOffset, value.getSizeInBytes)
      }
      access.family.putList(
        table.memory, table.changes, keys.base, keys.offset, keys.length, chain)
    }

  // ---- scans that leave out rows that the task would pass over

  private def scanned(familyName: String, access: FamilyAccess): Cursor =
    lookedFor(familyName, access).getOrElse(access.family.layout.cursor())

  private def lookedFor(familyName: String, access: FamilyAccess): Option[Cursor] =
    looksFor.get(familyName) match {
      case Some(Scan.DueUpTo(time)) => access.family.dueCursor(time)
      case Some(Scan.KeysDueIn(name, family)) =>
        val other = if (name == id.storeName) Some(this) else provider.sibling(name)
        other.flatMap(_.beginningsOfDueKeys(family)).map(recordsOf(access, _))
      case _ => None
    }

  /** Of the keys of rows that are due: all columns but the last, which counts a key's rows. */
  private def beginningsOfDueKeys(familyName: String): Option[Iterator[UnsafeRow]] = for {
    Scan.DueUpTo(time) <- looksFor.get(familyName)
    access = accessFor("iterator", familyName)
    cursor <- access.family.dueCursor(time)
  } yield {
    val key = access.keys.newDecoder()
    val beginning = access.keys.beginning
    counted(cursor).map(record => beginning(key(record)))
  }

  /** The records of these keys, each once. */
  private def recordsOf(access: FamilyAccess, keys: Iterator[UnsafeRow]): Cursor = {
    val found = scala.collection.mutable.LongMap.empty[Unit]
    keys.foreach { key =>
      val record = find(access, key)
      if (record.exists) found.update(record.address, ())
    }
    val addresses = found.keysIterator
    () => if (addresses.hasNext) new Record(addresses.next()) else Record.None
  }

  private def pairs(access: FamilyAccess, cursor: Cursor): StateStoreIterator[UnsafeRowPair] = {
    new StateStoreIterator(access.pairs(counted(cursor)))
  }

  private def allPairs(access: FamilyAccess, cursor: Cursor): StateStoreIterator[UnsafeRowPair] = {
    new StateStoreIterator(access.pairsOfAllValues(counted(cursor)))
  }

  private def counted(cursor: Cursor): Cursor = {
    meter.scans += 1
    () => {
      val record = cursor.next()
      if (record.exists) meter.scannedRows += 1
      record
    }
  }

  private def prefixCursor(access: FamilyAccess, prefix: UnsafeRow): Cursor = access.keys match {
    case scans: PrefixScans => scans.prefixCursor(access.family.inOrder, prefix)
    case _ => throw PrefixScans.unsupported
  }

  private def rangeCursor(
      access: FamilyAccess, start: Option[UnsafeRow], end: Option[UnsafeRow]): Cursor =
    access.keys match {
      case codec: ScanKeyCodec if codec.supportsRangeScan =>
        access.family.inOrder.rangeCursor(
          start.map(codec.encodeKey).orNull, end.map(codec.encodeKey).orNull)
      case _ => throw new IllegalArgumentException(
        "Range scan requires an encoder that supports range scanning!")
    }

  private def accessFor(operation: String, name: String): FamilyAccess = {
    requireOpen(operation)
    familyNamed(operation, name)
  }

  private def familyNamed(operation: String, name: String): FamilyAccess = {
    if (name ne lastName) {
      lastAccess = provider.accessFor(operation, name)
      lastName = name
    }
    lastAccess
  }

  private def listAccessFor(operation: String, name: String): FamilyAccess =
    requireList(operation, accessFor(operation, name))

  private def updatedFamily(operation: String, name: String): FamilyAccess = {
    requireUpdating(operation)
    familyNamed(operation, name)
  }

  private def updatedList(operation: String, name: String): FamilyAccess =
    requireList(operation, updatedFamily(operation, name))

  private def requireList(operation: String, access: FamilyAccess): FamilyAccess = {
    if (!access.multiValue) {
      throw new IllegalStateException(
        s"$operation requires a column family with multiple values per key; " +
          s"${access.family.name} has one value per key")
    }
    access
  }

  private def requireValues(values: Array[UnsafeRow]): Unit = {
    require(values != null, "Cannot put a null value")
    values.foreach(value => require(value != null, "Cannot put a null value in the array"))
  }

  private def requireOpen(operation: String): Unit =
    if ((phase ne StorePhase.Updating) && (phase ne StorePhase.Reading)) {
      throw StorePhase.illegal(s"Cannot $operation: the store is ${phase.name}")
    }

  private def requireUpdating(operation: String): Unit =
    if (phase ne StorePhase.Updating) {
      throw StorePhase.illegal(s"Cannot $operation: the store is ${phase.name}")
    }

  private def validate(key: UnsafeRow, value: UnsafeRow): Unit = {
    provider.validateRows(key, value)
    rowsValidated = true
  }
}
