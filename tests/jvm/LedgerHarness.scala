/*
 * Problem: the ledger is a protocol among threads and processes; its order of events cannot be
 * tested where threads and processes choose it.
 * Answer: the real ledger between fakes. Its steps for other threads wait in a list until the
 * test says which comes next; log files obey a script; every reply is recorded.
 * Invariant: within one operation everything happens on the caller's thread. Only the calls whose
 * name begins with `await` have threads of their own.
 */
package org.apache.spark.sql.tailrace.testing

import java.io.IOException

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.FileAlreadyExistsException

import tailrace.faults.{Failpoints, Rules}
import tailrace.files.Retries
import tailrace.io.Clock
import tailrace.ledger.{BatchPhase, HeldFile, Ledger, PackFiles}
import tailrace.ledger.Messages._

class LedgerHarness extends Operations {
  private val worlds = mutable.Map.empty[String, LedgerWorld]

  override protected def execute(operation: JsonNode): JsonNode = {
    val name = operation.path("op").asText()
    name match {
      case "new" =>
        val world = new LedgerWorld(operation.path("patience").asLong(1000))
        worlds(operation.path("ledger").asText()) = world
        RowCodec.nodes.nullNode()
      case "drop" =>
        worlds.remove(operation.path("ledger").asText())
        RowCodec.nodes.nullNode()
      case "move" =>
        def state(field: String): BatchPhase = LedgerHarness.states(operation.path(field).asText())
        RowCodec.nodes.textNode(BatchPhase.move(state("from"), state("to")).name)
      case "states" => names(LedgerHarness.states.keys.toSeq)
      case _ => worlds(operation.path("ledger").asText()).execute(name, operation)
    }
  }
}

private[testing] object LedgerHarness {
  val states: Map[String, BatchPhase] = BatchPhase.all.map(phase => phase.name -> phase).toMap

  def admission(answer: Admission, node: ObjectNode): Unit = answer match {
    case Admitted(_, unpublished, retries) =>
      node.put("answer", "admitted").put("unpublished", unpublished).put("retries", retries)
    case WriteNow => node.put("answer", "write now")
    case refused: Refused => node.put("answer", "refused").put("problem", refused.problem)
      .put("because", refused.because).put("remedy", refused.remedy)
  }

  def orders(answer: Orders, node: ObjectNode): Unit = answer match {
    case Write(stores) =>
      val list = node.put("answer", "write").putArray("stores")
      stores.foreach(at => list.addArray().add(at.store).add(at.lineage))
    case Discard => node.put("answer", "discard")
  }
}

/** A ledger, its steps that have not run yet, and the events so far. */
private final class LedgerWorld(patienceMillis: Long) {
  import RowCodec.nodes

  private val recorder = new Recorder
  private val calls = new Calls
  private val work = mutable.ArrayBuffer.empty[Runnable]
  private val ledger = new Ledger(
    task => work.synchronized(work += task),
    new Retries(patienceMillis, Rules.All, pause => recorder.add("pause")(_.put("millis", pause))),
    Rules.All, new Failpoints, Clock.system)

  /** The result is an object: the operation's own value, and the events since the last one. */
  def execute(name: String, operation: JsonNode): JsonNode = {
    val result = nodes.objectNode()
    val value = perform(name, operation)
    if (value != null) result.set[JsonNode]("value", value)
    result.set[JsonNode]("events", recorder.take())
    result.put("work", work.synchronized(work.size))
  }

