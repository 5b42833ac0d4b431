/*
 * Problem: which job runs when is a matter of threads and of time; a test wants to decide both.
 * Answer: the real scheduler with a clock that stands still, and jobs that carry out the test's
 * commands, one after the other: pace, fail, end.
 * Invariant: nothing happens because time has passed; the test moves the clock.
 */
package org.apache.spark.sql.tailrace.testing

import java.util.concurrent.{ConcurrentHashMap, LinkedBlockingQueue}
import java.util.concurrent.atomic.AtomicLong

import com.fasterxml.jackson.databind.JsonNode

import tailrace.io._
import tailrace.spark.EngineRuntime

class IoHarness extends Operations {
  import RowCodec.nodes

  private var world: IoWorld = _

  override protected def execute(operation: JsonNode): JsonNode = {
    def text(field: String): String = operation.path(field).asText()
    def kind: IoKind = IoKind.all.find(_.name == text("kind")).get
    text("op") match {
      case "under_way" => // in the scheduler that the stores of this process have
        val io = EngineRuntime.current.io
        return nodes.numberNode(io.queuedOf(kind) + io.runningNow(kind))
      case "finished" => return nodes.numberNode(EngineRuntime.current.io.countsOf(kind).jobs)
      case "new" =>
        world = new IoWorld(operation.path("permits").asInt(), operation.path("queue").asInt())
      case "submit" => world.submit(text("job"), kind)
      case "tell" => world.tell(text("job"), text("command"), operation.path("bytes").asLong())
      case "cancel" => world.ticket(text("job")).cancel()
      case "await" =>
        val name = text("job")
        world.calls.start(text("call"))(nodes.textNode {
          // The bridge to Python takes exceptions for answers, and no other errors.
          try world.ticket(name).await() catch {
            case error: OutOfMemoryError => throw new IllegalStateException(error.getMessage, error)
          }
        })
      case "waits" => return nodes.booleanNode(world.calls.waits(text("call")))
      case "result" => return world.calls.result(text("call"))
      case "shut_down" => world.calls.start(text("call")) {
        world.scheduler.shutDown()
        nodes.nullNode()
      }
      case "advance" => world.clock.advance(operation.path("nanos").asLong())
      case "threads" => world.mayStartThreads = operation.path("may_start").asBoolean()
      case "bandwidth" => world.scheduler.bytesPerSecond = operation.path("bytes").asLong()
      case "permits" => world.scheduler.permits = operation.path("count").asInt()
      case "running" => return nodes.numberNode(world.scheduler.runningNow(kind))
      case "queued" => return nodes.numberNode(world.scheduler.queuedOf(kind))
      case "sleeps" => return nodes.booleanNode(world.clock.isWaitedFor)
      case "events" => return world.recorder.take()
      case "counts" =>
        val counts = world.scheduler.countsOf(kind)
        return nodes.objectNode().put("jobs", counts.jobs).put("failed", counts.failed)
          .put("cancelled", counts.cancelled).put("bytes", counts.bytes)
          .put("pauses", counts.pauses).put("waiting", counts.waitingNanos)
          .put("running", counts.runningNanos).put("paused", counts.pausedNanos)
    }
    nodes.nullNode()
  }
}

private[testing] final class IoWorld(permits: Int, queue: Int) {
  val recorder = new Recorder
  val calls = new Calls
  val clock = new StandingClock
  @volatile var mayStartThreads = true
  val scheduler = new IoScheduler(permits, queue, clock, work => {
    val thread = new Thread(work, "tailrace-test-io") {
      override def start(): Unit = if (mayStartThreads) super.start() else {
        throw new OutOfMemoryError("unable to create native thread")
      }
    }
    thread.setDaemon(true)
    thread
  })
  private val tickets = new ConcurrentHashMap[String, IoTicket[String]]
  private val commands = new ConcurrentHashMap[String, LinkedBlockingQueue[(String, Long)]]

  def ticket(job: String): IoTicket[String] = tickets.get(job)

  /** In a thread of its own, under the job's name: it may have to wait. */
  def submit(name: String, kind: IoKind): Unit = {
    commands.put(name, new LinkedBlockingQueue)
    calls.start(name) {
      tickets.put(name, scheduler.submit(kind, name)(run(name, kind)))
      RowCodec.nodes.nullNode()
    }
  }

  def tell(job: String, command: String, bytes: Long): Unit = commands.get(job).put((command, bytes))

  private def run(name: String, kind: IoKind)(job: IoJob): String = {
    recorder.add("begins")(_.put("job", name))
    while (true) {
      commands.get(name).take() match {
        case ("pace", bytes) =>
          job.pace(bytes)
          recorder.add("paced")(_.put("job", name))
        case ("submit", _) =>
          scheduler.submit(kind, "inside")(_ => "inside")
        case ("fail", _) => throw new java.io.IOException(s"$name has failed")
        case ("end", _) =>
          recorder.add("ends")(_.put("job", name))
          return s"$name is through"
        case (other, _) => throw new IllegalArgumentException(s"a job cannot $other")
      }
    }
    ""
  }
}

private[testing] final class StandingClock extends Clock {
  private val now = new AtomicLong
  private val waitedOn = ConcurrentHashMap.newKeySet[AnyRef]
  @volatile private var waiting = 0

  override def nanos: Long = now.get()

  def isWaitedFor: Boolean = waiting > 0

  override def waitOn(monitor: AnyRef, nanos: Long): Unit = {
    waitedOn.add(monitor)
    waiting += 1 // all waits are on the scheduler's own monitor
    try monitor.wait() finally waiting -= 1
  }

  def advance(nanos: Long): Unit = {
    now.addAndGet(nanos)
    waitedOn.forEach(monitor => monitor.synchronized(monitor.notifyAll()))
  }
}
