package org.apache.spark.sql.tailrace.testing

import java.io.{FilterOutputStream, IOException, OutputStream}
import java.net.URI
import java.util.regex.Pattern

import scala.collection.mutable

import org.apache.hadoop.fs._
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

/** The same as a file system of its own, `scripted:///path`: what is not local is written otherwise. */
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

  private def created(path: Path)(create: => FSDataOutputStream): FSDataOutputStream = {
    val stream = FileScript.act("create", path)(create)
    new FSDataOutputStream(new Scripted(stream, path, FileScript.roomIn(path)), null)
  }

  /** Takes so many bytes and then no more. */
  private final class Scripted(below: OutputStream, path: Path, room: Long)
    extends FilterOutputStream(below) {
    private var left = room
    private var open = true

    override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)

    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      val taken = math.min(length.toLong, left).toInt
      below.write(bytes, offset, taken)
      left -= taken
      if (taken < length) throw new IOException(s"scripted: the connection to $path was lost")
    }

    override def close(): Unit = if (open) {
      open = false
      FileScript.act("close", path)(below.close())
    }
  }
}

/**
 * What is to happen, to whom and how often:
 *  - `fail`: an IOException in place of the operation; `late`: one after it was done
 *  - `hold`: wait until the script is cleared; `delay`: wait so many milliseconds
 *  - `cut` (create only): the file takes so many bytes, then writing fails
 *
 * It also keeps a record of all that was done, in order, to which a test adds its own notes.
 */
object FileScript {
  private final class Line(val operation: String, val pattern: Pattern, val action: String,
      val number: Long, var times: Int)

  private val lines = mutable.ArrayBuffer.empty[Line]
  private val done = mutable.ArrayBuffer.empty[String]
  private var waiting = 0

  def add(operation: String, pattern: String, action: String, number: Long, times: Int): Unit =
    synchronized(lines += new Line(operation, Pattern.compile(pattern), action, number, times))

  /** Forgets script and record; whoever is held goes on. */
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
    val line = take(operation, path, _.action != "cut")
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

  private[testing] def roomIn(path: Path): Long =
    take("create", path, _.action == "cut").fold(Long.MaxValue)(_.number)

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
