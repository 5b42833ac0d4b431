package tailrace.plan

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo

import tailrace.errors.MissingNote
import tailrace.files.FileNames
import tailrace.format.{FileHeader, StateFileReader}
import tailrace.spark.{CheckpointFolder, CheckpointPacks, TailraceFileManager}

/**
 * Which operators of a query keep rows in the place of growing buffers. The two have nothing in
 * common on disk, so the choice is made with an operator's first batch, noted in the checkpoint
 * (`state/tailrace/<operator>.rows` or `<operator>.buffers`), and kept by every restart, whatever
 * the option says then.
 *
 * Invariants: there is at most one note of an operator. Where there is none, the checkpoint is an
 * old one, which noted only rows, or the note was lost: the state files themselves say which.
 */
private[plan] final class LayoutRecord(conf: () => Configuration) {
  import LayoutRecord._

  private val known = new ConcurrentHashMap[(String, Long), java.lang.Boolean]

  /** @param wanted the choice for an operator that has no state yet */
  def keepsRows(info: StatefulOperatorStateInfo, wanted: => Boolean): Boolean =
    if (info.checkpointLocation.contains(NoCheckpoint)) {
      wanted
    } else {
      known.computeIfAbsent((info.queryRunId.toString, info.operatorId), _ => {
        val notes = new Notes(info)
        if (info.storeVersion == 0) notes.write(wanted) else notes.read()
      })
    }

  private final class Notes(info: StatefulOperatorStateInfo) {
    private val folder = CheckpointPacks.location(info.checkpointLocation)
    private val manager: CheckpointFileManager = TailraceFileManager.forState(folder, conf())
    private val rows = new Path(folder, s"${info.operatorId}.rows")
    private val buffers = new Path(folder, s"${info.operatorId}.buffers")

    def write(choice: Boolean): Boolean = {
      val (chosen, other, text) =
        if (choice) (rows, buffers, "rows until their window closes\n")
        else (buffers, rows, "Spark's aggregation buffers\n")
      // The other one first: two notes would contradict each other, none is written again.
      if (manager.exists(other)) TailraceFileManager.deleteFile(manager, other, conf())
      if (!manager.exists(folder)) manager.mkdirs(folder)
      val stream = manager.createAtomic(chosen, overwriteIfPossible = true)
      stream.write(text.getBytes(UTF_8))
      stream.close()
      choice
    }

    def read(): Boolean =
      if (manager.exists(rows)) {
        true
      } else {
        if (!manager.exists(buffers) && filesKeepRows) {
          throw new MissingNote(rows.toString,
            s"The state files of operator ${info.operatorId} hold rows that wait for their " +
              "window to close, and this note, which says so, is gone. Without it the query would " +
              "look for aggregation buffers in them.")
        }
        false
      }

    /** Whether the newest files of the operator's first partition hold lists of rows. */
    private def filesKeepRows: Boolean = {
      val newest = (ownHeaders ++ packedHeaders).filter(_._1 <= info.storeVersion)
      newest.map(_._1).maxOption.exists { version =>
        val families = newest.filter(_._1 == version).flatMap(_._2()).map(_.families)
        families.nonEmpty && families.forall(_.exists(_.shape.multiValue))
      }
    }

    private type Found = (Long, () => Option[FileHeader])

    private def ownHeaders: Seq[Found] = {
      val location = new Path(info.checkpointLocation, s"${info.operatorId}/0")
      val own = new CheckpointFolder(location, conf(), copies = None)
      own.list().flatMap(entry => FileNames.parse(entry.name).map(_.version -> entry.name)).map {
        case (version, name) => (version, () => readable {
          val stream = own.open(name)
          try new StateFileReader(stream, own.nameOf(name)).header finally stream.close()
        })
      }
    }

    private def packedHeaders: Seq[Found] = {
      val packs = new CheckpointPacks(info.checkpointLocation, conf(), copies = None, keepLocal = 0)
      val store = s"${info.operatorId}/0/default"
      packs.list().toSeq.flatMap { case (version, ofVersion) =>
        ofVersion.map { pack =>
          (version, () => readable(pack.header.entries.find(_.store == store)).flatten.flatMap(
            entry => readable {
              val stream = pack.open(entry)
              try new StateFileReader(stream, pack.name).header finally stream.close()
            }))
        }
      }
    }
  }
}

private object LayoutRecord {
  /** Spark's name for the checkpoint of a plan that is only explained. */
  val NoCheckpoint = "<unknown>"

  /** A file that cannot be read says nothing here; the code that needs it reports the error. */
  private def readable[T](body: => T): Option[T] =
    try Some(body) catch { case _: IOException => None }
}
