/*
 * Problem: the pipeline's promises are about failures of a file system, a driver or a thread; none
 * of them fails when a test wants it to.
 * Answer: the real pipeline with its real threads, between a ledger and a target that obey. Orders
 * are given when the test says so, uploads fail as often as it says.
 * Invariant: nothing waits for a clock but the pipeline's own watchdog: retries record their pauses
 * instead of sleeping.
 */
package org.apache.spark.sql.tailrace.testing

import java.io.{ByteArrayOutputStream, FileNotFoundException, InputStream, IOException}
import java.io.OutputStream
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, CountDownLatch, Executors}
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.conf.Configuration

import tailrace.commit._
import tailrace.errors.FolderInTheWay
import tailrace.faults.{Failpoints, Rules}
import tailrace.files.{LocalCopies, LocalRoot, Retries, StateFolder}
import tailrace.ledger.Messages._
import tailrace.io.{Clock, IoJob, IoKind, IoScheduler, Threads}
import tailrace.metrics.BatchMeter
import tailrace.spark.CheckpointPacks

class PipelineHarness extends Operations {
  private val worlds = mutable.Map.empty[String, PipelineWorld]
  private val failpoints = new Failpoints

  override protected def execute(operation: JsonNode): JsonNode = {
    val name = operation.path("op").asText()
    def world: String = operation.path("pipeline").asText()
    name match {
      case "new" =>
        worlds(world) = new PipelineWorld(failpoints, Option(operation.get("slow")))
        RowCodec.nodes.nullNode()
      case "drop" =>
        worlds.remove(world)
        RowCodec.nodes.nullNode()
      case "arm" =>
        failpoints.arm(operation.path("points").asText())
        RowCodec.nodes.nullNode()
      case "pass" =>
        failpoints.pass(operation.path("point").asText())
        RowCodec.nodes.nullNode()
      case "retry" => retry(operation)
      case _ => worlds(world).execute(name, operation)
    }
  }

  /** A step that fails so many times, repeated: the pauses between, and the number returned. */
  private def retry(operation: JsonNode): JsonNode = {
    val result = RowCodec.nodes.objectNode()
    val pauses = result.putArray("pauses")
    val left = new AtomicInteger(operation.path("failures").asInt())
    val retries =
      new Retries(operation.path("patience").asLong(), Rules.All, pause => pauses.add(pause))
    try {
      result.put("repeated", retries("The step") {
        if (left.getAndDecrement() > 0) throw PipelineHarness.failure(operation.path("with").asText())
      })
    } catch {
      case error: Exception => result.set[JsonNode]("error", Operations.describe(error))
    }
    result
  }
}

private[testing] object PipelineHarness {
  def failure(kind: String): Throwable = kind match {
    case "exists" => new org.apache.hadoop.fs.FileAlreadyExistsException("of another writer")
    case "full" => HadoopErrors.fullDisk
    case "folder" => new FolderInTheWay("/checkpoint/state/tailrace/1.pack.tr")
    case "bug" => new IllegalStateException("not a matter of the file system")
    case _ => new IOException("no answer")
  }
}

/** @param slow the folders of a pipeline with one I/O permit, on a clock that the test moves */
private final class PipelineWorld(failpoints: Failpoints, slow: Option[JsonNode]) {
  import RowCodec.nodes

  private val recorder = new Recorder
  private val calls = new Calls
  private val ordersFor = new ConcurrentHashMap[BatchId, CompletableFuture[Orders]]
  private val uploadsToFail = new AtomicInteger
  private val held = new AtomicReference(new CountDownLatch(0))
  @volatile private var driverAnswers = true
  @volatile private var uploadsFailWith = ""
  private val clock = new StandingClock
  private val io = new IoScheduler(
    if (slow.isEmpty) 4 else 1, 100, if (slow.isEmpty) Clock.system else clock,
    Threads.Daemons.named("tailrace-test-io"))
  private val packs = slow.map(folders => new CheckpointPacks(
    folders.path("checkpoint").asText(), new Configuration(),
    Some(new LocalCopies(new LocalRoot(Some(folders.path("local").asText())), "/checkpoint")), 2))
  private val urgent = new CountDownLatch(1)
  private val pipeline =
    new Pipeline(() => new Link(""), Executors.newCachedThreadPool(), failpoints, io)

