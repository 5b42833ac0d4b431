/*
 * Problem: a fault of a protocol among a driver, executors and a file system depends on which
 * process is slow, which dies and which message is lost, at moments that no test writes down.
 * Answer: one seed decides everything. Time is virtual: a queue of events. Messages take time, get
 * lost and come twice; writes take time, fail, are torn by a crash or succeed and seem to fail;
 * processes die. The ledger and the pipelines are the engine's own machines.
 * Invariant: the same seed gives the same history.
 */
package org.apache.spark.sql.tailrace.testing.simulation

import scala.collection.mutable

import tailrace.faults.{Rule, Rules}

/**
 * Virtual time, chance and the record of a history.
 *
 * @param faults how much goes wrong: 0 is nothing, 1 the usual
 */
final class World(seed: Long, val rules: Rules, faults: Double) {
  private final class Event(val at: Long, val number: Long, val action: () => Unit)

  private val events = mutable.PriorityQueue.empty[Event](
    Ordering.by[Event, (Long, Long)](event => (event.at, event.number)).reverse)
  private val random = new java.util.SplittableRandom(seed)
  private var scheduled = 0L
  private val recorded = mutable.ArrayBuffer.empty[String]
  var now = 0L
  /** After this nothing goes wrong any more, so that every history comes to an end. */
  val calmAfter: Long = millis(3000 + random.nextInt(9000))
  /** Why a run of the query may fail. */
  val reasons = mutable.ArrayBuffer.empty[String]
  /** Writes that would have succeeded later, and were not repeated. */
  val givenUp = mutable.ArrayBuffer.empty[String]

  def millis(count: Long): Long = count * 1000000L

  def isCalm: Boolean = now > calmAfter

  def below(bound: Int): Int = random.nextInt(bound)

  def chance(probability: Double): Boolean = random.nextDouble() < probability

  /** Whether a fault happens now. */
  def fault(probability: Double): Boolean = !isCalm && random.nextDouble() < probability * faults

  def pick[T](choices: Seq[T]): T = choices(below(choices.size))

  /** Mostly short, sometimes long: a step that is slow once in a while finds the holes. */
  def delay(usualMillis: Int): Long =
    millis(1L + below(usualMillis)) * (if (chance(0.05)) 10 else 1) + below(1000)

  def after(nanos: Long)(action: => Unit): Unit = {
    scheduled += 1
    events.enqueue(new Event(now + nanos, scheduled, () => action))
  }

  def note(text: => String): Unit = recorded += f"${now / 1e6}%10.1f ms  $text"

  def history: Seq[String] = recorded.toSeq

  /**
   * Runs until `isDone` or until nothing happens any more; returns how many events there were.
   *
   * @param lost the batch that the query waits for in vain, because it was lost with an executor
   */
  def run(horizon: Long, lost: => Option[String])(isDone: => Boolean): Long = {
    def stuck(otherwise: String): Violation = lost match {
      case Some(batch) => new Violation(Harm.LostWithExecutor, batch)
      case None => new Violation(Harm.NeverEnds, otherwise)
    }
    var count = 0L
    while (events.nonEmpty && !isDone) {
      val event = events.dequeue()
      now = event.at
      if (now > horizon) {
        throw stuck(s"The query has not come to its end within ${horizon / 1000000000L} s.")
      }
      count += 1
      event.action()
    }
    if (!isDone) throw stuck("Nothing happens any more, and the query is not at its end.")
    count
  }

  def require(holds: Boolean, harm: => Harm, otherwise: => String): Unit =
    if (!holds) throw new Violation(harm, otherwise)
}

/** A process that can die. Steps that it has begun then never go on. */
class Process(val world: World, val name: String) {
  private var living = true

  def isAlive: Boolean = living

  def die(): Unit = {
    living = false
    world.note(s"$name dies")
  }

  def after(nanos: Long)(action: => Unit): Unit = world.after(nanos)(if (living) action)

  /**
   * A write with retries, as the engine's `Retries` does it: it fails now and then, seems to fail
   * though it was done, or fails for good.
   */
  def write(what: String, usualMillis: Int = 20)(apply: => Unit)(done: Option[Int] => Unit): Unit = {
    val broken = world.fault(0.004)
    def attempt(number: Int): Unit = after(world.delay(usualMillis)) {
      val fails = broken || world.fault(0.04)
      val happens = !fails || world.chance(0.3)
      if (happens) apply
      if (!fails) {
        done(Some(number))
      } else if (number >= 5 || !world.rules.isOn(Rule.RetryWrites)) {
        if (broken) world.reasons += s"$what cannot be written" else world.givenUp += what
        world.note(s"$name gives up writing $what")
        done(None)
      } else {
        after(world.millis(50L << number))(attempt(number + 1))
      }
    }
    attempt(0)
  }
}
