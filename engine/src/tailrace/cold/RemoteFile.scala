package tailrace.cold

import java.io.{EOFException, FileNotFoundException, IOException}

import scala.util.Using

import org.apache.hadoop.fs.{ChecksumException, FSDataInputStream, Path}
import org.apache.hadoop.fs.Options.OpenFileOptions
import org.apache.hadoop.util.functional.FutureIO

import tailrace.errors.{ColdFileDamaged, ColdFileUnreadable, SpillPlace}
import tailrace.files.{DiskErrors, Retries}

/**
 * Problem: an object store, or HDFS, shows a file when it is closed, not before; and a write or a
 * read may fail that would succeed a second later.
 *
 * Answer: the file is in memory while it is written, and is read there. When it is finished it is
 * written whole, and tried again whole; from then on each read asks for a part of it.
 *
 * Invariant: bytes that were written can be read at any time, from memory or from the file system. A
 * file that was given up before it was finished has never been on the file system.
 *
 * @param begun called before the file is on the file system
 */
private[cold] final class RemoteFile(
    home: RemoteHome, path: Path, begun: () => Unit, place: SpillPlace, memory: WriteMemory,
    streams: OpenStreams, counts: ColdFiles, retries: Retries)
  extends SegmentFile {

  // Guarded by this.
  private var held = memory.opened() // null: it is on the file system, or was given up
  private var length = 0
  private var isThere = false // perhaps only a part of it
  @volatile private var isGivenUp = false

  override def name: String = path.toString

  // ---- writing

  override def write(bytes: Array[Byte], start: Int, size: Int): Unit = synchronized {
    if (length + size > held.length) {
      val larger = math.max(held.length * 2, length + size)
      memory.grew(larger - held.length)
      held = java.util.Arrays.copyOf(held, larger)
    }
    System.arraycopy(bytes, start, held, length, size)
    length += size
  }

  /** Does nothing: bytes in memory can be read. */
  override def flush(): Unit = {}

  override def isTooLarge: Boolean = synchronized(held != null && memory.isTooLarge(held.length))

  override def finish(): Unit = {
    val (bytes, size) = synchronized((held, length))
    if (bytes != null && size > 0) {
      synchronized { isThere = true }
      begun()
      counts.count("write")
      retries(s"Writing $path")(store(bytes, size))
    }
    release()
  }

  private def store(bytes: Array[Byte], size: Int): Unit =
    Using.resource(home.system.create(path, true))(_.write(bytes, 0, size))

  private def release(): Unit = synchronized {
    if (held != null) memory.closed(held.length)
    held = null
  }

  // ---- reading

  override def read(offset: Long, bytes: Array[Byte]): Unit =
    if (!readHeld(offset, bytes)) DiskErrors.asIOException(readStored(offset, bytes))

  private def readHeld(offset: Long, bytes: Array[Byte]): Boolean = synchronized {
    if (held != null) {
      if (offset + bytes.length > length) throw new EOFException(name)
      System.arraycopy(held, offset.toInt, bytes, 0, bytes.length)
    }
    held != null
  }

  private def readStored(offset: Long, bytes: Array[Byte]): Unit = {
    if (isGivenUp) throw new FileNotFoundException(name)
    val kept = streams.take(this)
    val stream = if (kept != null) kept else opened()
    try stream.readFully(offset, bytes) catch {
      case error: Throwable =>
        OpenStreams.close(stream)
        throw error
    }
    streams.keep(this, stream)
    if (isGivenUp) streams.forget(this)
  }

  /** Told the length and how it is read, some file systems save a question. */
  private def opened(): FSDataInputStream = FutureIO.awaitFuture(
    home.system.openFile(path)
      .opt(OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY,
        OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_RANDOM)
      .optLong(OpenFileOptions.FS_OPTION_OPENFILE_LENGTH, synchronized(length.toLong))
      .build())

  override def readPatiently(offset: Long, bytes: Array[Byte]): Unit = {
    var lasting: IOException = null // to try again would not help
    try retries(s"Reading $path") {
      try read(offset, bytes) catch {
        case error: ChecksumException => lasting = error
        case error: FileNotFoundException => lasting = error
      }
    } catch {
      case error: IOException => throw new ColdFileUnreadable(name, place, error)
    }
    lasting match {
      case null =>
      case _: ChecksumException => throw new ColdFileDamaged(name, offset, place)
      case error => throw new ColdFileUnreadable(name, place, error)
    }
  }

  // ---- the end

  /** It is not needed any more. Returns whether it was on the file system. */
  def giveUp(): Boolean = {
    val wasThere = synchronized {
      val first = !isGivenUp
      isGivenUp = true
      first && isThere
    }
    release()
    streams.forget(this)
    wasThere
  }

  override def delete(): Unit = if (giveUp()) {
    counts.count("delete")
    home.deleteFile(path)
  }
}
