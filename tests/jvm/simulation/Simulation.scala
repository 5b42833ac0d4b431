package org.apache.spark.sql.tailrace.testing.simulation

import java.util.concurrent.atomic.AtomicLong

import tailrace.faults.Rules

/**
 * One history: a query from its first row to its last, through crashes and restarts.
 *
 * @param isDefective the simulation fails early in the history: a test asks for it
 */
final class Simulation(seed: Long, rules: Rules, faults: Double, isDefective: Boolean = false) {
  private val world = new World(seed, rules, faults)
  private val disk = new Disk(world, stores = 1 + world.below(3), rows = 10L + world.below(40))
  private val sinkSkips = world.chance(0.5)
  private val forgets = world.chance(0.3)
  private var drivers = 0
  private var driver: Driver = _

  /** Returns how many events there were; throws a [[Violation]]. */
  def run(): Long = {
    world.note(s"seed $seed: ${disk.stores} stores, ${disk.rows} rows, " +
      s"${if (sinkSkips) "a sink that skips" else "a sink that replaces"}, " +
      s"${if (forgets) "a source that forgets" else "a source that keeps"}")
    startDriver()
    crashes()
    if (isDefective) world.after(world.millis(1))(Option.empty[Long].get)
    world.run(Horizon, driver.lostBatch)(driver.isDone)
  }

  def history: Seq[String] = world.history

  private def startDriver(): Unit = {
    drivers += 1
    driver = new Driver(world, s"driver $drivers", disk, sinkSkips, forgets)
    driver.start()
  }

  /** All processes die, and a new driver starts from the disk. */
  private def crashes(): Unit = world.after(world.delay(800)) {
    if (!driver.isDone) {
      if (driver.isAlive && world.fault(0.15)) {
        driver.die()
        world.after(world.delay(100))(startDriver())
      }
      crashes()
    }
  }

  private def Horizon = world.millis(15L * 60 * 1000)
}

/**
 * Many histories, on all cores, as a program: `run first count rulesOff threads most defective`
 * prints a line for every seed with a violation or a failure of the simulation itself, at most so
 * many, and how many histories there were; `replay seed rulesOff defective` prints the history of
 * one seed. In the history of the seed `defective` the simulation fails; `none` is no seed.
 */
object Simulations {
  private val ReportEvery = 10000L

  def main(arguments: Array[String]): Unit = arguments match {
    case Array("run", first, count, rulesOff, threads, most, defective) =>
      new Simulations(Rules.allBut(rulesOff), defective)
        .run(first.toLong, count.toLong, threads.toInt, most.toInt)
    case Array("replay", seed, rulesOff, defective) =>
      new Simulations(Rules.allBut(rulesOff), defective).replay(seed.toLong)
    case other => throw new IllegalArgumentException(s"unknown arguments: ${other.mkString(" ")}")
  }
}

private final class Simulations(rules: Rules, defective: String) {
  import Simulations.ReportEvery

  def run(first: Long, count: Long, threads: Int, most: Int): Unit = {
    val next = new AtomicLong(first)
    val finished = new AtomicLong
    val found = new AtomicLong
    val workers = (1 to threads).map { number =>
      val worker = new Thread(() => {
        var seed = next.getAndIncrement()
        while (seed < first + count && found.get() < most) {
          outcomeOf(seed, simulationOf(seed)).left.foreach { finding =>
            found.incrementAndGet()
            println(finding)
          }
          val done = finished.incrementAndGet()
          if (done % ReportEvery == 0) println(s"progress\t$done")
          seed = next.getAndIncrement()
        }
      }, s"simulation-$number")
      worker.start()
      worker
    }
    workers.foreach(_.join())
    println(s"finished\t$finished")
  }

  def replay(seed: Long): Unit = {
    val simulation = simulationOf(seed)
    val outcome = outcomeOf(seed, simulation)
    simulation.history.foreach(event => println(s"event\t$event"))
    println(outcome.fold(identity, events => s"ended\t$events"))
  }

  private def simulationOf(seed: Long): Simulation =
    new Simulation(seed, rules, faults = 1.0, isDefective = defective == s"$seed")

  /** How many events there were, or the line that reports the fault. */
  private def outcomeOf(seed: Long, simulation: Simulation): Either[String, Long] =
    try Right(simulation.run()) catch {
      case violation: Violation =>
        Left(s"violation\t$seed\t${violation.harm.name}\t${violation.getMessage}")
      // It says nothing about the protocol, and must not count as if it did.
      case error: Throwable =>
        Left(s"defect\t$seed\t$error at ${error.getStackTrace.take(4).mkString(", ")}")
    }
}
