package org.apache.spark.sql.tailrace.testing

import java.io.{FilterOutputStream, IOException, OutputStream}
import java.net.URI
import java.util.concurrent.CompletableFuture
import java.util.regex.Pattern

import scala.collection.mutable

import org.apache.hadoop.fs._
import org.apache.hadoop.fs.impl.OpenFileParameters
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/**
 * Problem: a checkpoint file system that is slow, refuses, tears writes or lies about them must be so
 * at a chosen operation on a chosen file, not by chance.
 *
 * Answer: the local disk, which asks [[FileScript]] before and after every operation. Chosen with
 * `fs.file.impl`, in place of the local file system.
 */
class ScriptedFileSystem extends LocalFileSystem(new ScriptedRawFileSystem)

/** The same as a file system of its own, `scripted:///path`: remote files are written otherwise. */
class ScriptedRemoteFileSystem extends ScriptedRawFileSystem {
  override def getScheme: String = "scripted"

  override def getUri: URI = URI.create("scripted:///")
}

class ScriptedRawFileSystem extends RawLocalFileSystem {

  override def create(
      path: Path, overwrite: Boolean, bufferSize: Int, replication: Short, blockSize: Long,
      progress: Progressable): FSDataOutputStream = created(path) {
    super.create(path, overwrite, bufferSize, replication, blockSize, progress)
  }

  override def create(
      path: Path, permission: FsPermission, overwrite: Boolean, bufferSize: Int,
      replication: Short, blockSize: Long, progress: Progressable): FSDataOutputStream =
    created(path) {
      super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress)
    }

  override def rename(from: Path, to: Path): Boolean =
    FileScript.act("rename", to)(super.rename(from, to))

  /** Only of spilled state: checkpoints are tidied up at times that no test knows. */
  override def delete(path: Path, recursive: Boolean): Boolean =
    if (!path.toString.contains("/tailrace-cold-")) super.delete(path, recursive)
    else FileScript.act("delete", path)(super.delete(path, recursive))

  /** Files of spilled state are opened so, and read in parts. */
  override protected def openFileWithOptions(
      path: Path, parameters: OpenFileParameters): CompletableFuture[FSDataInputStream] = {
    val stream = FileScript.act("open", path)(open(path, 4096))
    CompletableFuture.completedFuture(new FSDataInputStream(new Parts(stream, path)))
  }

  private final class Parts(below: FSDataInputStream, path: Path) extends FSInputStream {
    override def read(position: Long, bytes: Array[Byte], offset: Int, length: Int): Int =
      FileScript.act("read", path)(below.read(position, bytes, offset, length))
    override def read(): Int = below.read()
    override def seek(position: Long): Unit = below.seek(position)
    override def getPos: Long = below.getPos
    override def seekToNewSource(position: Long): Boolean = false
    override def close(): Unit = below.close()
  }

  private def created(path: Path)(create: => FSDataOutputStream): FSDataOutputStream = {
    val stream = FileScript.act("create", path)(create)
    val (room, error) = FileScript.roomIn(path)
    new FSDataOutputStream(new Scripted(stream, path, room, error), null)
  }

  /** Takes so many bytes and then no more. */
  private final class Scripted(
      below: OutputStream, path: Path, room: Long, error: () => Throwable)
    extends FilterOutputStream(below) {
    private var left = room
    private var open = true

    override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)

    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      val taken = math.min(length.toLong, left).toInt
      below.write(bytes, offset, taken)
      left -= taken
      if (taken < length) throw error()
    }

    override def close(): Unit = if (open) {
      open = false
      FileScript.act("close", path)(below.close())
    }
  }
}

/**
 * The faults, the operations that they hit, and how often:
 *  - `fail`: an IOException in place of the operation; `late`: one after it was done
 *  - `hold`: wait until the script is cleared; `delay`: wait so many milliseconds
 *  - `cut` (create only): the file takes so many bytes, then writing fails; `full`: as on a full
 *    disk, with Hadoop's error for it
 *
 * Operations: create, close (after writing), rename; of spilled state also delete, open and read.
 *
 * It also keeps a record of all that was done, in order, to which a test adds its own notes.
 */
object FileScript {
  private final class Line(val operation: String, val pattern: Pattern, val action: String,
      val number: Long, var times: Int) {
    def limitsRoom: Boolean = action == "cut" || action == "full"
  }

  private val lines = mutable.ArrayBuffer.empty[Line]
  private val done = mutable.ArrayBuffer.empty[String]
  private var waiting = 0

  def add(operation: String, pattern: String, action: String, number: Long, times: Int): Unit =
    synchronized(lines += new Line(operation, Pattern.compile(pattern), action, number, times))

  /** Forgets script and record; calls that are held go on. */
  def clear(): Unit = synchronized {
    lines.clear()
    done.clear()
    notifyAll()
  }

  /** How many operations are being held. */
  def held: Int = synchronized(waiting)

  def note(text: String): Unit = synchronized(done += text)

  def record: Array[String] = synchronized(done.toArray)

  private[testing] def act[T](operation: String, path: Path)(body: => T): T = {
    val line = take(operation, path, !_.limitsRoom)
    line.foreach { it =>
      it.action match {
        case "fail" => throw failure(operation, path)
        case "delay" => Thread.sleep(it.number)
        case "hold" => hold(it)
        case _ =>
      }
    }
    val result = body
    note(s"$operation ${path.toUri.getPath}")
    if (line.exists(_.action == "late")) throw failure(operation, path)
    result
  }

  /** How many bytes a new file takes, and the error that comes then. */
  private[testing] def roomIn(path: Path): (Long, () => Throwable) =
    take("create", path, _.limitsRoom) match {
      case Some(line) if line.action == "full" => (line.number, () => {
        note(s"failed write ${path.toUri.getPath}")
        HadoopErrors.fullDisk
      })
      case Some(line) =>
        (line.number, () => new IOException(s"scripted: the connection to $path was lost"))
      case None => (Long.MaxValue, () => new IllegalStateException("a file without end is full"))
    }

  private def failure(operation: String, path: Path): IOException = {
    note(s"failed $operation ${path.toUri.getPath}")
    new IOException(s"scripted: no $operation of $path")
  }

  private def take(operation: String, path: Path, wanted: Line => Boolean): Option[Line] =
    synchronized {
      lines.find { it =>
        it.operation == operation && it.times > 0 && wanted(it) &&
          it.pattern.matcher(path.toUri.getPath).find()
      }.map { it =>
        it.times -= 1
        it
      }
    }

  private def hold(line: Line): Unit = synchronized {
    waiting += 1
    try while (lines.contains(line)) wait() finally waiting -= 1
  }
}
