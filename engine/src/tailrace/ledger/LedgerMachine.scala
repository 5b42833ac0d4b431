package tailrace.ledger

import scala.collection.mutable

import tailrace.faults.{Rule, Rules}
import tailrace.ledger.LedgerEffect._
import tailrace.ledger.LedgerEvent._
import tailrace.ledger.Messages._

/**
 * The commit protocol (docs/rfcs/0004) as a function: (state, event) gives (state, effects). No
 * thread, no clock and no file is touched here, so that a simulation can drive it through any
 * history and replay one from its seed. [[Ledger]] carries the effects out.
 *
 * The life of batch N:
 *  1. Tasks register; they are admitted when batch N-1 is published and `offsets/N` is visible.
 *  2. Spark hands over `commits/N`: the batch is applied, and executors get their orders.
 *  3. Executors acknowledge durable parts. When all are, the batch is durable.
 *  4. `commits/N` is published, then `offsets/N+1`; the gate of batch N+1 opens.
 * A part that cannot be written fails the checkpoint's current run: the gate refuses, Spark fails the
 * query, and a restart goes on from the last published batch.
 *
 * Invariants: `commits/N` becomes visible only after step 3, `offsets/N+1` only after `commits/N`.
 * So the newest entry of `offsets` says that every batch before it is published, and a restart finds
 * nothing to remove. At most one batch is applied and not published. Every token is answered once.
 */
final class LedgerMachine(rules: Rules) {
  import LedgerMachine._

  def apply(
      state: LedgerState, event: LedgerEvent, nowNanos: Long): (LedgerState, Seq[LedgerEffect]) = {
    val turn = new Turn(state, nowNanos)
    turn.take(event)
    (turn.state, turn.effects.toSeq)
  }

  /** One event: the state as it becomes, and the effects in their order. */
  private final class Turn(var state: LedgerState, now: Long) {
    val effects = new mutable.ArrayBuffer[LedgerEffect]

    def take(event: LedgerEvent): Unit = event match {
      case RunBegan(root, run, next) => runBegan(root, run, next)
      case OffsetsTaken(batch) => current(batch)(offsetsTaken(_, batch))
      case CommitTaken(batch, token) => commitTaken(batch, token)
      case CommittedDirectly(batch) => current(batch)(committedDirectly(_, batch))
      case TidyAsked(batch, token) => tidyAsked(batch, token)
      case PublishedAsked(batch, token) => publishedAsked(batch, token)
      case QuietAsked(root, token) => quietAsked(root, token)
      case QuietGivenUp(root, token) => state.checkpoints.get(root).foreach { checkpoint =>
        put(checkpoint.copy(awaitingQuiet = checkpoint.awaitingQuiet.filterNot(_ == token)))
      }
      case RunEnded(run) => state.checkpoints.values.filter(_.run == run).foreach(runEnded)
      case SessionEnded => state = state.copy(isClosed = true)
      case ExecutorLost(executor) => executorLost(executor)
      case Registering(message, token) => registering(message, token)
      case GateAsked(batch, token) => gateAsked(batch, token)
      case OrdersAsked(message, token) => ordersAsked(message, token)
      case PartsDurable(message) => partsDurable(message)
      case PartsNotWritten(message) => partsNotWritten(message)
      case DurableAsked(message, token) => durableAsked(message, token)
      case NeededFrom(message) => neededFrom(message)
      case StepDone(step, retries) => stepEnded(step)(stepDone(_, step, retries))
      case StepFailed(step, failure) => stepEnded(step)(fail(_, failure))
    }

    // ---- Spark's log files

    private def runBegan(root: String, run: String, next: Long): Unit = {
      val before = state.checkpoints.get(root)
      if (!before.exists(old => old.run == run || old.endedRuns(run))) {
        before.foreach { old =>
          old.batches.values.foreach(letGo(_, Refusals.tooLate(BatchId(root, run, 0L))))
          dropOffsets(old)
        }
        val ended = before.fold(Set.empty[String])(old => old.endedRuns + old.run)
        put(Checkpoint(root, run, ended, published = next - 1, next = next,
          steps = before.fold(0)(_.steps),
          awaitingQuiet = before.fold(Vector.empty[LedgerState.Token])(_.awaitingQuiet)))
      }
    }

