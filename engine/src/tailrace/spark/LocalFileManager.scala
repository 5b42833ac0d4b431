package tailrace.spark

import java.io.{FileNotFoundException, IOException, OutputStream}
import java.nio.file.{FileAlreadyExistsException => NioFileExists, Files, Paths}
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/**
 * Problem: on a local disk, Hadoop's checksummed file system starts a process (chmod) for every
 * file it creates, and keeps a second file with checksums beside it. Both cost more than a small
 * file's write.
 *
 * Answer: the raw local file system below it, through the same Hadoop interface. Our files carry
 * their own checksums; Spark's logs were written without any to begin with.
 *
 * Invariant: as for every file manager, a file is there as a whole or not at all. Without
 * overwriting, of two writers exactly one succeeds (a hard link is made in one step).
 */
final class LocalFileManager(raw: RawLocalFileSystem, folder: Path) extends CheckpointFileManager {

  override def createAtomic(path: Path, overwrite: Boolean): CancellableFSDataOutputStream = {
    val temporary = new Path(path.getParent, s".${path.getName}.${UUID.randomUUID}.tmp")
    val stream = raw.create(temporary, true)
    new LocalFileManager.AtomicStream(stream, () => publish(temporary, path, overwrite),
      () => raw.delete(temporary, false))
  }

  private[spark] def createDirectly(path: Path): FSDataOutputStream = raw.create(path, true)

  override def open(path: Path): FSDataInputStream = raw.open(path)

  override def list(path: Path, filter: PathFilter): Array[FileStatus] =
    raw.listStatus(path, filter)

  override def mkdirs(path: Path): Unit =
    Files.createDirectories(Paths.get(raw.pathToFile(path).getPath))

  override def exists(path: Path): Boolean = raw.pathToFile(path).exists()

  override def delete(path: Path): Unit =
    try raw.delete(path, true) catch { case _: FileNotFoundException => }

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
      try {
        Files.createLink(
          raw.pathToFile(path).toPath, raw.pathToFile(temporary).toPath)
        raw.delete(temporary, false)
      } catch {
        case _: NioFileExists => refuse(temporary, path)
        case _: UnsupportedOperationException | _: IOException =>
          // A disk without hard links.
          if (exists(path)) refuse(temporary, path)
          rename(temporary, path)
      }
    }
  }

  private def rename(temporary: Path, path: Path): Unit =
    if (!raw.rename(temporary, path)) {
      throw new IOException(s"$temporary could not be renamed to $path")
    }

  private def refuse(temporary: Path, path: Path): Unit = {
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
      try stream.close() catch { case error: Throwable => discard(); throw error }
      publish()
    }

    override def cancel(): Unit = if (!ended) {
      ended = true
      try stream.close() catch { case _: IOException => }
      discard()
    }
  }
}
