package tailrace.spark

import java.io.{FileNotFoundException, IOException, OutputStream}
import java.nio.file.{FileAlreadyExistsException => NioFileExists, Files, Path => LocalPath, Paths}
import java.nio.file.StandardCopyOption.ATOMIC_MOVE
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

import tailrace.errors.FolderInTheWay
import tailrace.files.DiskErrors

/**
 * Problem: on a local disk, Hadoop's checksummed file system starts a process (chmod) for every
 * file it creates, and keeps a second file with checksums beside it. Both cost more than a small
 * file's write.
 *
 * Answer: the raw local file system below it, through the same Hadoop interface. Our files carry
 * their own checksums; Spark's logs were written without any to begin with.
 *
 * Invariants: as for every file manager, a file is there as a whole or not at all. Without
 * overwriting, of two writers exactly one succeeds (a hard link is made in one step). Folders are
 * deleted with their content only where Spark asks for it: it does so with a checkpoint that was
 * temporary.
 */
final class LocalFileManager(raw: RawLocalFileSystem, folder: Path) extends CheckpointFileManager {

  override def createAtomic(path: Path, overwrite: Boolean): CancellableFSDataOutputStream = {
    val temporary = new Path(path.getParent, s".${path.getName}.${UUID.randomUUID}.tmp")
    val stream = DiskErrors.writing(raw.create(temporary, true), path.toString)
    new LocalFileManager.AtomicStream(stream, () => publish(temporary, path, overwrite),
      () => raw.delete(temporary, false))
  }

  private[spark] def createDirectly(path: Path): OutputStream =
    DiskErrors.writing(raw.create(path, true), path.toString)

  override def open(path: Path): FSDataInputStream = raw.open(path)

  override def list(path: Path, filter: PathFilter): Array[FileStatus] =
    raw.listStatus(path, filter)

  override def mkdirs(path: Path): Unit =
    Files.createDirectories(Paths.get(raw.pathToFile(path).getPath))

  override def exists(path: Path): Boolean = raw.pathToFile(path).exists()

  override def delete(path: Path): Unit =
    try raw.delete(path, true) catch { case _: FileNotFoundException => }

  /** Deletes a file. A folder stays, and is an error. */
  private[spark] def deleteFile(path: Path): Unit = {
    refuseFolder(path)
    Files.deleteIfExists(local(path))
  }

  private[spark] def isFolder(path: Path): Boolean = Files.isDirectory(local(path))

  private def refuseFolder(path: Path): Unit =
    if (isFolder(path)) throw new FolderInTheWay(path.toString)

  private def local(path: Path): LocalPath = raw.pathToFile(path).toPath

  override def isLocal: Boolean = true

  override def createCheckpointDirectory(): Path = {
    val qualified = raw.makeQualified(folder)
    mkdirs(qualified)
    qualified
  }

  private[spark] def publish(temporary: Path, path: Path, overwrite: Boolean): Unit = {
    if (overwrite) {
      rename(temporary, path)
    } else {
      val linked = try {
        Files.createLink(local(path), local(temporary))
        true
      } catch {
        case _: NioFileExists => refuse(temporary, path)
        case _: UnsupportedOperationException | _: IOException =>
          // A disk without hard links.
          if (exists(path)) refuse(temporary, path)
          rename(temporary, path)
          false
      }
      // The file is there: a second name that stays is no error.
      if (linked) try raw.delete(temporary, false) catch { case _: IOException => }
    }
  }

  /** Not Hadoop's, which copies a file it cannot rename, and moves it into a folder of that name. */
  private def rename(temporary: Path, path: Path): Unit = {
    refuseFolder(path)
    Files.move(local(temporary), local(path), ATOMIC_MOVE)
  }

  private def refuse(temporary: Path, path: Path): Nothing = {
    raw.delete(temporary, false)
    throw new FileAlreadyExistsException(s"$path exists already")
  }
}

object LocalFileManager {

  /** The raw local file system below this path, if it is a local path. */
  def rawBelow(path: Path, conf: Configuration): Option[RawLocalFileSystem] =
    path.getFileSystem(conf) match {
      case local: LocalFileSystem => local.getRawFileSystem match {
        case raw: RawLocalFileSystem => Some(raw)
        case _ => None
      }
      case _ => None
    }

  private final class AtomicStream(
      stream: OutputStream, publish: () => Unit, discard: () => Unit)
    extends CancellableFSDataOutputStream(stream) {
    private var ended = false

    override def close(): Unit = if (!ended) {
      ended = true
      try {
        stream.close()
        publish()
      } catch {
        case error: Throwable =>
          discard()
          throw error
      }
    }

    override def cancel(): Unit = if (!ended) {
      ended = true
      try stream.close() catch { case _: IOException => }
      discard()
    }
  }
}