    /** `offsets/N` is prepared beside the batch, and becomes visible when N-1 is published. */
    private def offsetsTaken(checkpoint: Checkpoint, batch: BatchId): Unit =
      if (checkpoint.failure.nonEmpty) {
        effects += DropOffsets(batch)
      } else if (checkpoint.published >= batch.number - 1 ||
          !rules.isOn(Rule.OffsetsAfterCommits)) {
        publishOffsets(checkpoint, batch.number)
      } else {
        put(checkpoint.copy(offsets = checkpoint.offsets + (batch.number -> OffsetsPhase.Taken)))
        start(Step.PrepareOffsets(batch))
      }

    private def publishOffsets(checkpoint: Checkpoint, number: Long): Unit = {
      put(checkpoint.copy(offsets = checkpoint.offsets + (number -> OffsetsPhase.Publishing)))
      start(Step.PublishOffsets(BatchId(checkpoint.root, checkpoint.run, number)))
    }

    /** 2. All tasks of the batch are done. */
    private def commitTaken(id: BatchId, token: LedgerState.Token): Unit = {
      val checkpoint = state.checkpoints(id.root)
      val refused = checkpoint.failure
        .orElse(if (state.isClosed) Some(Refusals.sessionEnded(id)) else None)
        .orElse(if (checkpoint.run != id.run) Some(Refusals.tooLate(id)) else None)
      refused match {
        case Some(reason) => answer(token, reason)
        case None =>
          val batch = checkpoint.batches(id.number).to(BatchPhase.Applied).copy(appliedNanos = now)
          put(checkpoint.updated(batch.copy(awaitingOrders = Vector.empty)).copy(
            next = id.number + 1, isAsynchronous = true,
            stores = batch.stores.valuesIterator.map(_.at.store).toSet))
          answer(token, LedgerAnswer.Done)
          val lost = batch.stores.valuesIterator
            .find(s => !s.durable && state.lostExecutors(s.executor))
          if (lost.nonEmpty && rules.isOn(Rule.LostExecutorFails)) {
            fail(of(id), Refusals.lostWith(lost.get.executor, id.number))
            batch.awaitingOrders.foreach { case (waiting, _) => answer(waiting, Discard) }
          } else {
            batch.awaitingOrders.foreach { case (waiting, executor) =>
              answer(waiting, batch.ordersFor(executor))
            }
            start(Step.PrepareCommit(id))
            if (batch.allDurable || !rules.isOn(Rule.PublishAfterDurable)) becomeDurable(of(id), id)
          }
      }
    }

    private def committedDirectly(checkpoint: Checkpoint, id: BatchId): Unit = {
      checkpoint.batches.get(id.number).foreach(letGo(_, Refusals.tooLate(id)))
      put(checkpoint.copy(
        published = math.max(checkpoint.published, id.number), next = id.number + 1,
        batches = checkpoint.batches - id.number, isAsynchronous = false))
    }

    private def tidyAsked(batch: BatchId, token: LedgerState.Token): Unit = {
      val due = state.current(batch).filter(!_.isTidied)
      due.foreach(checkpoint => put(checkpoint.copy(isTidied = true)))
      answer(token, LedgerAnswer.Tidy(due.nonEmpty))
    }

    private def publishedAsked(id: BatchId, token: LedgerState.Token): Unit =
      state.current(id) match {
        case Some(checkpoint) if checkpoint.failure.nonEmpty =>
          answer(token, checkpoint.failure.get)
        case Some(checkpoint) if checkpoint.batches.contains(id.number) =>
          val batch = checkpoint.batches(id.number)
          put(checkpoint.updated(batch.copy(awaitingPublished = batch.awaitingPublished :+ token)))
        case _ => answer(token, LedgerAnswer.Done)
      }

    private def quietAsked(root: String, token: LedgerState.Token): Unit =
      state.checkpoints.get(root) match {
        case Some(checkpoint) =>
          put(checkpoint.copy(awaitingQuiet = checkpoint.awaitingQuiet :+ token))
          lookForQuiet(root)
        case None => answer(token, LedgerAnswer.Quiet(None))
      }

    /** The run is over: the parts of its unfinished batch are dropped. */
    private def runEnded(checkpoint: Checkpoint): Unit = {
      val (running, others) = checkpoint.batches.partition(_._2.phase == BatchPhase.Running)
      put(checkpoint.copy(
        endedRuns = checkpoint.endedRuns + checkpoint.run, batches = others))
      running.values.foreach { batch =>
        letGo(batch, Refusals.tooLate(BatchId(checkpoint.root, checkpoint.run, batch.number)))
      }
      lookForQuiet(checkpoint.root)
    }

    // ---- from the executors

