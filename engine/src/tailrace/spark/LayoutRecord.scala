package tailrace.spark

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo

/**
 * Which operators of a query keep rows in the place of growing buffers. The two have nothing in
 * common on disk, so the choice is made with an operator's first batch, noted in the checkpoint
 * (`state/tailrace/<operator>.rows`), and kept by every restart, whatever the option says then.
 */
private[spark] final class LayoutRecord(conf: () => Configuration) {
  private val known = new ConcurrentHashMap[(String, Long), java.lang.Boolean]

  /** @param wanted the choice for an operator that has no state yet */
  def keepsRows(info: StatefulOperatorStateInfo, wanted: => Boolean): Boolean =
    if (info.checkpointLocation.contains(LayoutRecord.NoCheckpoint)) {
      wanted
    } else {
      known.computeIfAbsent((info.queryRunId.toString, info.operatorId), _ =>
        if (info.storeVersion == 0) note(info, wanted) else isNoted(info))
    }

  private def note(info: StatefulOperatorStateInfo, rows: Boolean): Boolean = {
    val file = fileOf(info)
    val manager = TailraceFileManager.forState(file.getParent, conf())
    if (rows) {
      if (!manager.exists(file.getParent)) manager.mkdirs(file.getParent)
      val stream = manager.createAtomic(file, overwriteIfPossible = true)
      stream.write("rows until their window closes\n".getBytes(UTF_8))
      stream.close()
    } else if (manager.exists(file)) {
      manager.delete(file)
    }
    rows
  }

  private def isNoted(info: StatefulOperatorStateInfo): Boolean = {
    val file = fileOf(info)
    TailraceFileManager.forState(file.getParent, conf()).exists(file)
  }

  private def fileOf(info: StatefulOperatorStateInfo): Path =
    new Path(CheckpointPacks.location(info.checkpointLocation), s"${info.operatorId}.rows")
}

private object LayoutRecord {
  /** What Spark names the checkpoint of a plan that is only explained. */
  val NoCheckpoint = "<unknown>"
}
