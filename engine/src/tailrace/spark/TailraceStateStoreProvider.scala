package tailrace.spark

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.{SparkException, TaskContext}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

import tailrace.cache.PrefetchMode
import tailrace.cold.{ColdStorage, ColdTier, LocalTier, SpillMode}
import tailrace.commit.{AsynchronousCommitter, Committer, SnapshotPolicy}
import tailrace.commit.SynchronousCommitter
import tailrace.errors.{ForeignFile, InvalidOption, SchemaMismatch, SparkCondition}
import tailrace.files.{FileNames, LocalCopies, LocalRoot, Retries}
import tailrace.format.LineageName
import tailrace.io.IoKind
import tailrace.metrics.BatchMeter
import tailrace.semantics.{Scan, StoreUse}
import tailrace.store.{FamilyKind, PlannedFamily}
import tailrace.versions.{SnapshotWish, VersionedStore}

/**
 * Spark makes one for each store of each partition of a stateful operator
 * (`spark.sql.streaming.stateStore.providerClass`). It hands out versions of the state; the state
 * itself, its files and their users are [[tailrace.versions.VersionedStore]]'s.
 */
final class TailraceStateStoreProvider extends StateStoreProvider {
  import StateStore.DEFAULT_COL_FAMILY_NAME

  private val runtime = EngineRuntime.current
  private var identifier: StateStoreId = _
  private var keySchema: StructType = _
  private var valueSchema: StructType = _
  private var defaultSpec: KeyStateEncoderSpec = _
  private var defaultMultiValue = false
  private var conf: StateStoreConf = _
  private var hadoopConf: Configuration = _
  private var columnFamilies = false
  private var folderPath: String = _
  private val accesses = new ConcurrentHashMap[String, FamilyAccess]

  private var committer: Committer = _
  private var gateAtRead = false
  private[spark] var prefetchMode: PrefetchMode = PrefetchMode.Auto

  private[spark] var store: VersionedStore = _

  private[spark] def usesColumnFamilies: Boolean = columnFamilies

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
    Compatibility.verify()
    require(!useMultipleValuesPerKey || useColumnFamilies,
      "Multiple values per key require column families")
    if (storeConf.stateStoreEncodingFormat != StateStoreEncoding.UnsafeRow.toString) {
      throw new InvalidOption("spark.sql.streaming.stateStore.encodingFormat",
        storeConf.stateStoreEncodingFormat, StateStoreEncoding.UnsafeRow.toString)
    }
    this.identifier = stateStoreId
    this.keySchema = keySchema
    this.valueSchema = valueSchema
    this.defaultSpec = keyStateEncoderSpec
    this.defaultMultiValue = useMultipleValuesPerKey
    this.conf = storeConf
    this.hadoopConf = hadoopConf
    this.columnFamilies = useColumnFamilies