    /** 1. A task is about to apply a store's batch. */
    private def registering(message: Register, token: LedgerState.Token): Unit = {
      val id = message.batch
      state.checkpoints.get(id.root) match {
        case Some(checkpoint) if checkpoint.endedRuns(id.run) =>
          answer(token, Refusals.tooLate(id))
        case Some(checkpoint) if checkpoint.run == id.run =>
          val batch = checkpoint.batches.getOrElse(id.number, Batch(id.number))
          if (checkpoint.failure.nonEmpty) {
            answer(token, checkpoint.failure.get)
          } else if (id.number != checkpoint.next || batch.phase != BatchPhase.Running) {
            answer(token, Refusals.tooLate(id))
          } else {
            register(checkpoint, batch, message, token)
          }
        case _ => answer(token, WriteNow)
      }
    }

    private def register(
        checkpoint: Checkpoint, batch: Batch, message: Register, token: LedgerState.Token): Unit = {
      val key = Batch.Key(
        message.store.store, if (message.named) Some(message.store.lineage) else None)
      // A part that is durable stays so: the message may be a repetition.
      val durable = batch.stores.get(key).exists { known =>
        known.durable && known.at == message.store && known.executor == message.executor
      }
      val registered = batch.copy(stores =
        batch.stores + (key -> Batch.Registered(message.store, message.executor, durable)))
      val report = if (batch.isRegistered) checkpoint.report
        else checkpoint.report.copy(unpublished = checkpoint.unpublished)
      val open = checkpoint.gateIsOpen(batch.number) || !rules.isOn(Rule.GateBeforeOutput)
      if (open) {
        put(checkpoint.updated(registered).copy(report = report))
        admit(of(message.batch), token)
      } else {
        put(checkpoint.updated(registered.copy(atGate = registered.atGate :+ (token -> now)))
          .copy(report = report))
      }
    }

    /** The gate alone, for tasks that show output before they commit their stores. */
    private def gateAsked(id: BatchId, token: LedgerState.Token): Unit =
      state.current(id) match {
        case Some(checkpoint) if checkpoint.failure.nonEmpty => answer(token, checkpoint.failure.get)
        case Some(checkpoint)
            if id.number == checkpoint.next && !checkpoint.gateIsOpen(id.number) =>
          val batch = checkpoint.batches.getOrElse(id.number, Batch(id.number))
          put(checkpoint.updated(batch.copy(atGate = batch.atGate :+ (token -> now))))
        case _ => answer(token, WriteNow)
      }

    private def ordersAsked(message: AwaitOrders, token: LedgerState.Token): Unit = {
      val id = message.batch
      state.current(id).filter(c => c.failure.isEmpty && !c.endedRuns(id.run)) match {
        case Some(checkpoint) =>
          checkpoint.batches.get(id.number) match {
            case Some(batch) if batch.phase != BatchPhase.Running =>
              answer(token, batch.ordersFor(message.executor))
            case known if known.nonEmpty || id.number == checkpoint.next =>
              // A part reaches the pipeline before its task registers, so there may be no task yet.
              val batch = known.getOrElse(Batch(id.number))
              put(checkpoint.updated(
                batch.copy(awaitingOrders = batch.awaitingOrders :+ (token -> message.executor))))
            case _ => answer(token, Discard)
          }
        case None =>
          val pending = state.current(id).flatMap(_.batches.get(id.number)).filter(_.isPending)
          answer(token, pending.fold[Orders](Discard)(_.ordersFor(message.executor)))
      }
    }

    /** 3. An executor has written its part. */
    private def partsDurable(message: Durable): Unit = for {
      checkpoint <- state.current(message.batch)
      batch <- checkpoint.batches.get(message.batch.number)
    } {
      val stores = batch.stores.map { case (key, store) =>
        val written = store.executor == message.executor && message.stores.contains(store.at)
        key -> (if (written) store.copy(durable = true) else store)
      }
      val updated = batch.copy(stores = stores, packs = batch.packs + message.pack,
        retries = batch.retries + message.retries)
      put(checkpoint.updated(updated))
      if (updated.phase == BatchPhase.Applied && updated.allDurable) {
        becomeDurable(of(message.batch), message.batch)
      }
    }

    private def partsNotWritten(message: NotWritten): Unit =
      // Of a batch that is published nothing can be missing: an attempt that does not count failed.
      state.current(message.batch).filter(_.batches.contains(message.batch.number))
        .foreach(fail(_, Refusals.notWritten(message.problem, message.because)))

