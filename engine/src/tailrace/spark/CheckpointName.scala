package tailrace.spark

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * Problem: the ledger knows a checkpoint by its name, and a path can be written in many ways:
 * `/data/x`, `/data/x/`, `file:/data/x`, `file:///data/x`.
 *
 * Answer: one spelling, the one that Spark gives a query's checkpoint: with scheme and authority,
 * without a slash at the end. All that is asked of the ledger about a path goes through here.
 */
object CheckpointName {
  def of(path: Path, conf: Configuration): String =
    if (isQualified(path)) path.toString
    else path.getFileSystem(conf).makeQualified(path).toString

  def of(path: String, conf: Configuration): String = of(new Path(path), conf)

  /** Local files have no authority; of other systems the path may leave out the default one. */
  private def isQualified(path: Path): Boolean = {
    val uri = path.toUri
    uri.getScheme != null && (uri.getAuthority != null || uri.getScheme == "file")
  }
}
