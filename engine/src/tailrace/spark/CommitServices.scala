package tailrace.spark

import org.apache.hadoop.conf.Configuration
import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.tailrace.LedgerEndpoint

import tailrace.commit.{LedgerLink, Pipeline}
import tailrace.files.Retries
import tailrace.ledger.{CommitFailed, Ledger}
import tailrace.ledger.Messages.Refused

/**
 * The process's parts of asynchronous commits: on the driver the ledger, on an executor the pipeline
 * and the way to the ledger; in local mode all of them. Started and ended by [[TailracePlugin]]:
 * without the plugin there is none of it, and commits are synchronous.
 */
final class CommitServices private[spark] (runtime: EngineRuntime) {
  private lazy val background = runtime.threads.pool("tailrace-ledger")
  @volatile private var currentLedger: Option[Ledger] = None
  @volatile private var executorRuns = false
  private var connection: (SparkEnv, LedgerLink) = (null, null)

  lazy val pipeline: Pipeline = new Pipeline(
    () => link.getOrElse(throw new IllegalStateException("The Spark session has ended.")),
    runtime.threads.pool("tailrace-commit"), runtime.failpoints, runtime.io)

  def ledger: Option[Ledger] = currentLedger

  def startDriver(conf: SparkConf): Ledger = {
    val ledger = new Ledger(background, new Retries(retryMillis(conf), runtime.rules),
      runtime.rules, runtime.failpoints, runtime.clock)
    LedgerEndpoint.serve(ledger)
    currentLedger = Some(ledger)
    ledger
  }

  def stopDriver(): Unit = currentLedger = None

  /**
   * Waits until nothing is pending on any checkpoint. Returns the failures of writes, each as problem,
   * cause and remedy one after the other; for Python.
   */
  def drain(timeoutMillis: Long): Array[String] =
    leftBy(_.awaitQuietBelow(null, timeoutMillis).toSeq)

  /** The same for one checkpoint: failures of others are not reported. */
  def drain(checkpoint: String, conf: Configuration, timeoutMillis: Long): Array[String] =
    leftBy(_.awaitQuiet(CheckpointName.of(checkpoint, conf), timeoutMillis).toSeq)

  private def leftBy(wait: Ledger => Seq[Refused]): Array[String] = {
    val left = try ledger.toSeq.flatMap(wait) catch {
      case late: CommitFailed => Seq(late.refused)
    }
    left.flatMap(each => Seq(each.problem, each.because, each.remedy)).toArray
  }

  def startExecutor(): Unit = executorRuns = true

  def stopExecutor(): Unit = executorRuns = false

  /** The way to the ledger, if this process takes part in asynchronous commits. */
  def link: Option[LedgerLink] = synchronized {
    val env = SparkEnv.get
    if (env == null || !executorRuns) {
      None
    } else {
      if (connection._1 ne env) connection = env -> LedgerEndpoint.connect()
      Some(connection._2)
    }
  }

  private def retryMillis(conf: SparkConf): Long = JavaUtils.timeStringAs(
    conf.get(StoreOptions.Prefix + "retryTimeout", StoreOptions.DefaultRetryTimeout),
    java.util.concurrent.TimeUnit.MILLISECONDS)
}
