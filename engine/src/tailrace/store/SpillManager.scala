package tailrace.store

import tailrace.cold.{ColdLog, ColdStorage, SpillMode}
import tailrace.io.{IoKind, IoScheduler}
import tailrace.layout.Epoch
import tailrace.memory.{Arena, Budget}

/**
 * Problem: a batch may need more memory than is free when it begins, and the thread that runs it
 * should not write files.
 *
 * Answer: the owner of the store looks at memory every few operations (`look`). At the low mark it
 * picks records that the batch does not use and goes on; an I/O thread copies and writes them
 * ([[SpillStep]]); at one of its next looks the owner installs the references and frees the records.
 * At the high mark it waits for that. The log is cleaned in the same way ([[CleanStep]]).
 *
 * Marks: the store can still get the bytes that the budget has for records, and the free slots of
 * its own arena; once memory is tight, a store above its share of the limit gets no more from the
 * budget. Low is a part of the share, or of the bytes that a batch takes; high is a quarter of it.
 *
 * Invariant: memory runs out only when the records of the running batch, and the parts that cannot be
 * spilled (tables, changes, ordered families), do not fit. Between `begin` and the end of the batch
 * no record is freed that it uses.
 */
private[store] final class SpillManager(
    budget: Budget, storage: ColdStorage, val log: ColdLog, io: IoScheduler, epoch: Epoch,
    host: SpillManager.Host) {
  import SpillManager._

  private val order = EvictionOrder.of(
    storage.eviction, epoch, () => host.families.iterator.flatMap(_.recordTable))
  private val all = new EvictionOrder.Any(epoch)
  private var step: SpillStep = null
  private var slotStep: SlotStep = null
  private var cleaning: CleanStep = null
  private var isBusy = false
  private var isExhausted = false // nothing more can be spilled in this batch
  private var operations = 0
  private var need = 0L // bytes that the last batch took
  private var begun = 0L
  private val between = if (storage.mode == SpillMode.Always) OperationsIfAlways else Operations

  /** The time that the running batch spent on spilling and cleaning, in the task's thread. */
  var spillNanos = 0L
  var waitNanos = 0L
  var cleanNanos = 0L
  /** Records and lists spilled so far, and those that were asked for on their way out, and stayed. */
  var spilled = 0L
  var returned = 0L

  // ---- the owner's looks

  /** At the start of an operation. */
  def tick(): Unit = {
    operations += 1
    if (operations >= between) {
      operations = 0
      epoch.clock.pass(between)
      if (storage.mode != SpillMode.Never) look()
    }
  }

  /** Goes on with spilling and cleaning, and waits if there is little memory left. */
  def look(): Unit = if (!isBusy) busily {
    val started = System.nanoTime()
    if (step != null && step.isDone) installStep()
    if (storage.mode == SpillMode.Always) {
      if (step != null) installStep() else startStep(Long.MaxValue)
    } else if (available < lowMark) {
      if (available < highMark) host.awaitFrozen()
      if (step == null && !host.keepsRecords) startStep(stepBytes)
      while (step != null && available < highMark) {
        installStep()
        if (available < highMark) startStep(stepBytes)
      }
    }
    keepSlotsFew()
    val spilledAt = System.nanoTime()
    spillNanos += spilledAt - started
    keepClean()
    cleanNanos += System.nanoTime() - spilledAt
  }

  /** The arena has no room, in the middle of an operation. False: nothing can be freed. */
  def makeRoomNow(): Boolean = storage.mode != SpillMode.Never && !isBusy && busily {
    val started = System.nanoTime()
    val before = host.arena.liveBytes
    if (host.reserved < budget.share) budget.starves()
    host.awaitFrozen()
    // A step whose victims have all been used since frees nothing.
    while (host.arena.liveBytes >= before && (step != null || !isExhausted)) {
      if (step == null) startStep(stepBytes)
      if (step != null) installStep()
    }
    spillNanos += System.nanoTime() - started
    host.arena.liveBytes < before
  }

  private def busily[T](body: => T): T = {
    isBusy = true
    try body finally isBusy = false
  }

  private def available: Long = {
    val room = if (budget.isTight) math.min(budget.roomForRecords, budget.share - host.reserved)
      else budget.roomForRecords
    math.max(0L, room) + host.arena.freeBytes
  }

  private def lowMark: Long = {
    val share = budget.share
    math.max(share / 16, math.min(need / 4, share / 8))
  }

  private def highMark: Long = lowMark / 4

  private def stepBytes: Long = math.max(SmallestStep, math.min(LargestStep, lowMark / 4))

  // ---- spilling

  private def startStep(wanted: Long): Unit = if (!isExhausted) {
    val most = if (wanted > LargestStep) Int.MaxValue else MostInStep
    val picked = new scala.collection.mutable.ArrayBuffer[Victims]
    var left = wanted
    // Lists go first: they are not read until their time.
    val chosen = if (storage.mode == SpillMode.Always) all else order
    host.families.toSeq.sortBy(family => (!family.kind.multiValue, family.id)).foreach { family =>
      if (left > 0) {
        family.pickVictims(left, most, chosen).foreach { victims =>
          picked += victims
          left -= victims.bytes
        }
      }
    }
    isExhausted = picked.isEmpty
    if (picked.nonEmpty) step = new SpillStep(picked.toSeq, log, io, host.name)
  }

  /** Waits for the step, and puts references in the place of the records. */
  private def installStep(): Unit = {
    val present = step
    if (!present.isDone) {
      val started = System.nanoTime()
      try present.await() finally waitNanos += System.nanoTime() - started
    }
    step = null
    present.await()
    val freed = host.newChanges()
    present.install(freed)
    spilled += freed.size
    returned += present.returned
    host.retire(freed)
  }

  // ---- spilling slots

  /**
   * Slots may take half of the store's share, and less when all records that can be spilled have been
   * or the budget is nearly used up. Only here, at the start of an operation: slots move.
   */
  private def keepSlotsFew(): Unit = {
    if (slotStep != null && slotStep.isDone) installSlots()
    if (slotStep == null && areSlotsMany) startSlots()
    while (slotStep != null && mustWaitForSlots) {
      installSlots()
      if (mustWaitForSlots) startSlots()
    }
  }

  private def areSlotsMany: Boolean = storage.mode == SpillMode.Always ||
    (available < lowMark || budget.isShort) &&
      host.slotBytes > budget.share / slotsPart

  private def slotsPart: Int =
    if (isExhausted || budget.isNearlyUsedUp) FewestSlots
    else if (budget.isShort) FewSlots
    else ManySlots

  private def mustWaitForSlots: Boolean = storage.mode != SpillMode.Always &&
    (available < highMark || budget.isNearlyUsedUp) && areSlotsMany

  private def startSlots(): Unit = {
    val picked =
      host.families.iterator.flatMap(_.pickSlots(storage.mode == SpillMode.Always)).nextOption()
    slotStep = picked.map(new SlotStep(_, log, io, host.name)).orNull
  }

  /** A task that is interrupted while it waits leaves the step where it is, as in `installStep`. */
  private def installSlots(): Unit = {
    val present = slotStep
    if (!present.isDone) present.await()
    slotStep = null
    present.install()
  }

  // ---- cleaning

  private def keepClean(): Unit = {
    if (cleaning != null && cleaning.isDone && step == null) installCleaning()
    if (cleaning == null && (log.nearsBound || log.hasGarbage)) startCleaning()
    // Beyond its bound the log waits for nothing.
    while (cleaning != null && log.exceedsBound) {
      if (step != null) installStep()
      installCleaning()
      if (log.nearsBound) startCleaning()
    }
  }

  private def startCleaning(): Unit = {
    val segment = if (log.nearsBound) log.nextToClean else None
    if (segment.isDefined || log.hasGarbage) {
      cleaning = new CleanStep(segment, log, io, host.name)
    }
  }

  private def installCleaning(): Unit = {
    val present = cleaning
    present.await()
    cleaning = null
    present.install(host.familyOf)
  }

  // ---- between batches

  /** A batch begins: its time is counted from here. */
  def restartClocks(): Unit = {
    spillNanos = 0L
    waitNanos = 0L
    cleanNanos = 0L
  }

  /**
   * Before records are freed or put back: waits until the step's victims are copied, and drops those
   * that are no longer in their slots.
   */
  def dropStaleVictims(): Unit = if (step != null) {
    step.awaitCopied()
    step.forget(all = false)
  }

  /** Before records move to other addresses. */
  def beforeRelocation(): Unit = if (step != null) {
    step.awaitCopied()
    step.forget(all = true)
  }

  /** A batch begins; `took` is the bytes that the last one asked of the arena. */
  def begin(took: Long): Unit = {
    need = took
    order.restart()
    if (budget.isTight && host.reserved < budget.share / 2 && available < lowMark) budget.borrow()
    isExhausted = false
    begun += 1
    if (storage.mode == SpillMode.Always && begun % 2 == 0) spillAll()
    if (storage.mode == SpillMode.WhenTight) look()
  }

  /**
   * A part of a checkpoint was loaded: all of it may be spilled. The loading thread waits: it frees
   * replaced records at once, so no step may be under way when it goes on.
   */
  def loading(): Unit = if (storage.mode != SpillMode.Never) {
    epoch.advance()
    order.restart()
    isExhausted = false
    host.families.foreach(_.loading())
    look()
    busily {
      if (step != null) installStep()
      if (slotStep != null) installSlots()
    }
  }

  private def spillAll(): Unit = busily {
    if (step != null) installStep()
    startStep(Long.MaxValue)
    if (step != null) installStep()
    if (slotStep == null) startSlots()
    if (slotStep != null) installSlots()
    while (log.exceedsBound && (cleaning != null || log.nextToClean.isDefined)) {
      if (cleaning == null) startCleaning()
      installCleaning()
    }
  }

  /** Between batches: spills until the records in memory take no more than this. */
  def spillDownTo(bytes: Long): Unit = if (storage.mode != SpillMode.Never) busily {
    val started = System.nanoTime()
    host.awaitFrozen()
    if (step != null) installStep()
    isExhausted = false
    order.restart()
    while (host.arena.liveBytes > bytes && !isExhausted) {
      startStep(math.min(LargestDrain, host.arena.liveBytes - bytes))
      if (step != null) installStep()
    }
    isExhausted = false
    spillNanos += System.nanoTime() - started
  }

  /** Between batches: spills until slots take no more memory than this, or few are left. */
  def spillSlotsDownTo(bytes: Long): Unit = busily {
    if (slotStep == null) startSlots()
    while (slotStep != null) {
      installSlots()
      if (host.slotBytes > bytes) startSlots()
    }
  }

  /** Gives everything up; the files are deleted by an I/O thread. */
  def clear(await: Boolean): Unit = {
    if (step != null) step.cancel()
    if (slotStep != null) slotStep.cancel()
    if (cleaning != null) cleaning.cancel()
    step = null
    slotStep = null
    cleaning = null
    isExhausted = false
    if (log.hasFolder) {
      val delete = log.clear()
      val deleted = io.submit(IoKind.Clean, s"Deleting files of ${host.name}")(_ => delete())
      if (await) deleted.awaitEnd()
    } else {
      log.clear()
    }
  }
}

