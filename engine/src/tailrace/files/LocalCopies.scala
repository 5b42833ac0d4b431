package tailrace.files

import java.io.{BufferedOutputStream, File, FileInputStream, FileOutputStream, InputStream}
import java.io.{IOException, OutputStream}
import java.nio.file.{Files, StandardCopyOption}
import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.unsafe.Platform
import org.slf4j.LoggerFactory

/**
 * Copies of a checkpoint folder's files on this machine, from which a restart here loads without
 * asking the checkpoint file system for more than names. Losing a copy costs time, nothing else: a
 * copy that cannot be written is given up with a warning, and readers verify what they find.
 */
final class LocalCopies(base: File, folder: String) {
  private val directory = {
    val name = folder.getBytes("UTF-8")
    val digest = XXH64.hashUnsafeBytes(name, Platform.BYTE_ARRAY_OFFSET, name.length, 0L)
    new File(base, f"$digest%016x")
  }

  def open(name: String): Option[InputStream] = {
    val file = new File(directory, name)
    if (file.isFile) Some(new FileInputStream(file)) else None
  }

  def length(name: String): Option[Long] =
    Some(new File(directory, name)).filter(_.isFile).map(_.length)

  /** Writes a copy, whole or not at all. */
  def write(name: String)(body: OutputStream => Unit): Unit = {
    val temporary = new File(directory, s".$name.${UUID.randomUUID}.tmp")
    try {
      directory.mkdirs()
      val stream = new BufferedOutputStream(new FileOutputStream(temporary), 64 << 10)
      try body(stream) finally stream.close()
      Files.move(temporary.toPath, new File(directory, name).toPath,
        StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING)
    } catch {
      case error: IOException =>
        LocalCopies.log.warn(s"There is no local copy of $name: $error")
    } finally {
      temporary.delete()
    }
  }

  def keepOnly(wanted: String => Boolean): Unit =
    Option(directory.listFiles()).toSeq.flatten.filterNot(file => wanted(file.getName))
      .foreach(_.delete())
}

object LocalCopies {
  private val log = LoggerFactory.getLogger(classOf[LocalCopies])
}
