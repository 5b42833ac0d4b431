package tailrace.spark

import java.io.{BufferedOutputStream, FileNotFoundException, IOException, InputStream}
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.hadoop.io.IOUtils
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

import tailrace.commit.{PackTarget, SealedPack}
import tailrace.errors.{CheckpointError, CorruptFile, UnreadableFile, WriteFailed}
import tailrace.files.{DiskErrors, FileNames, LocalCopies, PackShelf}
import tailrace.format.PackHeader
import tailrace.io.IoJob
import tailrace.ledger.PackFiles

/**
 * The packs of a checkpoint: `state/tailrace/` in its folder.
 *
 * A pack is written under its final name at once, without a temporary file: nothing refers to it
 * before it is complete, and writing it again writes the same bytes. After a crash the ledger deletes
 * a half-written pack before the batch that runs again is published.
 */
final class CheckpointPacks(
    stateRoot: String, conf: Configuration, copies: Option[LocalCopies], keepLocal: Long)
  extends PackTarget with PackShelf {
  private val location = CheckpointPacks.location(stateRoot)
  private lazy val manager = TailraceFileManager.forState(location, conf)
  private val headers = new ConcurrentHashMap[String, PackHeader]
  private var made = false

  override def path: String = location.toString

  override def nameOf(pack: String): String = s"$path/$pack"

  // ---- writing

  override def writeLocal(pack: SealedPack, io: IoJob): Unit = copies.foreach { local =>
    local.write(pack.name)(pack.writeTo(_, io))
    val oldest = pack.header.version - keepLocal
    local.keepOnly(name => FileNames.packVersion(name).forall(_ >= oldest))
  }

  override def upload(pack: SealedPack, io: IoJob): Unit = {
    val file = new Path(location, pack.name)
    try DiskErrors.asIOException {
      makeFolder()
      val stream = TailraceFileManager.createDirectly(manager, file)
      var complete = false
      try {
        val buffered = new BufferedOutputStream(stream, 64 << 10)
        pack.writeTo(buffered, io)
        buffered.flush()
        complete = true
        stream.close()
      } finally {
        // Closing would make a half-written file look finished where it appears as a whole.
        if (!complete) {
          stream match {
            case atomic: CancellableFSDataOutputStream => atomic.cancel()
            case direct => IOUtils.closeStream(direct)
          }
        }
      }
    } catch {
      case known: CheckpointError => throw known
      case error: IOException =>
        TailraceFileManager.refuseFolder(manager, file, conf)
        throw new WriteFailed(file.toString, error)
    }
  }

  private def makeFolder(): Unit = synchronized {
    if (!made) {
      if (!manager.exists(location)) manager.mkdirs(location)
      made = true
    }
  }

  // ---- reading

  override def folders(): Seq[String] =
    FoldersInTheWay.in(CheckpointPacks.statuses(manager, location))

  override def list(): Map[Long, Seq[PackShelf.Pack]] =
    CheckpointPacks.list(manager, location).groupMap(_._1) { case (_, name, length) =>
      new Listed(name, length)
    }

  private final class Listed(override val name: String, length: Long) extends PackShelf.Pack {
    private val file = new Path(location, name)
    private val local = copies.filter(_.length(name).contains(length))

    override def header: PackHeader = {
      val known = headers.get(name)
      if (known != null) {
        known
      } else {
        val read = localHeader.getOrElse(verified(reading(PackHeader.read(_, file.toString))))
        headers.put(name, read)
        read
      }
    }

    private def verified(found: PackHeader): PackHeader = {
      if (FileNames.pack(found) != name) {
        throw new CorruptFile(file.toString, s"Its index is that of ${FileNames.pack(found)}.")
      }
      if (length < found.fileLength) {
        throw new CorruptFile(file.toString,
          s"It has $length bytes of ${found.fileLength}: it was cut short.")
      }
      found
    }

    /** The name stands for the content: a copy whose index has the name's digest is the same. */
    private def localHeader: Option[PackHeader] = try {
      local.flatMap(_.open(name)).map { stream =>
        try PackHeader.read(stream, name) finally stream.close()
      }.filter(FileNames.pack(_) == name)
    } catch {
      case _: IOException => None
    }

    override def open(entry: PackHeader.Entry): InputStream = {
      val stream = manager.open(file)
      stream.seek(header.size + entry.offset)
      new Bounded(DiskErrors.reading(stream), entry.length)
    }

    override def openLocalCopy(entry: PackHeader.Entry): Option[InputStream] =
      local.flatMap(_.open(name)).map { stream =>
        stream.skipNBytes(header.size + entry.offset)
        new Bounded(stream, entry.length)
      }

    private def reading[T](body: InputStream => T): T = try {
      val stream = DiskErrors.reading(manager.open(file))
      try body(stream) finally stream.close()
    } catch {
      case known: CheckpointError => throw known
      case error: IOException => throw new UnreadableFile(file.toString, error)
    }
  }

  /** The next `length` bytes of a stream. */
  private final class Bounded(below: InputStream, length: Long) extends InputStream {
    private var left = length

    override def read(): Int = if (left <= 0) -1 else {
      val byte = below.read()
      if (byte >= 0) left -= 1
      byte
    }

    override def read(bytes: Array[Byte], offset: Int, count: Int): Int =
      if (left <= 0 && count > 0) -1 else {
        val read = below.read(bytes, offset, math.min(count.toLong, left).toInt)
        if (read > 0) left -= read
        read
      }

    override def close(): Unit = below.close()
  }
}

object CheckpointPacks {
  def location(stateRoot: String): Path = new Path(stateRoot, "tailrace")

  /** The packs of the checkpoint at `root`, for the driver. */
  def filesOf(root: String, conf: Configuration): DriverFiles = new DriverFiles(root, conf)

  final class DriverFiles(root: String, conf: Configuration) extends PackFiles {
    private val folder = location(new Path(root, "state").toString)
    private lazy val manager = TailraceFileManager.forState(folder, conf)

    def versions: Seq[Long] = CheckpointPacks.list(manager, folder).map(_._1).distinct

    override def deleteOthers(version: Long, written: Set[String]): Unit =
      delete((found, name) => found == version && !written(name))

    override def deleteUpTo(version: Long): Unit = delete((found, _) => found <= version)

    private def delete(unwanted: (Long, String) => Boolean): Unit =
      CheckpointPacks.list(manager, folder).foreach { case (version, name, _) =>
        if (unwanted(version, name)) {
          TailraceFileManager.deleteListed(manager, new Path(folder, name), conf)
        }
      }
  }

  /** Version, name and length of every pack. */
  private[spark] def list(
      manager: CheckpointFileManager, location: Path): Seq[(Long, String, Long)] =
    statuses(manager, location).filter(_.isFile).flatMap { status =>
      val name = status.getPath.getName
      FileNames.packVersion(name).map(version => (version, name, status.getLen))
    }

  private def statuses(manager: CheckpointFileManager, location: Path): Seq[FileStatus] = try {
    val found = DiskErrors.asIOException(manager.list(location).toSeq)
    FoldersInTheWay.in(found).foreach(name => FoldersInTheWay.warn(s"$location/$name"))
    found
  } catch {
    case _: FileNotFoundException => Nil
    case error: IOException => throw new UnreadableFile(location.toString, error)
  }
}
