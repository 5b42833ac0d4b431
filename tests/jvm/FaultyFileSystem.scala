package org.apache.spark.sql.tailrace.testing

import java.io.{IOException, OutputStream}

import org.apache.hadoop.fs._
import org.apache.hadoop.util.Progressable

/**
 * The local file system, failing when a test says so: below the store, through Hadoop's interface,
 * as a full or forbidden disk would. Chosen with `fs.file.impl`.
 */
class FaultyFileSystem extends LocalFileSystem(new FaultyRawFileSystem)

class FaultyRawFileSystem extends RawLocalFileSystem {

  override def create(
      path: Path, overwrite: Boolean, bufferSize: Int, replication: Short, blockSize: Long,
      progress: Progressable): FSDataOutputStream = {
    if (FaultyFileSystem.fault == "forbidden") throw new IOException(s"$path (Permission denied)")
    val stream = super.create(path, overwrite, bufferSize, replication, blockSize, progress)
    FaultyFileSystem.fault match {
      case "full" => new FSDataOutputStream(
        new FullDisk(stream, new IOException("No space left on device")), null)
      case "full, as Hadoop says it" =>
        new FSDataOutputStream(new FullDisk(stream, HadoopErrors.fullDisk), null)
      case _ => stream
    }
  }

  override def open(path: Path, bufferSize: Int): FSDataInputStream = {
    if (FaultyFileSystem.fault == "unreadable") throw new IOException("Input/output error")
    if (FaultyFileSystem.fault == "broken") new FSDataInputStream(new BrokenDisk)
    else super.open(path, bufferSize)
  }

  /** Opens, and cannot be read. */
  private class BrokenDisk extends FSInputStream {
    override def read(): Int = throw HadoopErrors.brokenDisk
    override def seek(position: Long): Unit = {}
    override def getPos: Long = 0L
    override def seekToNewSource(position: Long): Boolean = false
  }

  /** Takes a few bytes, as a nearly full disk does, and then no more. */
  private class FullDisk(below: OutputStream, error: Throwable) extends OutputStream {
    private var room = 16

    override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)

    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      below.write(bytes, offset, math.min(length, room))
      if (length > room) throw error
      room -= length
    }

    override def close(): Unit = below.close()
  }
}

/** Errors of the disk, as Hadoop's local file system throws them: an Error, not an Exception. */
object HadoopErrors {
  def fullDisk: FSError = made("No space left on device")

  def brokenDisk: FSError = made("Input/output error")

  /** Its constructor is Hadoop's own. */
  private def made(text: String): FSError = {
    val constructor = classOf[FSError].getDeclaredConstructor(classOf[Throwable])
    constructor.setAccessible(true)
    constructor.newInstance(new IOException(text))
  }
}

object FaultyFileSystem {
  @volatile var fault: String = "none"
}
