package tailrace.spark

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.SparkEnv
import org.apache.spark.sql.tailrace.{HintChannel, HintEndpoint}
import org.slf4j.LoggerFactory

import tailrace.prefetch.{CountMinSketch, HintBatch, HintController, HintReport}

/**
 * The process's parts of keyed prefetching: on the driver the controller, on an executor the inbox of
 * its stores, the sketches of its tasks, and the channel to other executors; in local mode all of
 * them, and no channel. Started and ended by [[TailracePlugin]]: without the plugin there are no hints.
 *
 * Invariant: nothing here fails or delays a task. What cannot be sent is dropped.
 */
final class HintServices private[spark] (runtime: EngineRuntime) {
  import HintServices._

  private[spark] val inbox = new HintInbox
  private[spark] lazy val threads = runtime.threads.pool("tailrace-hints")
  private val sketches = new ConcurrentHashMap[(String, Long), CountMinSketch]
  @volatile private var running: Option[HintController] = None
  @volatile private var toDriver: HintReport => Unit = _ => ()
  @volatile private var channel: Option[HintChannel] = None

  /** On the driver, while a session lives. */
  def controller: Option[HintController] = running

  def startDriver(): Unit = {
    val made = new HintController
    HintEndpoint.serve(made)
    running = Some(made)
    toDriver = made.take
  }

  def stopDriver(): Unit = {
    running = None
    toDriver = _ => ()
    sketches.clear()
  }

  def startExecutor(): Unit = if (!HintEndpoint.isDriver) {
    toDriver = HintEndpoint.connect()
    val host = HintEndpoint.hostOfBlocks
    try {
      val opened = HintChannel.open(host, bytes => inbox.take(HintBatch.decode(bytes)))
      channel = Some(opened)
      toDriver(HintReport.Listening(SparkEnv.get.executorId, host, opened.port))
    } catch {
      case error: Exception => log.warn(
        s"This executor takes no hints from others: it could not listen at $host. Queries run " +
          "without them; look-ups of spilled state may wait longer.", error)
    }
  }

  def stopExecutor(): Unit = {
    channel.foreach(_.close())
    channel = None
  }

  def report(report: HintReport): Unit = toDriver(report)

  /** The counts of an operator's keys, which the tasks of this executor share. */
  def sketch(run: String, operator: Long, threshold: Int): CountMinSketch = {
    // A query that ended leaves its sketch until there are many.
    if (sketches.size > MostSketches) sketches.clear()
    sketches.computeIfAbsent((run, operator), _ => new CountMinSketch(threshold))
  }

  /** False: they were dropped. */
  def send(to: HintController.Route, hints: HintBatch): Boolean =
    if (to.executor == SparkEnv.get.executorId) {
      inbox.take(hints)
      true
    } else {
      channel.filter(_ => to.port > 0).exists(_.send(to.host, to.port, hints.encode()))
    }
}

private object HintServices {
  private val log = LoggerFactory.getLogger(classOf[HintServices])
  private val MostSketches = 64
}
