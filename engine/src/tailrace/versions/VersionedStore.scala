package tailrace.versions

import java.util.concurrent.{Semaphore, TimeUnit}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong}

import org.slf4j.LoggerFactory

import tailrace.cold.ColdStorage
import tailrace.commit.{Committer, Sealer, SnapshotPolicy, SnapshotWriter}
import tailrace.errors.{CheckpointError, MemoryExhausted, StoreBusy}
import tailrace.files.{FileNames, PackShelf, StateFolder}
import tailrace.format.{Codec, FileKind}
import tailrace.io.IoScheduler
import tailrace.memory.Budget
import tailrace.metrics.BatchMeter
import tailrace.recovery.{Loader, RestartMode}
import tailrace.store.{FrozenVersion, Lineage, PlannedFamily, StateTable}
import tailrace.store.StateTable.Position

/**
 * One store through its versions: the table in memory, its files, and their users.
 *
 * Protocol of a task:
 *  1. `acquire`: one task at a time; a second waits for the first one's release.
 *  2. `moveTo(version)`: nothing to do, one batch to revert, or a load from the checkpoint.
 *  3. `begin`, changes, then `commit` (sealed, taken by the committer, applied) or `rollback`.
 *  4. `release`.
 *
 * Invariants: a version is applied only after the committer has taken its changes: written them,
 * or promised that no later batch shows output before they are written. A version that was
 * committed stays loadable until `cleanUp` drops it, which only happens below a snapshot that is
 * known to belong to the live lineage.
 */
