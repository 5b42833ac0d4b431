package tailrace.bench

import java.net.URI
import java.util.EnumSet

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.Options.ChecksumOpt
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** A file system of the bench, with the two methods that [[BenchFileContext]] calls. */
abstract class BenchFileSystem extends FileSystem {
  override def primitiveCreate(
      path: Path, permission: FsPermission, flags: EnumSet[CreateFlag], bufferSize: Int,
      replication: Short, blockSize: Long, progress: Progressable,
      checksum: ChecksumOpt): FSDataOutputStream = {
    CreateFlag.validate(flags)
    create(path, permission, flags.contains(CreateFlag.OVERWRITE), bufferSize, replication,
      blockSize, progress)
  }

  override def rename(from: Path, to: Path, options: Options.Rename*): Unit
}

/**
 * Problem: Spark writes checkpoints through Hadoop's FileContext, which asks about the parent before
 * it creates a file, and about both names before a rename. Each question is a round trip.
 *
 * Answer: both operations go to the file system, which checks the names itself.
 */
abstract class BenchFileContext(system: BenchFileSystem, root: URI, conf: Configuration)
  extends DelegateToFileSystem(
    root, BenchFileContext.started(system, root, conf), conf, root.getScheme, false) {

  override def createInternal(
      path: Path, flags: EnumSet[CreateFlag], permission: FsPermission, bufferSize: Int,
      replication: Short, blockSize: Long, progress: Progressable, checksum: ChecksumOpt,
      createParent: Boolean): FSDataOutputStream =
    system.primitiveCreate(
      path, permission, flags, bufferSize, replication, blockSize, progress, checksum)

  override def renameInternal(from: Path, to: Path, overwrite: Boolean): Unit =
    system.rename(from, to, if (overwrite) Options.Rename.OVERWRITE else Options.Rename.NONE)
}

private object BenchFileContext {
  def started(system: BenchFileSystem, root: URI, conf: Configuration): FileSystem = {
    system.initialize(root, conf)
    system
  }
}
