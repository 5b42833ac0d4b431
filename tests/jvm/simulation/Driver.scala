package org.apache.spark.sql.tailrace.testing.simulation

import scala.collection.mutable

import tailrace.faults.Rule
import tailrace.ledger._
import tailrace.ledger.LedgerEffect._
import tailrace.ledger.LedgerEvent._
import tailrace.ledger.Messages._

/**
 * The driver: the engine's ledger in virtual time, and beside it the steps of Spark and of
 * [[tailrace.spark.QueryLogs]] for a query, batch by batch.
 *
 * @param sinkSkips    the sink does not run a batch again that it has, as Spark's file sink does
 * @param forgets      the source deletes the rows of batches that are committed to it
 */
final class Driver(
    world: World, name: String, disk: Disk, sinkSkips: Boolean, forgets: Boolean)
  extends Process(world, name) {
  import Driver.Root

  private val machine = new LedgerMachine(world.rules)
  private var state = LedgerState.Empty
  private var lastToken = 0L
  private val callers = mutable.LongMap.empty[Any => Unit]
  private val heldOffsets = mutable.Map.empty[BatchId, Long]
  private val executors = mutable.ArrayBuffer.empty[Executor]
  private var executorCount = 0
  private var runs = 0
  private var run = ""
  private var attempts = Seq.empty[Attempt]
  var isDone = false

  // ---- requests of executors

  private def call(reply: Any => Unit): Long = {
    lastToken += 1
    callers(lastToken) = reply
    lastToken
  }

  private def take(event: LedgerEvent): Unit = {
    val (next, effects) = machine(state, event, world.now)
    state = next
    effects.foreach(carryOut)
  }

  def register(message: Register, reply: Any => Unit): Unit =
    take(Registering(message, call(reply)))

  def orders(message: AwaitOrders, reply: Any => Unit): Unit =
    take(OrdersAsked(message, call(reply)))

  def awaitDurable(message: AwaitDurable, reply: Any => Unit): Unit =
    take(DurableAsked(message, call(reply)))

  def durable(message: Durable, reply: Any => Unit): Unit = {
    take(PartsDurable(message))
    reply(Acknowledged)
  }

  def notWritten(message: NotWritten, reply: Any => Unit): Unit = {
    take(PartsNotWritten(message))
    reply(Acknowledged)
  }

  /** As the engine's link does it: asks until there is an answer. Messages get lost and repeated. */
  def ask[T](asker: Process, isCancelled: () => Boolean)(question: (Any => Unit) => Unit)(
      answered: T => Unit): Unit = {
    var isAnswered = false
    def reply(answer: Any): Unit = if (!world.fault(0.02)) {
      asker.after(world.delay(4)) {
        if (!isAnswered && !isCancelled()) {
          isAnswered = true
          answered(answer.asInstanceOf[T])
        }
      }
    }
    def send(): Unit = {
      if (!world.fault(0.02)) after(world.delay(4))(question(reply))
      if (world.fault(0.02)) after(world.delay(40))(question(reply))
      asker.after(world.millis(2000))(if (!isAnswered && !isCancelled() && isAlive) send())
    }
    send()
  }

  def isCurrent(batch: BatchId): Boolean = isAlive && state.current(batch).nonEmpty

  /** Whether the batch's files are still being written. */
  def isPending(batch: BatchId): Boolean =
    state.current(batch).flatMap(_.batches.get(batch.number)).exists(_.isPending)

  /** The batch that waits for a part of an executor that is lost. */
  def lostBatch: Option[String] = for {
    checkpoint <- state.checkpoints.get(Root)
    batch <- checkpoint.batches.values.find(_.phase == BatchPhase.Applied)
    store <- batch.stores.values.find { store =>
      !store.durable && !executors.exists(each => each.isAlive && each.id == store.executor)
    }
  } yield s"batch ${batch.number} of store ${store.at.store} was lost with executor " +
    s"${store.executor}, and the query waits for it for ever"

  def hasFailed: Boolean = !isAlive || state.checkpoints.get(Root).exists(_.failure.nonEmpty)

  // ---- the ledger's effects

  private def carryOut(effect: LedgerEffect): Unit = effect match {
    case Answer(token, answer) => callers.remove(token).foreach(_(answer))
    case Start(step) => begin(step)
    case LogError(text) => world.note(text)
    case _ =>
  }

  private def begin(step: Step): Unit = {
    def ended(outcome: Option[Int]): Unit = take(outcome match {
      case Some(retries) => StepDone(step, retries)
      case None => StepFailed(step, Refusals.notWritten(s"$step", "The disk is full."))
    })
    step match {
      case Step.PrepareCommit(_) | Step.PrepareOffsets(_) => write(s"$step", 10)(())(ended)
      case Step.PublishOffsets(batch) => write(s"offsets/${batch.number}", 20) {
        disk.offsets += batch.number -> heldOffsets(batch)
      }(ended)
      case Step.PublishCommit(batch, firstOfRun) =>
        firstOfRun.foreach { written =>
          disk.packs.filterInPlace { (pack, file) =>
            file.version != batch.number + 1 || written(pack)
          }
        }
        write(s"commits/${batch.number}", 20)(disk.committed(batch.number))(ended)
    }
  }

  // ---- executors come and go

  def start(): Unit = {
    (0 until 2).foreach(_ => addExecutor())
    startRun()
    crashes()
  }

  private def addExecutor(): Unit = {
    executorCount += 1
    executors += new Executor(world, s"$name-$executorCount", disk, this)
  }

  private def crashes(): Unit = after(world.delay(400)) {
    if (world.fault(0.04)) lose(world.pick(executors.toSeq))
    if (!isDone) crashes()
  }

  private def lose(executor: Executor): Unit = {
    executor.die()
    executors -= executor
    addExecutor()
    after(world.delay(100))(take(ExecutorLost(executor.id)))
  }

  override def die(): Unit = {
    super.die()
    executors.foreach(_.die())
  }

  // ---- the query

  private def batchOf(number: Long): BatchId = BatchId(Root, run, number)

  /** Spark lists the logs first, and that waits until nothing is being written. */
  private def startRun(): Unit = awaitQuiet {
    runs += 1
    run = s"$name run $runs"
    attempts = Nil
    val next = disk.nextBatch
    world.note(s"$run begins with batch $next")
    take(RunBegan(Root, run, next))
    if (disk.offsets.contains(next)) runBatch(next) else plan(next)
  }

  private def awaitQuiet(follow: => Unit): Unit =
    if (world.rules.isOn(Rule.ReadersWait)) take(QuietAsked(Root, call(_ => follow))) else follow

  private def awaitPublished(number: Long)(follow: => Unit): Unit =
    take(PublishedAsked(batchOf(number), call {
      case refused: Refused => failed(refused.problem)
      case _ => follow
    }))

  /** Runs only as long as the run that began it. */
  private def inRun(usualMillis: Int)(action: => Unit): Unit = {
    val began = run
    after(world.delay(usualMillis))(if (run == began) action)
  }

  private def plan(number: Long): Unit = inRun(10) {
    val start = startOf(number)
    if (start == disk.rows) {
      awaitPublished(number - 1)(finish())
    } else {
      val end = math.min(disk.rows, start + 1 + world.below(6))
      heldOffsets(batchOf(number)) = end
      val checkpoint = state.current(Root, run).get
      checkpoint.failure match {
        case Some(failure) => failed(failure.problem)
        case None => writeOffsets(number, end, checkpoint.isAsynchronous)
      }
    }
  }

  /** As `QueryLogs.writeOffsets` does it; then Spark commits the batch before to the source. */
  private def writeOffsets(number: Long, end: Long, asynchronous: Boolean): Unit = {
    def written(): Unit = {
      if (forgets && number > 0) disk.forgotten = math.max(disk.forgotten, startOf(number))
      runBatch(number)
    }
    def write(): Unit = if (asynchronous) {
      take(OffsetsTaken(batchOf(number)))
      written()
    } else {
      val began = run
      this.write(s"offsets/$number")(disk.offsets += number -> end) {
        case Some(_) => if (run == began) written()
        case None => if (run == began) failed(s"offsets/$number could not be written")
      }
    }
    val waits = !asynchronous || (forgets && world.rules.isOn(Rule.SourcesForgetLate))
    if (waits) awaitPublished(number - 1)(write()) else write()
  }

  private def startOf(number: Long): Long =
    if (number == 0) 0L
    else heldOffsets.getOrElse(batchOf(number - 1), disk.offsets(number - 1))

  private def endOf(number: Long): Long =
    heldOffsets.getOrElse(batchOf(number), disk.offsets(number))

  private def runBatch(number: Long): Unit = inRun(10) {
    disk.read(startOf(number), endOf(number))
    if (sinkSkips && disk.shown.contains(number)) {
      // The sink has it: nothing runs, and the state is made by `QueryLogs`.
      runTasks(number)(_ => handOver(number))
    } else {
      runTasks(number) { output =>
        inRun(10) {
          disk.show(number, output)
          inRun(10)(handOver(number))
        }
      }
    }
  }

  private def runTasks(number: Long)(done: Seq[(Seq[Long], Long)] => Unit): Unit = {
    val results = mutable.Map.empty[Int, (Seq[Long], Long)]
    var failures = 0

    def launch(store: Int, numbers: Seq[Long], speculative: Boolean): Unit = {
      val began = run
      val executor = world.pick(executors.toSeq)
      val attempt = new Attempt(batchOf(number), store, numbers)
      attempts :+= attempt
      def isOpen: Boolean = run == began && !results.contains(store)
      executor.run(attempt) { ended =>
        after(world.delay(4)) {
          ended match {
            case Some((_, state)) if isOpen =>
              results(store) = numbers -> state.rows
              // The other attempts are killed, a little later.
              val others = attempts.filter(o => o.store == store && (o ne attempt))
              after(world.delay(10))(others.foreach(_.isKilled = true))
              if (results.size == disk.stores) {
                done(results.toSeq.sortBy(_._1).map(_._2))
              }
            case None if isOpen && !speculative =>
              failures += 1
              if (failures > 3) failed("a task has failed too often")
              else launch(store, numbers, speculative = false)
            case _ =>
          }
        }
      }
      watch(executor, attempt, store)(if (isOpen) launch(store, numbers, speculative = false))
      if (!speculative && world.fault(0.25)) {
        inRun(60)(if (isOpen) launch(store, numbers, speculative = true))
      }
    }

    (0 until disk.stores).foreach { store =>
      launch(store, (startOf(number) until endOf(number)).filter(_ % disk.stores == store),
        speculative = false)
    }
  }

  /** A task whose executor is lost runs again. */
  private def watch(executor: Executor, attempt: Attempt, store: Int)(again: => Unit): Unit =
    inRun(300) {
      if (!executor.isAlive) again
      else if (!attempt.isKilled) watch(executor, attempt, store)(again)
    }

  /** Spark writes `commits/N`. */
  private def handOver(number: Long): Unit =
    take(CommitTaken(batchOf(number), call {
      case refused: Refused => failed(refused.problem)
      case _ =>
        attempts.foreach(attempt => after(world.delay(30))(attempt.isKilled = true))
        attempts = Nil
        if (world.chance(0.05)) readState(number)
        if (world.fault(0.02)) stop() else plan(number + 1)
    }))

  private def stop(): Unit = {
    world.note(s"$run is stopped")
    endRun()
  }

  private def failed(why: String): Unit = {
    world.note(s"$run fails: $why")
    world.require(world.reasons.nonEmpty || world.givenUp.isEmpty, Harm.WriteGivenUp,
      s"the query failed because ${world.givenUp.last} was tried once, and not again: $why")
    world.require(world.reasons.nonEmpty, Harm.FailedWithoutReason,
      s"the query failed without a reason: $why")
    endRun()
  }

  /** A supervised query starts again. */
  private def endRun(): Unit = {
    attempts.foreach(_.isKilled = true)
    val ended = run
    run = s"after $ended"
    after(world.delay(50))(take(RunEnded(ended)))
    after(world.delay(200))(startRun())
  }

  /** Rule 5: a reader in the same process sees the batch that was handed over last. */
  private def readState(number: Long): Unit = {
    val asked = run
    awaitQuiet {
      if (!hasFailed && run == asked) {
        world.require(disk.commits.contains(number), Harm.PendingRead,
          s"the state was read after batch $number, and it is not there")
      }
    }
  }

  private def finish(): Unit = {
    isDone = true
    disk.verifyEnd()
  }
}

object Driver {
  val Root = "/checkpoint"
}
