package tailrace.files

import java.io.{BufferedOutputStream, EOFException, FileNotFoundException, InputStream}
import java.io.{IOException, OutputStream}
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.unsafe.Platform
import org.slf4j.LoggerFactory

import tailrace.format.PositionedFile

/**
 * Copies of a checkpoint folder's files on this machine, from which a restart here loads without
 * asking the checkpoint file system for more than names. Losing a copy costs time, nothing else: a
 * copy that cannot be written is skipped with a warning, and readers verify every copy.
 *
 * Invariant: every copy that is read was written by this user. A folder that another user could write
 * to is as good as none: nothing in it is read, replaced or deleted.
 */
final class LocalCopies(root: LocalRoot, folder: String) {
  import LocalCopies._

  private val name = {
    val bytes = folder.getBytes("UTF-8")
    val digest = XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, 0L)
    f"$digest%016x"
  }
  private var warned = false

  def open(file: String): Option[InputStream] =
    found(Option.empty[InputStream])(_.open(file))

  /** The same for reads at any place. */
  def openAt(file: String): Option[PositionedFile] =
    length(file).map(new ReopenedFile(_, () => new Copy(found(Option.empty[FileChannel])(_.openAt(file))
      .getOrElse(throw new FileNotFoundException(file)))))

  private final class Copy(channel: FileChannel) extends ReopenedFile.Input {
    override def read(offset: Long, bytes: Array[Byte]): Unit = {
      val target = ByteBuffer.wrap(bytes)
      while (target.hasRemaining) {
        if (channel.read(target, offset + target.position()) < 0) throw new EOFException
      }
    }

    override def close(): Unit = channel.close()
  }

  def length(file: String): Option[Long] = found(Option.empty[Long])(_.length(file))

  /** Writes a copy, whole or not at all. */
  def write(file: String)(body: OutputStream => Unit): Unit = try {
    val directory = PrivateFolder.make(root.path, name)
    val temporary = s".$file.${UUID.randomUUID}.tmp"
    try {
      val stream = new BufferedOutputStream(directory.create(temporary), 64 << 10)
      try body(stream) finally stream.close()
      directory.rename(temporary, file)
    } finally {
      directory.delete(temporary)
    }
  } catch {
    case error: IOException => log.warn(s"There is no local copy of $file: $error")
  }

  /** Deletes the copies that are not wanted, and temporary files of interrupted writes. */
  def keepOnly(wanted: String => Boolean): Unit = found(()) { directory =>
    directory.names.filter { file =>
      if (FileNames.isAbandoned(file)) {
        directory.modifiedMillis(file).exists(_ < System.currentTimeMillis() - AbandonedAfterMillis)
      } else {
        FileNames.isOwn(file) && !wanted(file)
      }
    }.foreach(directory.delete)
  }

  /** The result of `use` on our folder; `otherwise` if there is none, or one that is not ours alone. */
  private def found[T](otherwise: T)(use: PrivateFolder => T): T = try {
    PrivateFolder.find(root.path, name).fold(otherwise)(use)
  } catch {
    case error: IOException =>
      val first = synchronized {
        val first = !warned
        warned = true
        first
      }
      if (first) log.warn(s"There are no local copies of $folder: $error")
      otherwise
  }
}

object LocalCopies {
  private val log = LoggerFactory.getLogger(classOf[LocalCopies])
  private val AbandonedAfterMillis = 3600L * 1000
}