    private def durableAsked(message: AwaitDurable, token: LedgerState.Token): Unit = {
      val waits = state.checkpoints.get(message.root).filter(_.failure.isEmpty)
        .filter(_.batches.get(message.batch).exists(batch => batch.phase == BatchPhase.Applied ||
          (batch.phase == BatchPhase.Durable && batch.isFirstOfRun)))
        .filter(_ => rules.isOn(Rule.ReadersWait))
      waits match {
        case Some(checkpoint) =>
          val batch = checkpoint.batches(message.batch)
          put(checkpoint.updated(batch.copy(awaitingDurable = batch.awaitingDurable :+ token)))
        case None => answer(token, Acknowledged)
      }
    }

    private def executorLost(executor: String): Unit = {
      state = state.copy(lostExecutors = state.lostExecutors + executor)
      if (rules.isOn(Rule.LostExecutorFails)) {
        for {
          checkpoint <- state.checkpoints.values.filter(_.failure.isEmpty)
          batch <- checkpoint.batches.values.find { batch =>
            batch.phase == BatchPhase.Applied &&
              batch.stores.valuesIterator.exists(s => s.executor == executor && !s.durable)
          }
        } fail(checkpoint, Refusals.lostWith(executor, batch.number))
      }
    }

    /** Packs that no store of the checkpoint needs any more are deleted beside the batches. */
    private def neededFrom(message: OldestNeeded): Unit =
      state.checkpoints.get(message.root).foreach { before =>
        val checkpoint = before.copy(
          oldestNeeded = before.oldestNeeded + (message.store -> message.version))
        val known = checkpoint.stores.nonEmpty &&
          checkpoint.stores.forall(checkpoint.oldestNeeded.contains)
        val oldest = if (known) checkpoint.stores.iterator.map(checkpoint.oldestNeeded).min else 0L
        if (oldest > checkpoint.packsDeletedUpTo) {
          put(checkpoint.copy(packsDeletedUpTo = oldest))
          effects += DeletePacks(message.root, oldest)
        } else {
          put(checkpoint)
        }
      }

    // ---- consequences

    private def becomeDurable(checkpoint: Checkpoint, id: BatchId): Unit = {
      val batch = checkpoint.batches(id.number).to(BatchPhase.Durable)
      if (checkpoint.isTidied) {
        put(checkpoint.updated(batch.copy(awaitingDurable = Vector.empty)))
        batch.awaitingDurable.foreach(answer(_, Acknowledged))
        start(Step.PublishCommit(id, None))
      } else {
        put(checkpoint.updated(batch.copy(isFirstOfRun = true)).copy(isTidied = true))
        start(Step.PublishCommit(id, Some(batch.packs)))
      }
    }

    private def stepDone(checkpoint: Checkpoint, step: Step, retries: Int): Unit = step match {
      case Step.PrepareCommit(_) | Step.PrepareOffsets(_) =>
      case Step.PublishOffsets(batch) =>
        put(withRetries(checkpoint, retries).copy(offsets = checkpoint.offsets - batch.number))
        openGate(of(batch))
      case Step.PublishCommit(batch, _) =>
        checkpoint.batches.get(batch.number).foreach { entry =>
          published(withRetries(checkpoint, retries + entry.retries), entry)
        }
    }

    private def withRetries(checkpoint: Checkpoint, more: Int): Checkpoint =
      checkpoint.copy(report = checkpoint.report.copy(retries = checkpoint.report.retries + more))

    /** 4. `commits/N` is there. */
    private def published(checkpoint: Checkpoint, entry: Batch): Unit = {
      entry.to(BatchPhase.Published)
      val following = checkpoint.batches.get(entry.number + 1)
      val waited = following.flatMap(_.atGate.map(_._2).minOption).fold(0L)(now - _)
      val took = now - entry.appliedNanos
      val slow = slowInARow(checkpoint, took, waited)
      put(checkpoint.copy(
        published = math.max(checkpoint.published, entry.number),
        batches = checkpoint.batches - entry.number,
        report = checkpoint.report.copy(hiddenMillis = (took - waited) / NanosPerMilli),
        slowInARow = slow))
      entry.awaitingDurable.foreach(answer(_, Acknowledged))
      entry.awaitingPublished.foreach(answer(_, LedgerAnswer.Done))
      val after = state.checkpoints(checkpoint.root)
      if (after.offsets.get(entry.number + 1).contains(OffsetsPhase.Taken)) {
        publishOffsets(after, entry.number + 1)
      }
      openGate(state.checkpoints(checkpoint.root))
    }

