package tailrace.files

import java.io.IOException

import org.apache.hadoop.fs.FileAlreadyExistsException
import org.slf4j.LoggerFactory

import tailrace.errors.FolderInTheWay
import tailrace.faults.{Rule, Rules}

/**
 * Repeats a step that fails with an IOException, waiting twice as long each time, until `patience`
 * is used up; then the last error goes to the caller. A full disk is such an error, in every class it
 * is reported with. Not retried are a file that must not exist but does, because another query wrote
 * it, and a folder in a file's place.
 */
final class Retries(
    patienceMillis: Long, rules: Rules, sleep: Long => Unit = Thread.sleep(_)) {
  import Retries._

  /** Returns how often the step had to be repeated. */
  def apply(what: String)(step: => Unit): Int = {
    val deadline = System.nanoTime() + patienceMillis * 1000000L
    var pause = FirstPause
    var repeated = 0
    while (true) {
      try {
        DiskErrors.asIOException(step)
        return repeated
      } catch {
        case error: FileAlreadyExistsException => throw error
        case error: FolderInTheWay => throw error
        case error: IOException =>
          val over = System.nanoTime() + pause * 1000000L > deadline
          if (over || !rules.isOn(Rule.RetryWrites)) throw error
          log.warn(s"$what failed and is tried again in $pause ms: $error")
      }
      sleep(pause)
      pause = math.min(pause * 2, LongestPause)
      repeated += 1
    }
    repeated
  }
}

object Retries {
  private val log = LoggerFactory.getLogger(classOf[Retries])
  private val FirstPause = 50L
  private val LongestPause = 5000L
}