  private def perform(name: String, operation: JsonNode): JsonNode = {
    def text(field: String): String = operation.path(field).asText()
    def root: String = text("root")
    def batch: BatchId = BatchId(root, text("run"), operation.path("batch").asLong())
    def at(node: JsonNode): StoreAt = StoreAt(node.get(0).asText(), node.get(1).asLong())
    def executor: String = text("executor")
    def replied(fill: ObjectNode => Unit): Unit = recorder.add("reply") { event =>
      event.put("call", text("call"))
      fill(event)
    }
    name match {
      case "begin" =>
        done(ledger.beginRun(root, text("run"), operation.path("next").asLong(), new Packs))
      case "register" => done(ledger.register(
        Register(batch, at(operation.get("store")), operation.path("named").asBoolean(), executor))(
        answer => replied(LedgerHarness.admission(answer, _))))
      case "gate" =>
        done(ledger.gate(batch)(answer => replied(LedgerHarness.admission(answer, _))))
      case "orders" => done(ledger.orders(AwaitOrders(batch, executor))(
        answer => replied(LedgerHarness.orders(answer, _))))
      case "await_durable" => done(ledger.durableOrGone(AwaitDurable(root, batch.number))(
        () => replied(_.put("answer", "acknowledged"))))
      case "durable" => done(ledger.durable(Durable(batch, executor, text("pack"),
        operation.path("stores").elements().asScala.map(at).toSeq,
        operation.path("retries").asInt())))
      case "not_written" =>
        done(ledger.notWritten(NotWritten(batch, executor, text("problem"), text("because"))))
      case "executor_lost" => done(ledger.executorLost(executor))
      case "oldest_needed" => done(ledger.oldestNeeded(
        OldestNeeded(root, text("store"), operation.path("version").asLong())))
      case "take_offsets" => done(ledger.takeOffsets(batch, new Scripted(operation.path("file"))))
      case "hand_over" => done(ledger.takeCommit(batch, new Scripted(operation.path("file"))))
      case "tidy_before" => done(ledger.tidyBefore(batch))
      case "committed_directly" => done(ledger.committedDirectly(batch))
      case "ended" => done(ledger.ended(text("run")))
      case "verify" => done(ledger.verify(root, text("run")))
      case "is_asynchronous" => nodes.booleanNode(ledger.isAsynchronous(root, text("run")))
      case "is_new" => nodes.booleanNode(ledger.isNew(batch))
      case "is_registered" => nodes.booleanNode(ledger.isRegistered(batch))
      case "work" => done(take(operation.path("index").asInt(0)).run())
      case "await_published" => done(calls.start(text("call")) {
        ledger.awaitPublished(batch)
        nodes.nullNode()
      })
      case "await_quiet" => done(calls.start(text("call")) {
        refused(ledger.awaitQuiet(root, operation.path("millis").asLong(20000)))
      })
      case "await_quiet_below" => done(calls.start(text("call")) {
        val found = nodes.arrayNode()
        val path = if (operation.path("path").isTextual) text("path") else null
        ledger.awaitQuietBelow(path, 20000).foreach(left => found.add(refused(Some(left))))
        found
      })
      case "waits" => nodes.booleanNode(calls.waits(text("call")))
      case "result" => calls.result(text("call"))
    }
  }

  private def done(action: Unit): JsonNode = null

  private def refused(found: Option[Refused]): JsonNode = found.fold[JsonNode](nodes.nullNode()) {
    left =>
      val node = nodes.objectNode()
      LedgerHarness.admission(left, node)
      node
  }

  private def take(index: Int): Runnable = work.synchronized(work.remove(index))

  /**
   * A log file whose steps go as scripted: "ok", "fail", "full" (of the disk, with Hadoop's Error
   * for it), "lost" (done, but reported as failed) or "taken" (another query's entry has the name).
   * Steps after the end of the script are "ok".
   */
  private final class Scripted(script: JsonNode) extends HeldFile {
    private val prepares = script.path("prepare").elements().asScala.map(_.asText())
    private val publishes = script.path("publish").elements().asScala.map(_.asText())
    private var visible = false

    override def name: String = script.path("name").asText()

    override def prepare(): Unit = {
      recorder.add("prepare")(_.put("file", name))
      prepares.nextOption().getOrElse("ok") match {
        case "fail" => throw new IOException(s"no answer for $name")
        case "full" => throw HadoopErrors.fullDisk
        case _ =>
      }
    }

    override def isPrepared: Boolean = true

    override def publish(): Unit = {
      recorder.add("publish")(_.put("file", name))
      publishes.nextOption().getOrElse("ok") match {
        case "fail" => throw new IOException(s"no answer for $name")
        case "full" => throw HadoopErrors.fullDisk
        case "taken" => throw new FileAlreadyExistsException(s"$name exists already")
        case outcome =>
          visible = true
          recorder.add("visible")(_.put("file", name))
          if (outcome == "lost") throw new IOException(s"the answer for $name was lost")
      }
    }

    override def drop(): Unit = recorder.add("dropped")(_.put("file", name))

    override def isPublished: Boolean = {
      recorder.add("looked up")(_.put("file", name))
      visible
    }
  }

  private final class Packs extends PackFiles {
    override def deleteOthers(version: Long, written: Set[String]): Unit =
      recorder.add("delete others") { event =>
        val names = event.put("version", version).putArray("written")
        written.toSeq.sorted.foreach(names.add(_))
      }

    override def deleteUpTo(version: Long): Unit =
      recorder.add("delete up to")(_.put("version", version))
  }
}
