package tailrace.bench

import java.io.{BufferedOutputStream, FileNotFoundException, FilterOutputStream, OutputStream}
import java.net.URI
import java.util.concurrent.TimeUnit

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/**
 * Problem: on one machine a checkpoint is on a local disk, where none of the costs exist for which
 * checkpoints are written asynchronously: each operation's round trip, and a network's bandwidth.
 *
 * Answer: the local disk, behind a [[RemoteLink]], as a Hadoop file system of the scheme `remote`.
 * Every metadata operation (create, open, close after writing, rename, delete, list, status,
 * mkdirs) waits for one round trip, and so does each read of a part (`readFully(position, …)`);
 * bytes pass at the line's bandwidth, shared by all streams.
 *
 * Modelled: the latency and the bandwidth of a file system such as HDFS or an object store's
 * connector with atomic rename, seen from one client. Not modelled: lost packets and retries,
 * slow start, a server's own load, replication, other clients on the same line, throttling,
 * eventual consistency, the CPU that encryption or a client library costs, and permissions.
 *
 * Settings: `fs.remote.rtt.nanos`, `fs.remote.bandwidth.bytes` (per second; 0 is no limit).
 *
 * Invariant: content and outcome of every operation are the raw local file system's.
 */
final class RemoteFileSystem extends BenchFileSystem {
  private val disk = new RawLocalFileSystem
  private var link: RemoteLink = _

  override def getScheme: String = RemoteFileSystem.Scheme

  override def getUri: URI = RemoteFileSystem.Root

  override def initialize(name: URI, conf: Configuration): Unit = {
    super.initialize(name, conf)
    setConf(conf)
    disk.setConf(conf)
    disk.initialize(URI.create("file:///"), conf)
    link = RemoteFileSystem.link(conf)
  }

  // ---- content

  override def open(path: Path, bufferSize: Int): FSDataInputStream = {
    link.roundTrip("open")
    val stream = disk.open(local(path), bufferSize)
    new FSDataInputStream(new BufferedFSInputStream(new Received(stream), 64 << 10))
  }

  override def create(
      path: Path, permission: FsPermission, overwrite: Boolean, bufferSize: Int,
      replication: Short, blockSize: Long, progress: Progressable): FSDataOutputStream = {
    link.roundTrip("create")
    sent(disk.create(local(path), overwrite, bufferSize, replication, blockSize, progress))
  }

  override def append(path: Path, bufferSize: Int, progress: Progressable): FSDataOutputStream = {
    link.roundTrip("append")
    sent(disk.append(local(path), bufferSize, progress))
  }

  // ---- names

  override def rename(from: Path, to: Path): Boolean = {
    link.roundTrip("rename")
    disk.rename(local(from), local(to))
  }

  /** The rename of FileContext: here the server checks, too, and refuses to replace a file. */
  override def rename(from: Path, to: Path, options: Options.Rename*): Unit = {
    link.roundTrip("rename")
    val (source, target) = (local(from), local(to))
    if (!disk.exists(source)) throw new FileNotFoundException(s"$from does not exist")
    if (disk.exists(target)) {
      if (!options.contains(Options.Rename.OVERWRITE)) {
        throw new FileAlreadyExistsException(s"$to exists already")
      }
      disk.delete(target, false)
    }
    if (!disk.rename(source, target)) throw new java.io.IOException(s"$from: no rename to $to")
  }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    link.roundTrip("delete")
    disk.delete(local(path), recursive)
  }

  override def listStatus(path: Path): Array[FileStatus] = {
    link.roundTrip("list")
    disk.listStatus(local(path)).map(remote)
  }

  override def getFileStatus(path: Path): FileStatus = {
    link.roundTrip("status")
    remote(disk.getFileStatus(local(path)))
  }

  override def mkdirs(path: Path, permission: FsPermission): Boolean = {
    link.roundTrip("mkdirs")
    disk.mkdirs(local(path))
  }

  override def setPermission(path: Path, permission: FsPermission): Unit = {}

  override def getWorkingDirectory: Path = remote(disk.getWorkingDirectory)

  override def setWorkingDirectory(path: Path): Unit = disk.setWorkingDirectory(local(path))

  // ---- inside

  private def local(path: Path): Path = new Path("file", null, makeQualified(path).toUri.getPath)

  private def remote(path: Path): Path =
    new Path(RemoteFileSystem.Scheme, null, path.toUri.getPath)

  private def remote(status: FileStatus): FileStatus = new FileStatus(
    status.getLen, status.isDirectory, 1, status.getBlockSize, status.getModificationTime,
    remote(status.getPath))

  private def sent(below: OutputStream): FSDataOutputStream =
    new FSDataOutputStream(new BufferedOutputStream(new Sent(below), 64 << 10), null)

  private final class Sent(below: OutputStream) extends FilterOutputStream(below) {
    private var open = true

    override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)

    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      link.sending.transfer(length)
      below.write(bytes, offset, length)
    }

    /** A file is there once the other side has said so. */
    override def close(): Unit = if (open) {
      open = false
      below.close()
      link.roundTrip("close")
    }
  }

  private final class Received(below: FSDataInputStream) extends FSInputStream {
    override def read(): Int = {
      val byte = below.read()
      if (byte >= 0) link.receiving.transfer(1)
      byte
    }

    override def read(bytes: Array[Byte], offset: Int, length: Int): Int = {
      val count = below.read(bytes, offset, length)
      if (count > 0) link.receiving.transfer(count)
      count
    }

    override def read(position: Long, bytes: Array[Byte], offset: Int, length: Int): Int = {
      link.roundTrip("read")
      super.read(position, bytes, offset, length)
    }

    override def seek(position: Long): Unit = below.seek(position)

    override def getPos: Long = below.getPos

    override def seekToNewSource(position: Long): Boolean = false

    override def close(): Unit = below.close()
  }
}

object RemoteFileSystem {
  val Scheme = "remote"
  val RoundTrip = "fs.remote.rtt.nanos"
  val Bandwidth = "fs.remote.bandwidth.bytes"

  private[bench] val Root = URI.create(s"$Scheme:///")
  private val links = new java.util.concurrent.ConcurrentHashMap[(Long, Long), RemoteLink]

  /** The one line of this process to the remote side, however many file systems use it. */
  def link(conf: Configuration): RemoteLink =
    link(conf.getLong(RoundTrip, TimeUnit.MILLISECONDS.toNanos(1)), conf.getLong(Bandwidth, 0L))

  def link(roundTripNanos: Long, bytesPerSecond: Long): RemoteLink =
    links.computeIfAbsent(
      (roundTripNanos, bytesPerSecond), _ => new RemoteLink(roundTripNanos, bytesPerSecond))
}

/** The same for Hadoop's FileContext, through which Spark writes checkpoints. */
final class RemoteFileContext(uri: URI, conf: Configuration)
  extends BenchFileContext(new RemoteFileSystem, RemoteFileSystem.Root, conf)