    val options = StoreOptions(storeConf)
    val location = stateStoreId.storeCheckpointLocation()
    val folder = new CheckpointFolder(location, hadoopConf, copiesOf(location.toString, options))
    val packs = new CheckpointPacks(
      stateStoreId.checkpointRootLocation, hadoopConf,
      copiesOf(CheckpointPacks.location(stateStoreId.checkpointRootLocation).toString, options),
      keepLocal = options.maxChanges + storeConf.minVersionsToRetain)
    this.folderPath = folder.path
    this.committer = committerFor(options, folder, packs)
    this.gateAtRead = options.gateAtRead
    this.prefetchMode = options.prefetch
    val reports =
      if (storeConf.reportSnapshotUploadLag) {
        Some(new SnapshotReports(stateStoreId, storeConf, hadoopConf))
      } else {
        None
      }
    this.store = new VersionedStore(
      folder,
      packs,
      committer,
      description,
      withLineage = storeConf.enableStateStoreCheckpointIds,
      options.codec,
      new SnapshotPolicy(options.snapshotRatio, options.maxChanges,
        SnapshotPolicy.shareOf(stateStoreId.partitionId)),
      options.lockTimeoutMillis,
      storeConf.minVersionsToRetain,
      snapshotReady = version => reports.foreach(_.uploaded(version)),
      snapshotMissed = version => reports.exists(_.isMissed(version)),
      planOf = planned,
      cold = ColdStorage(
        options.spill, tierFor(options), options.readBatchRatio, options.maxAmplification,
        options.cache),
      budget = runtime.budget,
      io = runtime.io,
      restart = options.restart)
    if (options.prefetch != PrefetchMode.Off) store.table.prefetch.open()
    if (options.takesHints) takeHints()
    askForProcessOptions(options) // last: a store that could not be opened asks for nothing
  }

  private[spark] var hinted: Option[HintedStore] = None
  private[spark] lazy val reporter: Option[PrefetchReporter] =
    run.filter(_ => hinted.isDefined).map(new PrefetchReporter(_, identifier, store.table, hinted.get))

  /** From operators that see the keys of rows before the tasks of this store's operator. */
  private def takeHints(): Unit = run.foreach { ofRun =>
    val taker = new HintedStore(store, runtime.hints.threads, description)
    hinted = Some(taker)
    val partition = PrefetchReporter.partition(ofRun, identifier)
    runtime.hints.inbox.opened(partition, taker)
    withdrawals :+= (() => runtime.hints.inbox.closed(partition, taker))
  }

  /** Where state is spilled to. An I/O thread asks a file system far away, and not the task. */
  private def tierFor(options: StoreOptions): ColdTier = options.coldDir match {
    case Some(uri) if options.spill != SpillMode.Never =>
      val retries = new Retries(options.retryTimeoutMillis, runtime.rules)
      runtime.io.submit(IoKind.Spill, s"Making a folder in $uri") { _ =>
        runtime.remoteFolders.tier(uri, hadoopConf, retries)
      }.await()
    case _ =>
      LocalTier.in(new LocalRoot(options.localDir), runtime.coldFolders, options.coldIo)
  }

  /** Called when the store closes: they withdraw the process options that it asked for. */
  private var withdrawals: Seq[() => Unit] = Nil

  /** Options of the whole process: one memory limit, one scheduler for the work beside the batches. */
  private def askForProcessOptions(options: StoreOptions): Unit = {
    def ask[T](setting: SharedSetting[T], wanted: Option[T]): Unit = wanted.foreach { value =>
      setting.ask(value)
      withdrawals :+= (() => setting.withdraw(value))
    }

    ask(runtime.memoryLimit, options.memoryLimit)
    ask(runtime.ioThreads, options.ioThreads)
    ask(runtime.ioBandwidth, options.ioBandwidth)
  }

  // ---- the query's plan

  private def run: Option[String] = Option(hadoopConf.get(StreamExecution.RUN_ID_KEY))

  /** The use of this store in the plan of the task's batch. */
  private def known: Option[StoreUse.Known] = for {
    task <- Option(TaskContext.get())
    ofRun <- run
    use <- StoreUse.decode(
      task.getLocalProperty(StoreUse.property(identifier.operatorId)), ofRun, identifier.storeName)
  } yield use

  /** By family, its use in the plan. A plan is the same in every batch of a run. */
  private def planned: String => PlannedFamily = {
    val families = known.fold(Map.empty[String, StoreUse.KnownFamily])(_.families)
    name => families.get(name).fold(PlannedFamily.Unknown) { family =>
      PlannedFamily(family.isKnown, family.time)
    }
  }

  /** By family: the rows that the task that updates this version is looking for when it scans. */
  private def scansOf(version: Long): Map[String, Scan] =
    known.filter(_.version == version).fold(Map.empty[String, Scan]) {
      _.families.collect { case (name, family) if family.scan != Scan.All => name -> family.scan }
    }

  private[spark] def opened(store: TailraceStateStore): Unit =
    run.foreach(runtime.openStores.opened(_, store))

  private[spark] def ended(store: TailraceStateStore): Unit =
    run.foreach(runtime.openStores.ended(_, store))

  private[spark] def sibling(name: String): Option[TailraceStateStore] =
    run.flatMap(runtime.openStores.sibling(_, identifier, name))

  private def description: String =
    s"${identifier.operatorId}/${identifier.partitionId}/${identifier.storeName}"

  /** Asynchronous where a query's run is known and the plugin is there, otherwise synchronous. */
  private def committerFor(
      options: StoreOptions, folder: CheckpointFolder, packs: CheckpointPacks): Committer = {
    val named = conf.enableStateStoreCheckpointIds
    val synchronous = new SynchronousCommitter(folder, new FileNames(named))
    val stateRoot = new Path(identifier.checkpointRootLocation)
    val run = hadoopConf.get(StreamExecution.RUN_ID_KEY)
    runtime.services.link match {
      case Some(link) if options.asynchronous && run != null && stateRoot.getName == "state" =>
        new AsynchronousCommitter(
          CheckpointName.of(stateRoot.getParent, hadoopConf), run, description, named, link,
          runtime.services.pipeline, folder, packs, options.pendingLimit,
          new Retries(options.retryTimeoutMillis, runtime.rules),
          runtime.failpoints, synchronous)
      case _ => synchronous
    }
  }

  /** Where copies of a folder's files go on this machine: nowhere, if the checkpoint is on it. */
  private def copiesOf(location: String, options: StoreOptions): Option[LocalCopies] =
    if (options.localDir.isEmpty &&
        LocalFileManager.rawBelow(new Path(location), hadoopConf).nonEmpty) {
      None
    } else {
      Some(new LocalCopies(new LocalRoot(options.localDir), location))
    }

  override def stateStoreId: StateStoreId = identifier

  // ---- versions

  override def getStore(
      version: Long,
      stateStoreCkptId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean): StateStore =
    open(version, stateStoreCkptId, loadEmpty) { meter =>
      if (gateAtRead) committer.awaitGate(version)
      store.begin()
      val snapshot = if (loadEmpty) SnapshotWish.Now else wish(forceSnapshotOnCommit)
      new TailraceStateStore(
        this, version, meter, StorePhase.Updating, snapshot, scansOf(version))
    }

  override def getReadStore(version: Long, uniqueId: Option[String]): ReadStateStore =
    open(version, uniqueId, empty = false) { meter =>
      if (gateAtRead) committer.awaitGate(version)
      new TailraceStateStore(
        this, version, meter, StorePhase.Reading, SnapshotWish.WhenDue, Map.empty)
    }

  override def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean): StateStore = readStore match {
    case own: TailraceStateStore if own.version == version && own.id == identifier =>
      // The provider may have been replaced while the task was reading: the store's own counts.
      own.upgrade(wish(forceSnapshotOnCommit), scansOf(version))
    case other => throw new IllegalArgumentException(
      s"Only a read store of version $version of $identifier can become its write store, not $other")
  }

  private def wish(forced: Boolean): SnapshotWish =
    if (forced) SnapshotWish.Soon else SnapshotWish.WhenDue

  private def open[T](version: Long, lineageName: Option[String], empty: Boolean)(
      make: BatchMeter => T): T = {
    if (version < 0) {
      throw new SparkException(
        SparkCondition.NegativeVersion, Map("version" -> version.toString), cause = null)
    }
    val meter = new BatchMeter
    store.acquire()
    try {
      if (empty) {
        store.moveToEmpty(version)
      } else {
        val lineage =
          if (conf.enableStateStoreCheckpointIds && version > 0) lineageName.map(lineageNamed)
          else None
        store.moveTo(version, lineage, meter)
      }
      ensureFamily(DEFAULT_COL_FAMILY_NAME, valueSchema, defaultSpec, defaultMultiValue,
        internal = false)
      make(meter)
    } catch {
      case error: Throwable =>
        store.release()
        throw error
    }
  }

  private def lineageNamed(name: String): Long = try LineageName.parse(name) catch {
    case _: NumberFormatException => throw new ForeignFile(
      folderPath, s"The checkpoint's commit log names the state '$name', which another store wrote.")
  }

  // ---- column families

  private[spark] def accessFor(operation: String, name: String): FamilyAccess = {
    if (name != DEFAULT_COL_FAMILY_NAME) {
      requireColumnFamilies(operation)
      if (name.isEmpty || name.trim != name) {
        throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName(operation, name)
      }
    }
    val access = accesses.get(name)
    if (access == null || !store.table.family(name).exists(_ eq access.family)) {
      throw StateStoreErrors.unsupportedOperationOnMissingColumnFamily(operation, name)
    }
    access
  }

  private[spark] def createFamily(
      name: String, valueSchema: StructType, spec: KeyStateEncoderSpec,
      multiValue: Boolean, internal: Boolean): Unit = {
    verifyFamilyName("create_col_family", name, internal)
    ensureFamily(name, valueSchema, spec, multiValue, internal)
  }

  private[spark] def removeFamily(name: String): Boolean = {
    verifyFamilyName("remove_col_family", name, internal = false)
    store.table.dropFamily(name)
  }

  /** The family with its rows' shape: as loaded from the checkpoint, or a new, empty one. */
  private def ensureFamily(
      name: String, valueSchema: StructType, spec: KeyStateEncoderSpec,
      multiValue: Boolean, internal: Boolean): Unit = {
    val known = accesses.get(name)
    if (known == null || !store.table.family(name).exists(_ eq known.family)) {
      val codec = if (known != null) known.keys else KeyCodec(spec, valueSchema)
      val kind = FamilyKind(
        codec.order, multiValue, internal, SchemaText(spec.keySchema), SchemaText(valueSchema))
      // Spark gives families that an operator never uses, such as a join's "default", any schema.
      store.table.family(name).filter(family => family.layout.size == 0 && family.kind != kind)
        .foreach(_ => store.table.dropFamily(name))
      val present = store.table.family(name)
      present.foreach(family => verifyKind(name, family.kind, kind))
      val family = present.getOrElse(store.table.createFamily(name, kind))
      accesses.put(name, new FamilyAccess(family, codec, valueSchema))
    }
  }

  private def verifyKind(name: String, stored: FamilyKind, wanted: FamilyKind): Unit = {
    def mismatch(what: String, before: Any, now: Any): Nothing = throw new SchemaMismatch(
      folderPath, s"In the column family '$name', $what was $before and is now $now.")

    if (stored.keyTypes != wanted.keyTypes) {
      mismatch("the key", s"(${stored.keyTypes})", s"(${wanted.keyTypes})")
    }
    if (conf.formatValidationCheckValue && stored.valueTypes != wanted.valueTypes) {
      mismatch("the value", s"(${stored.valueTypes})", s"(${wanted.valueTypes})")
    }
    if (stored.order != wanted.order) mismatch("the key's order", stored.order, wanted.order)
    if (stored.multiValue != wanted.multiValue) {
      mismatch("'multiple values per key'", stored.multiValue, wanted.multiValue)
    }
  }

  private def verifyFamilyName(operation: String, name: String, internal: Boolean): Unit = {
    requireColumnFamilies(operation)
    if (name.isEmpty || name.trim != name || (name == DEFAULT_COL_FAMILY_NAME && !internal)) {
      throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName(operation, name)
    }
    if (!internal && name.charAt(0) == '$') {
      throw StateStoreErrors.cannotCreateColumnFamilyWithReservedChars(name)
    }
  }

  private def requireColumnFamilies(operation: String): Unit = if (!columnFamilies) {
    throw StateStoreErrors.unsupportedOperationException(
      operation, "multiple column families is disabled in TailraceStateStoreProvider")
  }

  // ---- reports to Spark

  private[spark] def checkpointInfo(newVersion: Long, base: Long): StateStoreCheckpointInfo = {
    val named = conf.enableStateStoreCheckpointIds
    StateStoreCheckpointInfo(
      identifier.partitionId,
      newVersion,
      if (named) Some(LineageName(store.table.lineage)) else None,
      if (named && newVersion > 1) Some(LineageName(base)) else None)
  }

  private[spark] def reportCommit(newVersion: Long): Unit =
    if (conf.commitValidationEnabled) {
      StateStore.reportCommitToCoordinator(newVersion, identifier, hadoopConf)
    }

  private[spark] def validateRows(key: UnsafeRow, value: UnsafeRow): Unit =
    StateStoreProvider.validateStateRowFormat(
      key, keySchema, value, valueSchema, identifier, conf)

  override def supportedCustomMetrics: Seq[StateStoreCustomMetric] = StoreMetrics.all

  // ---- maintenance

  override def doMaintenance(): Unit = doCleanupMaintenance()

  override def doCleanupMaintenance(): Unit = store.cleanUp(System.currentTimeMillis())

  override def close(): Unit = {
    if (store != null) store.close()
    withdrawals.foreach(_.apply())
    withdrawals = Nil
  }

  override def toString: String = s"TailraceStateStoreProvider[$identifier]"
}

object TailraceStateStoreProvider {
  /** Whether queries with these settings keep their state in tailrace. */
  def isChosenIn(conf: SQLConf): Boolean =
    conf.stateStoreProviderClass == classOf[TailraceStateStoreProvider].getName
}
