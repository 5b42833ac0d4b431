package org.apache.spark.sql.tailrace

import java.util.concurrent.{TimeoutException, TimeUnit}

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.Duration

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.rpc.{RpcCallContext, RpcEndpointRef, RpcEnv}
import org.apache.spark.rpc.{RpcTimeoutException, ThreadSafeRpcEndpoint}
import org.apache.spark.util.{RpcUtils, Utils}

import tailrace.commit.LedgerLink
import tailrace.ledger.Ledger
import tailrace.ledger.Messages._

/**
 * Where the ledger is reached on the driver. An endpoint of our own rather than the plugin's
 * channel, because an answer must be able to wait, and the plugin's channel answers within the call.
 * In this package because Spark keeps its messaging to itself.
 */
final class LedgerEndpoint(override val rpcEnv: RpcEnv, ledger: Ledger)
  extends ThreadSafeRpcEndpoint {

  override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
    case bytes: Array[Byte] =>
      def reply(answer: Any): Unit = context.reply(Wire.encode(answer))
      Wire.decode[Message](bytes) match {
        case message: Register => ledger.register(message)(reply)
        case AwaitGate(batch) => ledger.gate(batch)(reply)
        case message: AwaitOrders => ledger.orders(message)(reply)
        case message: Durable =>
          ledger.durable(message)
          reply(Acknowledged)
        case message: NotWritten =>
          ledger.notWritten(message)
          reply(Acknowledged)
        case message: AwaitDurable => ledger.durableOrGone(message)(() => reply(Acknowledged))
        case message: OldestNeeded =>
          ledger.oldestNeeded(message)
          reply(Acknowledged)
      }
  }
}

/**
 * Messages travel as bytes: Spark's messaging reads objects with the class loader of Spark itself,
 * which on an executor does not know the jars of `spark.jars`.
 */
private object Wire {
  def encode(message: Any): Array[Byte] = Utils.serialize(message)

  def decode[T](bytes: Array[Byte]): T = Utils.deserialize[T](bytes, getClass.getClassLoader)
}

object LedgerEndpoint {
  private val Name = "TailraceLedger"

  def serve(ledger: Ledger): Unit = {
    val env = SparkEnv.get.rpcEnv
    env.setupEndpoint(Name, new LedgerEndpoint(env, ledger))
  }

  /** The way to the ledger from this process. */
  def connect(): LedgerLink = {
    val env = SparkEnv.get
    new RemoteLedger(RpcUtils.makeDriverRef(Name, env.conf, env.rpcEnv), env.executorId)
  }

  private final class RemoteLedger(ref: RpcEndpointRef, override val executor: String)
    extends LedgerLink {

    override def register(message: Register): Admission = ask(message)

    override def awaitGate(batch: BatchId): Admission = ask(AwaitGate(batch))

    override def awaitOrders(batch: BatchId): Orders = ask(AwaitOrders(batch, executor))

    override def durable(
        batch: BatchId, pack: String, stores: Seq[StoreAt], retries: Int): Unit =
      ask[Acknowledged.type](Durable(batch, executor, pack, stores, retries))

    override def notWritten(batch: BatchId, problem: String, because: String): Unit =
      ask[Acknowledged.type](NotWritten(batch, executor, problem, because))

    override def awaitDurable(root: String, batch: Long): Unit =
      ask[Acknowledged.type](AwaitDurable(root, batch))

    override def oldestNeeded(root: String, store: String, version: Long): Unit =
      ask[Acknowledged.type](OldestNeeded(root, store, version))

    /** Asks until there is an answer: waiting long is no error, asking again does no harm. */
    private def ask[T](message: Any): T = {
      val bytes = Wire.encode(message)
      var answer: Option[Array[Byte]] = None
      while (answer.isEmpty) {
        val asked = ref.ask[Array[Byte]](bytes)
        answer = try Some(await(asked)) catch {
          case _: RpcTimeoutException | _: TimeoutException => None
        }
      }
      Wire.decode[T](answer.get)
    }

    private def await[T](asked: Future[T]): T = {
      while (!asked.isCompleted && !isKilled) {
        try Await.ready(asked, Duration(200, TimeUnit.MILLISECONDS)) catch {
          case _: TimeoutException =>
        }
      }
      if (!asked.isCompleted) throw new InterruptedException("the task was cancelled")
      Await.result(asked, Duration.Zero)
    }

    private def isKilled: Boolean = Option(TaskContext.get()).exists(_.isInterrupted())
  }
}