    private def openGate(checkpoint: Checkpoint): Unit = checkpoint.batches.values
      .filter(batch => batch.atGate.nonEmpty && checkpoint.gateIsOpen(batch.number))
      .foreach { batch =>
        put(state.checkpoints(checkpoint.root).updated(batch.copy(atGate = Vector.empty)))
        batch.atGate.foreach { case (token, _) => admit(state.checkpoints(checkpoint.root), token) }
      }

    private def admit(checkpoint: Checkpoint, token: LedgerState.Token): Unit = {
      put(checkpoint.copy(report = Report.Empty))
      val report = checkpoint.report
      answer(token, Admitted(report.hiddenMillis, report.unpublished, report.retries))
    }

    private def slowInARow(checkpoint: Checkpoint, took: Long, waited: Long): Int = {
      val slow = waited * 4 > took && waited > 100L * NanosPerMilli
      val count = if (slow) checkpoint.slowInARow + 1 else 0
      if (count < SlowBatches) {
        count
      } else {
        effects += Warn(s"The checkpoint ${checkpoint.root} cannot keep up: the last $SlowBatches " +
          "batches waited for the one before to be published (the last " +
          s"${waited / NanosPerMilli} of ${took / NanosPerMilli} ms). Use a faster checkpoint " +
          "location, a longer trigger interval, compression='zstd' if the network is the limit, " +
          "or fewer state changes per batch.")
        -SlowBatches * 10 // the next warning is far away
      }
    }

    private def fail(checkpoint: Checkpoint, failure: Refused): Unit = {
      if (checkpoint.failure.isEmpty) {
        effects += LogError(s"${failure.problem} Cause: ${failure.because}")
      }
      val reason = checkpoint.failure.getOrElse(failure)
      put(checkpoint.copy(
        failure = Some(reason), offsets = Map.empty, batches = checkpoint.batches.empty))
      checkpoint.batches.values.foreach { batch =>
        letGo(batch, reason)
        if (batch.phase == BatchPhase.Applied) {
          effects += DropCommit(BatchId(checkpoint.root, checkpoint.run, batch.number))
        }
      }
      dropOffsets(checkpoint)
      lookForQuiet(checkpoint.root)
    }

    /** Except those that are being published: the step ends by itself. */
    private def dropOffsets(checkpoint: Checkpoint): Unit = checkpoint.offsets.foreach {
      case (number, OffsetsPhase.Taken) =>
        effects += DropOffsets(BatchId(checkpoint.root, checkpoint.run, number))
      case _ =>
    }

    private def letGo(batch: Batch, reason: Refused): Unit = {
      batch.atGate.foreach { case (token, _) => answer(token, reason) }
      batch.awaitingOrders.foreach { case (token, _) => answer(token, Discard) }
      batch.awaitingDurable.foreach(answer(_, Acknowledged))
      batch.awaitingPublished.foreach(answer(_, reason))
    }

    private def lookForQuiet(root: String): Unit = {
      val checkpoint = state.checkpoints(root)
      if (checkpoint.isQuiet && checkpoint.awaitingQuiet.nonEmpty) {
        put(checkpoint.copy(awaitingQuiet = Vector.empty))
        checkpoint.awaitingQuiet.foreach(answer(_, LedgerAnswer.Quiet(checkpoint.failure)))
      }
    }

    // ---- the turn itself

    private def stepEnded(step: Step)(follow: Checkpoint => Unit): Unit =
      state.checkpoints.get(step.batch.root).foreach { checkpoint =>
        put(checkpoint.copy(steps = checkpoint.steps - 1))
        current(step.batch)(follow)
        lookForQuiet(step.batch.root)
      }

    private def start(step: Step): Unit = {
      val checkpoint = state.checkpoints(step.batch.root)
      put(checkpoint.copy(steps = checkpoint.steps + 1))
      effects += Start(step)
    }

    private def current(batch: BatchId)(follow: Checkpoint => Unit): Unit =
      state.current(batch).foreach(follow)

    private def of(batch: BatchId): Checkpoint = state.checkpoints(batch.root)

    private def put(checkpoint: Checkpoint): Unit =
      state = state.copy(checkpoints = state.checkpoints + (checkpoint.root -> checkpoint))

    private def answer(token: LedgerState.Token, what: Any): Unit = effects += Answer(token, what)
  }
}

object LedgerMachine {
  private val SlowBatches = 10
  private val NanosPerMilli = 1000000L
}
