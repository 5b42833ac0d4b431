package tailrace.spark

import java.io.{BufferedOutputStream, FileNotFoundException, IOException, InputStream, OutputStream}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import tailrace.errors.{CheckpointError, UnreadableFile, WriteFailed}
import tailrace.files.{DiskErrors, FileNames, LocalCopies, ReopenedFile, StateFolder}
import tailrace.format.{FileKind, PositionedFile}

/**
 * A store's folder on any file system that Hadoop and Spark reach. Snapshots are also copied to
 * this machine, if there is a place for copies.
 */
final class CheckpointFolder(location: Path, conf: Configuration, copies: Option[LocalCopies])
  extends StateFolder {
  private lazy val manager: CheckpointFileManager = TailraceFileManager.forState(location, conf)
  private var made = false

  override def path: String = location.toString

  override def list(): Seq[StateFolder.Entry] = listed.filter(_.isFile).map { status =>
    StateFolder.Entry(status.getPath.getName, status.getLen, status.getModificationTime)
  }

  override def folders(): Seq[String] = FoldersInTheWay.in(listed)

  private def listed: Seq[FileStatus] = try {
    val found = DiskErrors.asIOException(manager.list(location).toSeq)
    FoldersInTheWay.in(found).foreach(name => FoldersInTheWay.warn(nameOf(name)))
    found
  } catch {
    case _: FileNotFoundException => Nil
    case error: IOException => throw new UnreadableFile(path, error)
  }

  override def open(name: String): InputStream =
    DiskErrors.reading(manager.open(new Path(location, name)))

  override def openAt(name: String, length: Long): PositionedFile =
    new ReopenedFile(length, () => new ReopenedFile.Input {
      private val in = manager.open(new Path(location, name))

      override def read(offset: Long, bytes: Array[Byte]): Unit = {
        EngineRuntime.current.failpoints.pass("block.before")
        in.readFully(offset, bytes)
        EngineRuntime.current.failpoints.pass("block.after")
      }

      override def close(): Unit = in.close()
    })

  override def openLocalCopyAt(name: String): Option[PositionedFile] = copies.flatMap(_.openAt(name))

  override def openLocalCopy(name: String): Option[InputStream] = copies.flatMap(_.open(name))

  override def write(name: String)(body: OutputStream => Unit): Long = {
    val copied = copies.filter(_ => isSnapshot(name))
    copied match {
      case None => writeHere(name)(body)
      case Some(local) =>
        // First on this machine, then from there to the checkpoint.
        local.keepOnly(other => !isSnapshot(other))
        local.write(name)(body)
        local.open(name) match {
          case Some(stream) => try writeHere(name)(stream.transferTo(_)) finally stream.close()
          case None => writeHere(name)(body)
        }
    }
  }

  override def delete(name: String): Unit =
    TailraceFileManager.deleteListed(manager, new Path(location, name), conf)

  override def make(): Unit = try makeFolder() catch {
    case error: IOException => throw new WriteFailed(path, error)
  }

  private def makeFolder(): Unit = synchronized {
    if (!made) {
      if (!manager.exists(location)) manager.mkdirs(location)
      made = true
    }
  }

  private def isSnapshot(name: String): Boolean =
    FileNames.parse(name).exists(_.kind == FileKind.Snapshot)

  private def writeHere(name: String)(body: OutputStream => Unit): Long = {
    try DiskErrors.asIOException {
      makeFolder()
      val stream = TailraceFileManager.createAtomic(manager, new Path(location, name), conf)
      var complete = false
      try {
        val buffered = new BufferedOutputStream(stream, 64 << 10)
        body(buffered)
        buffered.flush()
        val bytes = stream.getPos
        complete = true
        stream.close()
        bytes
      } finally {
        if (!complete) stream.cancel()
      }
    } catch {
      case known: CheckpointError => throw known
      case error: IOException => throw new WriteFailed(nameOf(name), error)
    }
  }
}