final class VersionedStore(
    folder: StateFolder,
    packs: PackShelf,
    committer: Committer,
    description: String,
    withLineage: Boolean,
    codec: Codec,
    policy: SnapshotPolicy,
    lockTimeoutMillis: Long,
    versionsToRetain: Int,
    snapshotReady: Long => Unit,
    snapshotMissed: Long => Boolean,
    planOf: String => PlannedFamily,
    cold: ColdStorage,
    budget: Budget,
    io: IoScheduler,
    restart: RestartMode = RestartMode.Eager) {
  import VersionedStore._

  private val names = new FileNames(withLineage)
  private val loader = new Loader(folder, packs, names, withLineage, description)
  private val sealer = new Sealer(codec, description)
  private val snapshotWriter = new SnapshotWriter(
    folder, names, codec, description, io, restart.blockSize)
  private val owner = new Semaphore(1)
  private val closeRequested = new AtomicBoolean(false)
  private var closed = false
  private var isLoaded = false
  private var refusalsBefore = 0L
  private var isSnapshotPutOff = false
  private val putOffCount = new AtomicLong
  /** Versions whose snapshot is known to belong to the live lineage. */
  private val goodSnapshots = new java.util.TreeSet[java.lang.Long]
  @volatile private var newestVersion = 0L
  @volatile private var cleanedBelow = 0L

  val table = new StateTable(budget, planOf, cold, io, description)

  // ---- 1. and 4. the store's owner

  def acquire(): Unit = {
    if (!owner.tryAcquire(lockTimeoutMillis, TimeUnit.MILLISECONDS)) {
      throw new StoreBusy(s"The state store $description", lockTimeoutMillis)
    }
    if (closed) {
      owner.release()
      throw new IllegalStateException(s"The state store $description is closed.")
    }
    LoadBehind.inUse.incrementAndGet()
  }

  def release(): Unit = {
    table.prefetch.batchOver()
    isPartial = isLoaded && table.isPartial
    val goesOn = isPartial
    letGo()
    LoadBehind.inUse.decrementAndGet()
    if (goesOn) behind.goOn()
  }

  private def letGo(): Unit = {
    owner.release()
    if (closeRequested.get()) closeIfFree()
  }

  /** Brings what a restart has left in a snapshot, while no task uses the store. */
  private val behind = new LoadBehind(io, description, whileIdle, _ => mustBringAll = true)
  /** The next batch begins with all state in memory. */
  @volatile private var mustBringAll = false
  private var snapshotsAwaited = 0
  /** As of the last look at the table, for threads that do not own it. */
  @volatile private var isPartial = false

  private def whileIdle(body: StateTable => Unit): Boolean = owner.tryAcquire() && {
    try {
      val isThere = !closed && isLoaded && !mustBringAll
      try if (isThere) {
        body(table)
        isPartial = table.isPartial
      } catch {
        case error: CheckpointError if !table.isBroken => throw error
        case error: Throwable => // the next task loads the state again
          distrust()
          throw error
      }
      isThere
    } finally {
      letGo()
    }
  }

  /** Whether a batch may begin at this version before any other is committed. For any thread. */
  def mayBeginAt(version: Long): Boolean = version <= newestVersion + 1

  /**
   * Runs code as the owner, if no task uses the store and it is at this version. False: it was not run.
   */
  def whileFree(version: Long)(body: StateTable => Unit): Boolean = owner.tryAcquire() && {
    try {
      val isThere = !closed && isLoaded && table.version == version
      if (isThere) body(table)
      isThere
    } finally {
      letGo()
    }
  }

  /** Another store needs memory. If no task uses this one, it spills what it has above its share. */
  private val lender: Budget.Lender = () => if (owner.tryAcquire()) {
    try if (!closed && isLoaded) table.giveBack() catch {
      case error: Throwable => // the other store's task goes on; this state is loaded again
        log.warn(s"$description could not give memory back, and is loaded again when used.", error)
        distrust()
        if (error.isInstanceOf[InterruptedException]) Thread.currentThread().interrupt()
    } finally {
      letGo()
    }
  }
  budget.addLender(lender)

  /** Ends the store now or, if a task still uses it, as soon as that task releases it. */
  def close(): Unit = {
    closeRequested.set(true)
    closeIfFree()
  }

  private def closeIfFree(): Unit = if (owner.tryAcquire()) {
    try closeNow() finally owner.release()
  }

  // ---- 2. versions

  /** Makes the table hold this version; `lineage` says which run of it, if Spark knows. */
  def moveTo(version: Long, lineage: Option[Long], meter: BatchMeter): Unit = {
    def fits(position: Position): Boolean =
      position.version == version && lineage.forall(_ == position.lineage)

    if (isLoaded && !table.isBroken && fits(Position(table.version, table.lineage))) {
      // Already there: the usual case.
    } else if (isLoaded && !table.isBroken && table.revertible.exists(fits)) {
      table.revert()
      isSnapshotPutOff = false
      forgetSnapshotsAfter(version)
    } else {
      load(version, lineage, meter)
    }
  }

  /** Makes the table an empty one of this version, whatever the files say. */
  def moveToEmpty(version: Long): Unit = {
    table.reset(Position(version, Lineage.Empty))
    isSnapshotPutOff = false
    policy.loaded(0L, 0L, 0)
    isLoaded = true
  }

  private def load(version: Long, lineage: Option[Long], meter: BatchMeter): Unit = {
    val started = System.nanoTime()
    isLoaded = false
    isSnapshotPutOff = false
    mustBringAll = false
    snapshotsAwaited = 0
    if (version == 0) {
      moveToEmpty(0L)
      forgetSnapshotsAfter(0L)
    } else {
      committer.awaitDurable(version)
      val loaded = try loader.load(table, version, lineage, restart.isLazy)(snapshotIsDamaged) catch {
        case error: Throwable =>
          table.reset(Position(0L, Lineage.Empty))
          throw error
      }
      policy.loaded(loaded.snapshotBytes, loaded.changesBytes, loaded.changesFiles,
        wanted = loaded.passedOver > 0)
      forgetSnapshotsAfter(version)
      loaded.snapshotVersion.foreach { snapshot =>
        snapshotIsGood(snapshot)
        snapshotReady(snapshot)
      }
      meter.loadedFiles += loaded.changesFiles + loaded.snapshotVersion.size
      meter.localFiles += loaded.localFiles
      meter.damagedFiles += loaded.passedOver
      isPartial = table.isPartial
      isLoaded = true
    }
    newestVersion = math.max(newestVersion, version)
    meter.loadNanos += System.nanoTime() - started
  }

  // ---- 3. a batch

  def begin(): Unit = {
    refusalsBefore = budget.refusals
    try {
      table.begin()
      if (mustBringAll) {
        table.bringAll()
        mustBringAll = false
      }
      if (isSnapshotPutOff) freezeNow(atBegin = true)
    } catch {
      case error: Throwable =>
        distrust()
        throw error
    }
  }

  /** How often memory was too short for a snapshot: for its addresses, or for what it kept. */
  def snapshotsPutOff: Long = putOffCount.get

  def commit(snapshot: SnapshotWish, meter: BatchMeter): Long = {
    // 1. Sealed.
    val started = System.nanoTime()
    val batch = sealer.seal(table)
    meter.sealNanos += System.nanoTime() - started
    meter.entriesWritten += batch.entries
    // 2. Taken: durable, or on its way behind the gate.
    committer.commit(batch, meter)
    // 3. Applied.
    val applying = System.nanoTime()
    table.apply(batch.lineage)
    newestVersion = math.max(newestVersion, table.version)
    policy.changesWritten(batch.bytes.length)
    meter.applyNanos += System.nanoTime() - applying
    // 4. A snapshot beside the next batches, if one is due.
    snapshot match {
      case SnapshotWish.Now => snapshotNow(meter)
      case SnapshotWish.Soon => snapshotLater(meter)
      case SnapshotWish.WhenDue =>
        if (policy.isDue || snapshotMissed(table.version)) snapshotLater(meter)
    }
    table.version
  }

  def rollback(): Unit =
    if (budget.refusals == refusalsBefore && table.coldLog.isSound && !table.isBroken) table.rollback()
    else distrust()

  /**
   * A change that ran out of memory, or met a damaged entry, may have been made by half, and cannot
   * be rolled back. The files of the checkpoint count, and are loaded when a version is asked for.
   */
  private def distrust(): Unit = {
    isLoaded = false
    isSnapshotPutOff = false
    table.reset(Position(0L, Lineage.Empty))
  }

  private def snapshotLater(meter: BatchMeter): Unit = {
    val started = System.nanoTime()
    freezeNow(atBegin = false)
    meter.snapshotFreezeNanos += System.nanoTime() - started
  }

  /**
   * An earlier snapshot that is still being written serves the wish: Spark asks with every commit
   * until one is reported. If the addresses do not fit into memory, the next batch makes room when
   * it begins. If they still do not, the snapshot is put off until the policy asks for one again: the
   * changes hold everything.
   */
  private def freezeNow(atBegin: Boolean): Unit = if (isPartialStill) {
    awaitTheRest()
  } else if (!table.isFrozen) {
    val made = table.freeze(atBegin)
    isSnapshotPutOff = made.isEmpty && !atBegin
    if (made.isEmpty && atBegin) snapshotPutOff()
    made.foreach { frozen =>
      policy.snapshotStarted()
      snapshotWriter.submit(frozen) { bytes =>
        policy.snapshotWritten(bytes)
        snapshotIsGood(frozen.version)
      } { error =>
        policy.snapshotFailed()
        error match {
          case cancelled: FrozenVersion.Cancelled => if (cancelled.forMemory) snapshotPutOff()
          case _ => log.warn(s"The snapshot of version ${frozen.version} of $description was not " +
            "written; the changes files still hold everything, and another snapshot is tried later.",
            error)
        }
      } (snapshotReady(frozen.version))
    }
  }

  /** Whether much of the state is still in the last snapshot. The commit does not fail for the rest. */
  private def isPartialStill: Boolean = table.isPartial && {
    try if (table.isNearlyWhole) table.bringAll() catch {
      case error: CheckpointError =>
        log.warn(s"The rest of $description could not be read. ${error.problem} ${error.because}")
        mustBringAll = true
    }
    table.isPartial
  }

  /** A snapshot needs all records: a later commit asks for it again, and does not wait for ever. */
  private def awaitTheRest(): Unit = {
    snapshotsAwaited += 1
    if (snapshotsAwaited >= MostAwaited) mustBringAll = true
  }

  /** A later commit asks for it again. */
  private def snapshotPutOff(): Unit = if (putOffCount.incrementAndGet() == 1) {
    log.warn(s"A snapshot of $description is put off: memory is short. The changes files hold " +
      "everything, but a restart takes longer; raise the option memory_limit.")
  }

  private def snapshotNow(meter: BatchMeter): Unit = {
    val frozen = table.freeze().getOrElse(throw new MemoryExhausted(
      table.rows(internal = false) * 8, budget.used, budget.limit))
    policy.snapshotStarted()
    try {
      val bytes = snapshotWriter.write(frozen)
      policy.snapshotWritten(bytes)
      snapshotIsGood(frozen.version)
      snapshotReady(frozen.version)
      meter.filesWritten += 1
      meter.bytesWritten += bytes
    } finally {
      frozen.done()
    }
  }

  private def snapshotIsGood(version: Long): Unit =
    goodSnapshots.synchronized(goodSnapshots.add(version))

  /** Files older than the snapshot are still needed. */
  private def snapshotIsDamaged(version: Long): Unit = {
    goodSnapshots.synchronized(goodSnapshots.remove(version))
    policy.want()
  }

  private def forgetSnapshotsAfter(version: Long): Unit =
    goodSnapshots.synchronized(goodSnapshots.tailSet(version, false).clear())

  // ---- old versions

  /**
   * Deletes the files that no retained version needs: everything before the newest good snapshot that
   * is not newer than the oldest version to retain. Only files with our names are ever deleted, and
   * none while some of the state is still in a snapshot: if it is damaged, others take its place.
   */
  def cleanUp(nowMillis: Long): Unit = {
    // The newest version may not be published yet: a restart then loads the one before.
    val oldest = newestVersion - math.max(versionsToRetain - 1, 1)
    val base = goodSnapshots.synchronized(Option(goodSnapshots.floor(oldest)))
      .map(_.longValue).filterNot(_ => isPartial)
    base.filter(_ > cleanedBelow).foreach { snapshot =>
      folder.list().foreach { entry =>
        val obsolete = FileNames.parse(entry.name) match {
          case Some(FileNames.Parsed(FileKind.Changes, version, _)) => version <= snapshot
          case Some(FileNames.Parsed(FileKind.Snapshot, version, _)) => version < snapshot
          case None => FileNames.isAbandoned(entry.name) &&
            nowMillis - entry.modifiedMillis > AbandonedAfterMillis
        }
        if (obsolete) folder.delete(entry.name)
      }
      goodSnapshots.synchronized(goodSnapshots.headSet(snapshot, false).clear())
      cleanedBelow = snapshot
      committer.oldestNeeded(snapshot)
    }
  }

  private def closeNow(): Unit = if (!closed) {
    closed = true
    budget.removeLender(lender)
    table.close()
  }
}

/** How a commit is to go about a snapshot. */
sealed trait SnapshotWish

object SnapshotWish {
  /** Beside the next batches, if the policy says so. */
  case object WhenDue extends SnapshotWish
  /** Beside the next batches, because Spark asks for one. */
  case object Soon extends SnapshotWish
  /** Before the commit returns: there is no changes file that the version could be replayed from. */
  case object Now extends SnapshotWish
}

object VersionedStore {
  private val log = LoggerFactory.getLogger(classOf[VersionedStore])
  /** So often a commit finds a snapshot due while some of the state is still in the last one. */
  private val MostAwaited = 8
  private val AbandonedAfterMillis = 3600L * 1000
}
