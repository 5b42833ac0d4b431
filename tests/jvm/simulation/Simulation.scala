package org.apache.spark.sql.tailrace.testing.simulation

import java.util.concurrent.atomic.AtomicLong

import tailrace.faults.Rules

/** One history: a query from its first row to its last, through crashes and restarts. */
final class Simulation(seed: Long, rules: Rules, faults: Double) {
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
    world.run(Horizon)(driver.isDone)
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
 * Many histories, on all cores, as a program: `run first count rulesOff threads most` prints a line
 * for every seed with a violation, at most so many, and how many histories there were; `replay seed
 * rulesOff` prints the history of one seed.
 */
object Simulations {
  private val ReportEvery = 10000L

  def main(arguments: Array[String]): Unit = arguments match {
    case Array("run", first, count, rulesOff, threads, most) =>
      run(first.toLong, count.toLong, Rules.allBut(rulesOff), threads.toInt, most.toInt)
    case Array("replay", seed, rulesOff) =>
      replay(seed.toLong, Rules.allBut(rulesOff)).foreach(println)
    case other => throw new IllegalArgumentException(s"unknown arguments: ${other.mkString(" ")}")
  }

  private def run(first: Long, count: Long, rules: Rules, threads: Int, most: Int): Unit = {
    val next = new AtomicLong(first)
    val finished = new AtomicLong
    val violations = new AtomicLong
    val workers = (1 to threads).map { number =>
      val worker = new Thread(() => {
        var seed = next.getAndIncrement()
        while (seed < first + count && violations.get() < most) {
          outcomeOf(seed, rules).foreach { violation =>
            violations.incrementAndGet()
            println(s"violation\t$seed\t$violation")
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

  private def outcomeOf(seed: Long, rules: Rules): Option[String] =
    try {
      new Simulation(seed, rules, faults = 1.0).run()
      None
    } catch {
      case violation: Violation => Some(violation.getMessage)
      case error: Throwable => Some(s"the simulation itself failed: $error at " +
        error.getStackTrace.take(4).mkString(", "))
    }

  private def replay(seed: Long, rules: Rules): Seq[String] = {
    val simulation = new Simulation(seed, rules, faults = 1.0)
    val outcome = try s"no violation, ${simulation.run()} events" catch {
      case violation: Violation => s"violation: ${violation.getMessage}"
    }
    simulation.history :+ outcome
  }
}
