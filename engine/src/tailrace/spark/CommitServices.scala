package tailrace.spark

import java.util.concurrent.{Executors, ThreadFactory}
import java.util.concurrent.atomic.AtomicInteger

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.tailrace.LedgerEndpoint

import tailrace.commit.{CommitFailed, Ledger, LedgerLink, Pipeline, Retries}

/**
 * What a process has one of: on the driver the ledger, on an executor the pipeline and the way to
 * the ledger; in local mode all of them. Started and ended by [[TailracePlugin]]: without the
 * plugin there is none of it, and commits are synchronous.
 */
object CommitServices {
  private val threads = new AtomicInteger
  private lazy val background = Executors.newCachedThreadPool(new ThreadFactory {
    override def newThread(work: Runnable): Thread = {
      val thread = new Thread(work, s"tailrace-ledger-${threads.incrementAndGet()}")
      thread.setDaemon(true)
      thread
    }
  })
  @volatile private var currentLedger: Option[Ledger] = None
  @volatile private var executorRuns = false
  private var connection: (SparkEnv, LedgerLink) = (null, null)

  val pipeline = new Pipeline(() => link.getOrElse(
    throw new IllegalStateException("The Spark session has ended.")))

  def ledger: Option[Ledger] = currentLedger

  def startDriver(conf: SparkConf): Ledger = {
    val ledger = new Ledger(background, new Retries(retryMillis(conf)))
    LedgerEndpoint.serve(ledger)
    currentLedger = Some(ledger)
    ledger
  }

  def stopDriver(): Unit = currentLedger = None

  /**
   * Waits until nothing is pending on any checkpoint. Returns what could not be written, as problem,
   * cause and remedy one after the other; for Python.
   */
  def drain(timeoutMillis: Long): Array[String] = {
    val left = try ledger.toSeq.flatMap(_.awaitQuietBelow(null, timeoutMillis)) catch {
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