  def execute(name: String, operation: JsonNode): JsonNode = {
    def text(field: String): String = operation.path(field).asText()
    def batch: BatchId = BatchId("/checkpoint", text("query"), operation.path("batch").asLong())
    name match {
      case "submit" =>
        val part = sealedBatch(operation)
        val retries = new Retries(operation.path("patience").asLong(1000), Rules.All,
          pause => recorder.add("pause")(_.put("millis", pause)))
        val limit = operation.path("limit").asLong()
        calls.start(text("call"))(nodes.numberNode(
          pipeline.submit(batch, part, packs.getOrElse(new Target(batch)), limit, retries)))
        nodes.nullNode()
      case "commit" =>
        val part = sealedBatch(operation)
        val retries = new Retries(1000, Rules.All, _ => ())
        calls.start(text("call")) {
          new AsynchronousCommitter(
            batch.root, batch.run, part.store, named = false, new Link(text("answer")), pipeline,
            new Folder, new Target(batch), operation.path("limit").asLong(), retries, failpoints,
            new Otherwise)
            .commit(part, new BatchMeter)
          nodes.nullNode()
        }
        nodes.nullNode()
      case "orders" =>
        orders(batch).complete(Write(operation.path("stores").elements().asScala
          .map(at => StoreAt(at.get(0).asText(), at.get(1).asLong())).toSeq))
        nodes.nullNode()
      case "discard" =>
        orders(batch).complete(Discard)
        nodes.nullNode()
      case "fail_uploads" =>
        uploadsFailWith = text("with")
        uploadsToFail.set(operation.path("times").asInt())
        nodes.nullNode()
      case "hold_uploads" =>
        held.set(new CountDownLatch(1))
        nodes.nullNode()
      case "release_uploads" =>
        held.get().countDown()
        nodes.nullNode()
      case "bandwidth" =>
        io.bytesPerSecond = operation.path("bytes").asLong()
        nodes.nullNode()
      case "advance" =>
        clock.advance(operation.path("nanos").asLong())
        nodes.nullNode()
      case "sleeps" => nodes.booleanNode(clock.isWaitedFor)
      case "moved" =>
        val kind = IoKind.all.find(_.name == text("kind")).get
        nodes.numberNode(io.countsOf(kind).bytes)
      case "begin_urgent" => // a job that ends when it is told to
        io.submit(IoKind.Upload, "an urgent job") { _ =>
          recorder.add("urgent job begins")(_ => ())
          urgent.await()
        }
        nodes.nullNode()
      case "end_urgent" =>
        urgent.countDown()
        nodes.nullNode()
      case "driver_answers" =>
        driverAnswers = operation.path("answers").asBoolean()
        nodes.nullNode()
      case "events" => recorder.take()
      case "is_idle" => nodes.booleanNode(pipeline.awaitIdle(operation.path("millis").asLong()))
      case "waits" => nodes.booleanNode(calls.waits(text("call")))
      case "result" => calls.result(text("call"))
    }
  }

  private def sealedBatch(operation: JsonNode): SealedBatch = {
    val bytes = new Chunks
    bytes.write(operation.path("bytes").asText().getBytes("UTF-8"))
    SealedBatch(operation.path("store").asText(), operation.path("batch").asLong() + 1,
      operation.path("lineage").asLong(), 0L, 1L, bytes)
  }

  private def orders(batch: BatchId): CompletableFuture[Orders] =
    ordersFor.computeIfAbsent(batch, _ => new CompletableFuture[Orders])

  /** @param answer to a task that registers */
  private final class Link(answer: String) extends LedgerLink {
    override def executor: String = "executor"

    override def awaitOrders(batch: BatchId): Orders = {
      recorder.add("asks for orders")(_.put("query", batch.run).put("batch", batch.number))
      orders(batch).get()
    }

    override def durable(
        batch: BatchId, pack: String, stores: Seq[StoreAt], retries: Int): Unit = {
      recorder.add("durable") { event =>
        val list = event.put("query", batch.run).put("batch", batch.number).put("pack", pack)
          .put("retries", retries).putArray("stores")
        stores.foreach(at => list.addArray().add(at.store).add(at.lineage))
      }
    }

    override def notWritten(batch: BatchId, problem: String, because: String): Unit = {
      recorder.add("not written")(_.put("query", batch.run).put("batch", batch.number)
        .put("problem", problem).put("because", because))
      if (!driverAnswers) throw new IllegalStateException("the driver does not answer")
    }

    override def register(message: Register): Admission = {
      recorder.add("registers")(_.put("query", message.batch.run).put("batch", message.batch.number))
      answer match {
        case "admitted" => Admitted(0, 0, 0)
        case "write now" => WriteNow
        case "refused" => Refused("It is over.", "It came too late.", "Nothing.")
        case "cancelled" => throw new InterruptedException("the task was cancelled")
      }
    }

    override def awaitGate(batch: BatchId): Admission = unused
    override def awaitDurable(root: String, batch: Long): Unit = unused
    override def oldestNeeded(root: String, store: String, version: Long): Unit = unused

    private def unused: Nothing = throw new IllegalStateException("a pipeline does not ask this")
  }

  /** A commit that has to be durable at once. */
  private final class Otherwise extends Committer {
    override def commit(batch: SealedBatch, meter: BatchMeter): Unit =
      recorder.add("written at once")(_.put("store", batch.store))
    override def awaitGate(version: Long): Unit = {}
    override def awaitDurable(version: Long): Unit = {}
    override def oldestNeeded(version: Long): Unit = {}
  }

  private final class Folder extends StateFolder {
    override def path: String = "/checkpoint/state/0/0"
    override def list(): Seq[StateFolder.Entry] = Nil
    override def make(): Unit = {}
    override def open(name: String): InputStream = throw new FileNotFoundException(name)
    override def write(name: String)(body: OutputStream => Unit): Long = 0L
    override def delete(name: String): Unit = {}
  }

  private final class Target(batch: BatchId) extends PackTarget {
    override def nameOf(pack: String): String = s"/checkpoint/state/tailrace/$pack"

    override def writeLocal(pack: SealedPack, io: IoJob): Unit = recorder.add("local copy")(
      _.put("query", batch.run).put("batch", batch.number).put("pack", pack.name))

    override def upload(pack: SealedPack, io: IoJob): Unit = {
      if (uploadsToFail.getAndUpdate(left => math.max(left - 1, 0)) > 0) {
        recorder.add("upload fails")(_.put("batch", batch.number))
        throw PipelineHarness.failure(uploadsFailWith)
      }
      held.get().await()
      val bytes = new ByteArrayOutputStream
      pack.writeTo(bytes, io)
      recorder.add("upload") { event =>
        val list = event.put("query", batch.run).put("batch", batch.number).put("pack", pack.name)
          .put("length", pack.length).put("bytes", bytes.toByteArray).putArray("stores")
        pack.header.entries.foreach(entry => list.addArray().add(entry.store).add(entry.lineage))
      }
    }
  }
}
