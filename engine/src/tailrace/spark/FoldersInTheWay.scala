package tailrace.spark

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.fs.FileStatus
import org.slf4j.LoggerFactory

import tailrace.files.FileNames

/**
 * Folders of a checkpoint that have the name of a state file. They are not changed: we did not write
 * their content. Each is named in a warning once.
 */
private[spark] object FoldersInTheWay {
  private val log = LoggerFactory.getLogger("tailrace.spark.FoldersInTheWay")
  private val Most = 1000
  private val known = ConcurrentHashMap.newKeySet[String]()

  def in(listed: Seq[FileStatus]): Seq[String] =
    listed.filter(_.isDirectory).map(_.getPath.getName).filter(FileNames.isOwn)

  def warn(folder: String): Unit = if (known.size < Most && known.add(folder)) {
    log.warn(s"$folder is a folder, where a file belongs. It is left as it is.")
  }
}
