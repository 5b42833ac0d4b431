/*
 * Problem: ledger and pipeline answer when the time has come, and on any thread; a test wants
 * to know the events so far, their order, and which calls still wait.
 * Answer: `Recorder` keeps events until they are taken; `Calls` makes calls that may wait on threads
 * of their own.
 * Invariant: no test depends on the clock. "It waits" is the state of the call's thread, "it is
 * over" its end; a time limit only turns a hanging test into a failing one.
 */
package org.apache.spark.sql.tailrace.testing

import scala.collection.mutable

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

private[testing] final class Recorder {
  private val events = mutable.ArrayBuffer.empty[ObjectNode]

  def add(what: String)(fill: ObjectNode => Unit): Unit = synchronized {
    val event = RowCodec.nodes.objectNode().put("what", what)
    fill(event)
    events += event
  }

  /** The events since the last call. */
  def take(): ArrayNode = synchronized {
    val taken = RowCodec.nodes.arrayNode()
    events.foreach(taken.add)
    events.clear()
    taken
  }
}

private[testing] final class Calls {
  private val calls = mutable.Map.empty[String, Call]

  def start(name: String)(body: => JsonNode): Unit = {
    val call = new Call(body)
    calls(name) = call
    call.setDaemon(true)
    call.start()
  }

  /** Returns once the call is over or its thread waits; true if it waits. */
  def waits(name: String): Boolean = {
    val thread = calls(name)
    val deadline = System.nanoTime() + Calls.PatienceNanos
    while (thread.isAlive && !Calls.parked(thread.getState) && System.nanoTime() < deadline) {
      Thread.sleep(1)
    }
    thread.isAlive
  }

  /** The call's result; throws its error. */
  def result(name: String): JsonNode = {
    val call = calls(name)
    call.join(Calls.PatienceNanos / 1000000)
    if (call.isAlive) throw new IllegalStateException(s"the call $name does not come to an end")
    calls.remove(name)
    call.outcome.fold(throw _, identity)
  }

  private final class Call(body: => JsonNode) extends Thread("tailrace-test-call") {
    @volatile var outcome: Either[Throwable, JsonNode] = _

    override def run(): Unit = outcome = try Right(body) catch { case error: Throwable => Left(error) }
  }
}

private[testing] object Calls {
  private val PatienceNanos = 20L * 1000 * 1000 * 1000

  private def parked(state: Thread.State): Boolean =
    state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING
}
