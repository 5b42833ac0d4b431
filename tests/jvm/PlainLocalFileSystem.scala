/*
 * Problem: Hadoop's local file system starts a process for every file that it creates (chmod) and
 * two for every rename (readlink). A query on RocksDB with two stores starts about a hundred of them
 * a batch, and the tests wait for processes most of the time.
 * Answer: the same file system, which asks the JVM instead.
 * Invariant: the files on disk are the same afterwards, permissions and checksum files too.
 */
package org.apache.spark.sql.tailrace.testing

import java.net.URI
import java.nio.file.{Files, Paths}
import java.nio.file.attribute.PosixFilePermissions

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{ChecksumFs, DelegateToFileSystem, FileStatus, FsConstants, FsServerDefaults}
import org.apache.hadoop.fs.{LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.local.LocalConfigKeys
import org.apache.hadoop.fs.permission.FsPermission

class PlainRawLocalFileSystem extends RawLocalFileSystem {
  override def setPermission(path: Path, permission: FsPermission): Unit = {
    val letters = permission.getUserAction.SYMBOL + permission.getGroupAction.SYMBOL +
      permission.getOtherAction.SYMBOL
    Files.setPosixFilePermissions(
      Paths.get(pathToFile(path).getPath), PosixFilePermissions.fromString(letters))
  }

  override def getFileLinkStatus(path: Path): FileStatus =
    if (Files.isSymbolicLink(Paths.get(pathToFile(path).getPath))) super.getFileLinkStatus(path)
    else getFileStatus(path)
}

/** For `fs.file.impl`. */
class PlainLocalFileSystem extends LocalFileSystem(new PlainRawLocalFileSystem)

/** For `fs.AbstractFileSystem.file.impl`. */
class PlainLocalFs(uri: URI, conf: Configuration) extends ChecksumFs(new PlainRawLocalFs(conf))

class PlainRawLocalFs(conf: Configuration) extends DelegateToFileSystem(
    FsConstants.LOCAL_FS_URI, new PlainRawLocalFileSystem, conf,
    FsConstants.LOCAL_FS_URI.getScheme, false) {
  override def getUriDefaultPort: Int = -1

  override def getServerDefaults(path: Path): FsServerDefaults = LocalConfigKeys.getServerDefaults

  override def isValidName(name: String): Boolean = true
}