private[store] object SpillManager {
  /** Of all entries that do not expire with the rest of a window. */
  val CommonLane: Long = Long.MinValue

  private val Operations = 64
  private val OperationsIfAlways = 3
  private val MostInStep = 10000
  private val SmallestStep = 64L << 10
  /** Of the store's share: the parts that slots may take, the less memory there is. */
  private val ManySlots = 2
  private val FewSlots = 4
  private val FewestSlots = 16
  private val LargestStep = 2L << 20
  /** Between batches a task waits for each step: fewer, larger ones. */
  private val LargestDrain = 8L << 20

  /** The table whose records are spilled. */
  trait Host {
    def name: String
    def arena: Arena
    def families: Iterable[Family]
    def familyOf(id: Int): Family
    /** Bytes of the budget that are the store's, and of them those of slots that can be spilled. */
    def reserved: Long
    def slotBytes: Long
    /** For a list of spilled records. */
    def newChanges(): Changes
    /** Frees spilled records, now or when no snapshot shows them any more. */
    def retire(freed: Changes): Unit
    /** Whether a snapshot keeps records from being freed: spilling would gain nothing. */
    def keepsRecords: Boolean
    /** Waits until none does; a snapshot that stands still, or has not begun, is cancelled. */
    def awaitFrozen(): Unit
  }
}
