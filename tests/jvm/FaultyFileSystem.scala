package org.apache.spark.sql.tailrace.testing

import java.io.{IOException, OutputStream}

import org.apache.hadoop.fs._
import org.apache.hadoop.util.Progressable

/**
 * The local file system, failing when it is told to: below the store, through Hadoop's interface,
 * as a full or forbidden disk would. Chosen with `fs.file.impl`.
 */
class FaultyFileSystem extends LocalFileSystem(new FaultyRawFileSystem)

class FaultyRawFileSystem extends RawLocalFileSystem {

  override def create(
      path: Path, overwrite: Boolean, bufferSize: Int, replication: Short, blockSize: Long,
      progress: Progressable): FSDataOutputStream = {
    if (FaultyFileSystem.fault == "forbidden") throw new IOException(s"$path (Permission denied)")
    val stream = super.create(path, overwrite, bufferSize, replication, blockSize, progress)
    if (FaultyFileSystem.fault == "full") new FSDataOutputStream(new FullDisk(stream), null)
    else stream
  }

  override def open(path: Path, bufferSize: Int): FSDataInputStream = {
    if (FaultyFileSystem.fault == "unreadable") throw new IOException("Input/output error")
    super.open(path, bufferSize)
  }

  /** Takes a few bytes, as a nearly full disk does, and then no more. */
  private class FullDisk(below: OutputStream) extends OutputStream {
    private var room = 16

    override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)

    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      below.write(bytes, offset, math.min(length, room))
      if (length > room) throw new IOException("No space left on device")
      room -= length
    }

    override def close(): Unit = below.close()
  }
}

object FaultyFileSystem {
  @volatile var fault: String = "none"
}
