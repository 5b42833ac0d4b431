package tailrace.spark

import java.util

import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent, SparkListenerExecutorRemoved}
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent
import org.slf4j.LoggerFactory

/**
 * The class for `spark.plugins`: starts the ledger with the driver, and ends ledger and pipelines in
 * good order. A session that ends properly (`spark.stop()`, the end of the program) loses no pending
 * batch: driver and executors wait for it, for a while.
 */
final class TailracePlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new TailracePlugin.OnDriver

  override def executorPlugin(): ExecutorPlugin = new TailracePlugin.OnExecutor
}

private object TailracePlugin {
  private val log = LoggerFactory.getLogger(classOf[TailracePlugin])
  private val PatienceMillis = 60L * 1000

  final class OnDriver extends DriverPlugin {
    override def init(context: SparkContext, plugin: PluginContext): util.Map[String, String] = {
      val ledger = EngineRuntime.current.services.startDriver(context.getConf)
      val hints = EngineRuntime.current.hints
      hints.startDriver()
      context.addSparkListener(new SparkListener {
        override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = {
          ledger.executorLost(removed.executorId)
          hints.controller.foreach(_.executorLost(removed.executorId))
        }

        override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
          case over: QueryTerminatedEvent =>
            ledger.ended(over.runId.toString)
            hints.controller.foreach(_.ended(over.runId.toString))
          case _ =>
        }
      })
      util.Map.of()
    }

    override def shutdown(): Unit = {
      EngineRuntime.current.hints.stopDriver()
      try {
        EngineRuntime.current.services.ledger.foreach(_.close())
        EngineRuntime.current.services.ledger.toSeq.flatMap(_.awaitQuietBelow(null, PatienceMillis))
          .foreach(left => log.error(s"${left.problem} Cause: ${left.because} ${left.remedy}"))
      } catch {
        case late: java.io.IOException => log.error(late.getMessage)
      } finally {
        EngineRuntime.current.services.stopDriver()
      }
    }
  }

  final class OnExecutor extends ExecutorPlugin {
    override def init(plugin: PluginContext, extra: util.Map[String, String]): Unit = {
      EngineRuntime.current.services.startExecutor()
      EngineRuntime.current.hints.startExecutor()
    }

    override def shutdown(): Unit = {
      EngineRuntime.current.hints.stopExecutor()
      EngineRuntime.current.services.pipeline.awaitIdle(PatienceMillis)
      EngineRuntime.current.services.stopExecutor()
    }
  }
}
