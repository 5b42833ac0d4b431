package org.apache.spark.sql.tailrace

import java.util.concurrent.{TimeoutException, TimeUnit}

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.Duration
import scala.reflect.ClassTag

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.rpc.{RpcCallContext, RpcEndpointRef, RpcEnv}
import org.apache.spark.rpc.{RpcTimeoutException, ThreadSafeRpcEndpoint}
import org.apache.spark.util.RpcUtils

import tailrace.commit.{Ledger, LedgerLink}
import tailrace.commit.Messages._

/**
 * The ledger's ear on the driver. An endpoint of our own rather than the plugin's channel, because
 * an answer must be able to wait, and the plugin's channel answers within the call. In this package
 * because Spark keeps its messaging to itself.
 */
final class LedgerEndpoint(override val rpcEnv: RpcEnv, ledger: Ledger)
  extends ThreadSafeRpcEndpoint {

  override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
    case message: Enter => ledger.enter(message)(context.reply)
    case AwaitGate(batch) => ledger.gate(batch)(context.reply)
    case message: AwaitOrders => ledger.orders(message)(context.reply)
    case message: Durable =>
      ledger.durable(message)
      context.reply(Heard)
    case message: NotWritten =>
      ledger.notWritten(message)
      context.reply(Heard)
    case message: AwaitDurable => ledger.durableOrGone(message)(() => context.reply(Heard))
    case message: OldestNeeded =>
      ledger.oldestNeeded(message)
      context.reply(Heard)
  }
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

    override def enter(message: Enter): Entry = ask[Entry](message)

    override def awaitGate(batch: BatchId): Entry = ask[Entry](AwaitGate(batch))

    override def awaitOrders(batch: BatchId): Orders = ask[Orders](AwaitOrders(batch, executor))

    override def durable(
        batch: BatchId, pack: String, stores: Seq[StoreAt], retries: Int): Unit =
      ask[AnyRef](Durable(batch, executor, pack, stores, retries))

    override def notWritten(batch: BatchId, problem: String, because: String): Unit =
      ask[AnyRef](NotWritten(batch, executor, problem, because))

    override def awaitDurable(root: String, batch: Long): Unit =
      ask[AnyRef](AwaitDurable(root, batch))

    override def oldestNeeded(root: String, store: String, version: Long): Unit =
      ask[AnyRef](OldestNeeded(root, store, version))

    /** Asks until there is an answer: waiting long is no error, asking again does no harm. */
    private def ask[T: ClassTag](message: Any): T = {
      var answer: Option[T] = None
      while (answer.isEmpty) {
        val asked: Future[T] = ref.ask[T](message)
        answer = try Some(await(asked)) catch {
          case _: RpcTimeoutException | _: TimeoutException => None
        }
      }
      answer.get
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
