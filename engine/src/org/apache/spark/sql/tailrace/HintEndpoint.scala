package org.apache.spark.sql.tailrace

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.rpc.{RpcEnv, ThreadSafeRpcEndpoint}
import org.apache.spark.util.RpcUtils
import org.slf4j.LoggerFactory

import tailrace.prefetch.{HintController, HintReport}

/** Where executors reach the controller of hints. Messages go one way, as bytes (see [[Wire]]). */
final class HintEndpoint(override val rpcEnv: RpcEnv, controller: HintController)
  extends ThreadSafeRpcEndpoint {

  override def receive: PartialFunction[Any, Unit] = {
    case bytes: Array[Byte] => controller.take(Wire.decode[HintReport](bytes))
  }
}

object HintEndpoint {
  private val log = LoggerFactory.getLogger(classOf[HintEndpoint])
  private val Name = "TailraceHints"

  def serve(controller: HintController): Unit = {
    val env = SparkEnv.get.rpcEnv
    env.setupEndpoint(Name, new HintEndpoint(env, controller))
  }

  /** Whether this process is the driver, as in local mode that of the tasks is, too. */
  def isDriver: Boolean = SparkEnv.get.executorId == SparkContext.DRIVER_IDENTIFIER

  /** The name by which other executors reach this one: they fetch its shuffled blocks from there. */
  def hostOfBlocks: String = SparkEnv.get.blockManager.blockManagerId.host

  /** The way to the driver. A report that cannot be sent is dropped. */
  def connect(): HintReport => Unit = {
    val env = SparkEnv.get
    val driver = RpcUtils.makeDriverRef(Name, env.conf, env.rpcEnv)
    report => try driver.send(Wire.encode(report)) catch {
      case error: Exception => log.debug("A report on hints was dropped.", error)
    }
  }
}
