package org.apache.spark.sql.tailrace.testing.simulation

import scala.collection.mutable

import tailrace.commit.{PipelineEffect, PipelineEvent, PipelineMachine, PipelineState}
import tailrace.faults.Rule
import tailrace.ledger.Messages._

/** One attempt of a task: adds a batch's rows to one store. */
final class Attempt(val batch: BatchId, val store: Int, val numbers: Seq[Long]) {
  var isKilled = false
}

/**
 * An executor: its live stores, and the engine's pipeline in virtual time.
 *
 * @param driver the way to the driver's ledger
 */
final class Executor(world: World, name: String, disk: Disk, driver: Driver)
  extends Process(world, s"executor $name") {
  val id: String = name
  /** By store and version: the last versions that tasks here have applied. */
  private val live = mutable.Map.empty[(Int, Long), Counted]
  private val parts = mutable.Map.empty[(BatchId, StoreAt), Part]
  private var pipeline = PipelineState.Empty

  /** Everything that was applied, which another run of a batch may take back. */
  private def apply(store: Int, version: Long, state: Counted): Unit = {
    live((store, version)) = state
    live.filterInPlace { case ((kept, number), _) => kept != store || number >= version - 1 }
  }

  // ---- tasks

  def run(attempt: Attempt)(ended: Option[(StoreAt, Counted)] => Unit): Unit = {
    def step(usual: Int)(action: => Unit): Unit =
      after(world.delay(usual))(if (!attempt.isKilled) action)
    step(10) {
      withState(attempt)(ended(None)) { before =>
        step(30) {
          val state = before.plus(attempt.batch.number, attempt.numbers)
          val at = StoreAt(s"${attempt.store}", state.lineage)
          // 1. The part first: once the ledger counts on it, an order must find it.
          parts((attempt.batch, at)) = Part(before.lineage, state)
          take(PipelineEvent.PartGiven(attempt.batch, at, 1L))
          step(3) {
            // 2.
            driver.ask[Admission](this, () => attempt.isKilled)(
              driver.register(Register(attempt.batch, at, named = false, id), _)) {
              case Admitted(_, _, _) =>
                apply(attempt.store, attempt.batch.number + 1, state)
                step(3)(ended(Some(at -> state)))
              case _ => ended(None)
            }
          }
        }
      }
    }
  }

  private def withState(attempt: Attempt)(failed: => Unit)(use: Counted => Unit): Unit = {
    val version = attempt.batch.number
    live.get((attempt.store, version)) match {
      case Some(state) => use(state)
      case None =>
        driver.ask[Any](this, () => attempt.isKilled)(
          driver.awaitDurable(AwaitDurable(attempt.batch.root, version - 1), _)) { _ =>
          disk.load(attempt.store, version) match {
            case Some(state) => use(state)
            case None =>
              // Where the run has failed meanwhile, the version may never become durable.
              world.require(driver.hasFailed || !driver.isCurrent(attempt.batch),
                if (driver.isPending(attempt.batch.before)) Harm.PendingRead else Harm.StateLost,
                s"version $version of store ${attempt.store} cannot be loaded")
              failed
          }
        }
    }
  }

  // ---- the pipeline

  private def take(event: PipelineEvent): Unit = {
    val (next, effects) = PipelineMachine(pipeline, event)
    pipeline = next
    effects.foreach(begin)
  }

  private val deaths = mutable.Map.empty[BatchId, Int].withDefaultValue(0)

  private def begin(effect: PipelineEffect): Unit =
    if (world.fault(0.01)) {
      deaths(effect.batch) += 1
      // It is begun again, but not for ever: then the query may fail.
      if (deaths(effect.batch) > PipelineMachine.MaximumDeaths) {
        world.reasons += s"the thread that writes batch ${effect.batch.number} died again and again"
      }
      after(world.delay(20))(take(PipelineEvent.StepDied(effect.batch)))
    } else {
      perform(effect)
    }

  private def perform(effect: PipelineEffect): Unit = effect match {
    case PipelineEffect.AskOrders(batch) =>
      driver.ask[Orders](this, () => false)(driver.orders(AwaitOrders(batch, id), _)) { orders =>
        take(PipelineEvent.OrdersCame(batch, orders))
      }
    case PipelineEffect.CopyHere(batch, _) =>
      after(world.delay(5))(take(PipelineEvent.Copied(batch)))
    case PipelineEffect.Upload(batch, stores) =>
      val content = stores.map(at => at -> parts((batch, at))).toMap
      val file = PackFile(batch.number + 1, content, complete = true)
      val pack = nameOf(batch, stores)
      // Under its final name from the first byte on: a crash may tear it.
      after(world.delay(2))(if (!disk.packs.get(pack).exists(_.complete)) {
        disk.packs(pack) = file.copy(complete = false)
      })
      write(pack, usualMillis = 60)(disk.packs(pack) = file) {
        case Some(retries) => take(PipelineEvent.Uploaded(batch, retries))
        case None => take(PipelineEvent.StepFailed(batch, s"$pack", "The disk is full."))
      }
    case PipelineEffect.Acknowledge(batch, stores, retries) =>
      val message = Durable(batch, id, nameOf(batch, stores), stores, retries)
      driver.ask[Any](this, () => false)(driver.durable(message, _)) { _ =>
        take(PipelineEvent.Told(batch))
      }
    case PipelineEffect.Report(batch, problem, because) =>
      driver.ask[Any](this, () => false)(
        driver.notWritten(NotWritten(batch, id, problem, because), _)) { _ =>
        take(PipelineEvent.Told(batch))
      }
    case PipelineEffect.Forget(batch) => parts.filterInPlace { case ((of, _), _) => of != batch }
  }

  /** The name stands for the content: the lineages of its parts. */
  private def nameOf(batch: BatchId, stores: Seq[StoreAt]): String =
    s"${batch.number + 1}-${stores.sortBy(_.store).mkString("+").hashCode.toHexString}"

  override def die(): Unit = {
    if (world.rules.isOn(Rule.LostExecutorFails)) world.reasons += s"executor $id was lost"
    super.die()
  }
}
