package tailrace.spark

import java.io.FileNotFoundException

import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import tailrace.files.FileNames
import tailrace.ledger.StartCheck.StateFile

/**
 * The newest files with state in a checkpoint, by their names alone: packs, and what stores write
 * themselves (changes where commits are synchronous, snapshots). The first partition of an operator
 * stands for all: every batch makes a version of each.
 *
 * {{{
 *   state / "tailrace" / pack
 *   state / operator / "0" / [ name of the store / ] (changes | snapshot)
 * }}}
 */
private[spark] final class StateFiles(manager: CheckpointFileManager, root: String) {
  import StateFiles._

  private val state = new Path(root, "state")

  def newest: Seq[StateFile] = packs.toSeq ++ operators.flatMap { operator =>
    val partition = s"$operator/$FirstPartition"
    val inside = listed(partition)
    ownIn(partition, inside) ++ storesIn(inside).flatMap { name =>
      val store = s"$partition/$name"
      ownIn(store, listed(store))
    }
  }

  private def packs: Option[StateFile] = {
    val folder = CheckpointPacks.location(state.toString)
    newestOf(s"state/${folder.getName}", CheckpointPacks.list(manager, folder).map(_._1))
  }

  private def operators: Seq[String] = foldersIn(listed(".")).filter(_.forall(_.isDigit))

  private def storesIn(inside: Seq[FileStatus]): Seq[String] =
    foldersIn(inside).filterNot(name => name.startsWith("_") || name.startsWith("."))

  private def ownIn(folder: String, inside: Seq[FileStatus]): Option[StateFile] =
    newestOf(s"state/$folder",
      inside.filter(_.isFile).flatMap(status => FileNames.parse(status.getPath.getName)).map(_.version))

  private def newestOf(folder: String, versions: Seq[Long]): Option[StateFile] =
    versions.maxOption.map(StateFile(_, folder))

  private def foldersIn(statuses: Seq[FileStatus]): Seq[String] =
    statuses.filter(_.isDirectory).map(_.getPath.getName)

  private def listed(folder: String): Seq[FileStatus] =
    try manager.list(if (folder == ".") state else new Path(state, folder)).toSeq catch {
      case _: FileNotFoundException => Nil
    }
}

private object StateFiles {
  private val FirstPartition = "0"
}
