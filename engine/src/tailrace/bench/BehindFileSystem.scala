package tailrace.bench

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, IOException}
import java.net.URI
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/**
 * Problem: the baseline "asynchronous checkpoint only" keeps all of RocksDB's work on a batch's
 * path and moves nothing but the upload off it. Spark has no such mode: its asynchronous progress
 * tracking refuses stateful queries, and the mode that others sell is not open source.
 *
 * Answer: a file system of the scheme `behind` that writes in the background ([[WriteBehind]]).
 * Files of the state and the commit log are complete for the query when they are closed, and reach
 * the file system below (`fs.behind.below`: remote or file) later. The offset log goes through.
 *
 * Invariant: an entry of the commit log reaches the file system below after every file that was
 * written before it, and a query is at most one batch ahead of the files below. A write that fails
 * in the background fails the next operation. For measuring only: it keeps files in memory.
 */
final class BehindFileSystem extends BenchFileSystem {
  private var below: FileSystem = _
  private var writer: WriteBehind = _

  override def getScheme: String = BehindFileSystem.Scheme

  override def getUri: URI = BehindFileSystem.Root

  override def initialize(name: URI, conf: Configuration): Unit = {
    super.initialize(name, conf)
    setConf(conf)
    below = conf.get("fs.behind.below", "file") match {
      case RemoteFileSystem.Scheme => new RemoteFileSystem
      case _ => new RawLocalFileSystem
    }
    below.setConf(conf)
    below.initialize(URI.create(below.getScheme + ":///"), conf)
    writer = BehindFileSystem.writer(below)
  }

  override def open(path: Path, bufferSize: Int): FSDataInputStream =
    writer.pending(key(path)) match {
      case Some(bytes) => new FSDataInputStream(new PendingInput(bytes))
      case None => below.open(under(path), bufferSize)
    }

  override def create(
      path: Path, permission: FsPermission, overwrite: Boolean, bufferSize: Int,
      replication: Short, blockSize: Long, progress: Progressable): FSDataOutputStream = {
    writer.throwFailure()
    val buffer = new ByteArrayOutputStream {
      private var open = true
      override def close(): Unit = if (open) {
        open = false
        writer.written(key(path), toByteArray)
      }
    }
    new FSDataOutputStream(buffer, null)
  }

  override def append(path: Path, bufferSize: Int, progress: Progressable): FSDataOutputStream =
    throw new UnsupportedOperationException("append")

  override def rename(from: Path, to: Path): Boolean = rename(from, to, overwrite = false)

  override def rename(from: Path, to: Path, options: Options.Rename*): Unit =
    if (!rename(from, to, options.contains(Options.Rename.OVERWRITE))) {
      throw new IOException(s"$from could not be renamed to $to")
    }

  private def rename(from: Path, to: Path, overwrite: Boolean): Boolean =
    writer.renamed(key(from), key(to), overwrite) || {
      writer.drain()
      below.rename(under(from), under(to))
    }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    writer.forget(key(path))
    below.delete(under(path), recursive)
  }

  override def listStatus(path: Path): Array[FileStatus] = {
    writer.drain()
    below.listStatus(under(path)).map(s => status(s.getPath.toUri.getPath, s.getLen, s.isDirectory,
      s.getModificationTime))
  }

  override def getFileStatus(path: Path): FileStatus = writer.pending(key(path)) match {
    case Some(bytes) => status(key(path), bytes.length, isFolder = false, 0L)
    case None =>
      val found = below.getFileStatus(under(path))
      status(key(path), found.getLen, found.isDirectory, found.getModificationTime)
  }

  override def mkdirs(path: Path, permission: FsPermission): Boolean = below.mkdirs(under(path))

  override def setPermission(path: Path, permission: FsPermission): Unit = {}

  override def getWorkingDirectory: Path = new Path(BehindFileSystem.Scheme, null, "/")

  override def setWorkingDirectory(path: Path): Unit = {}

  private def key(path: Path): String = makeQualified(path).toUri.getPath

  private def under(path: Path): Path = new Path(below.getScheme, null, key(path))

  private def status(path: String, length: Long, isFolder: Boolean, time: Long) = new FileStatus(
    length, isFolder, 1, 1L << 20, time, new Path(BehindFileSystem.Scheme, null, path))

  private final class PendingInput(bytes: Array[Byte]) extends FSInputStream {
    private val stream = new ByteArrayInputStream(bytes)
    override def read(): Int = stream.read()
    override def read(into: Array[Byte], offset: Int, length: Int): Int =
      stream.read(into, offset, length)
    override def seek(position: Long): Unit = { stream.reset(); stream.skip(position) }
    override def getPos: Long = bytes.length - stream.available()
    override def seekToNewSource(position: Long): Boolean = false
  }
}

object BehindFileSystem {
  val Scheme = "behind"
  private[bench] val Root = URI.create(s"$Scheme:///")
  private val writers = new ConcurrentHashMap[String, WriteBehind]

  /** Spark opens the same file system more than once: each must see the pending files of all. */
  private def writer(below: FileSystem): WriteBehind =
    writers.computeIfAbsent(below.getScheme, _ => new WriteBehind(below))
}

/** The same for Hadoop's FileContext, through which Spark writes checkpoints. */
final class BehindFileContext(uri: URI, conf: Configuration)
  extends BenchFileContext(new BehindFileSystem, BehindFileSystem.Root, conf)
