package tailrace.files

import java.io.{IOException, InputStream, OutputStream}
import java.nio.channels.{Channels, FileChannel}
import java.nio.file._
import java.nio.file.LinkOption.NOFOLLOW_LINKS
import java.nio.file.StandardOpenOption.{CREATE_NEW, READ, WRITE}
import java.nio.file.attribute.{BasicFileAttributes, FileAttribute, PosixFilePermissions}
import java.nio.file.attribute.PosixFilePermission

import scala.jdk.CollectionConverters._

import com.sun.security.auth.module.UnixSystem

import tailrace.errors.UnusableLocalFolder

/**
 * Problem: the temporary folder belongs to all users of a machine. Another user can be first to
 * make a folder of the name that we would take, and fill it with files for us to believe, or with
 * links to files for us to delete.
 *
 * Answer: a folder that only the user of this process can write to (mode 0700, its files 0600). It
 * is looked at before every use, and refused with an error if it is a link, another user's, or
 * writable by others. The folder above it may be shared: while that is sticky, or other users
 * cannot write to it, the verified folder cannot be exchanged before it is used.
 *
 * Invariants: no link is followed. A file is read only if it is a plain file of this user. Files
 * are deleted by their names, one by one, folders only when they are empty.
 *
 * A file system without owners and modes (Windows) is only searched for links.
 */
final class PrivateFolder private (val path: Path) {
  import PrivateFolder._

  def exists: Boolean = Files.exists(path, NOFOLLOW_LINKS)

  /** A folder in this one, made if it is missing. */
  def folder(name: String): PrivateFolder = make(verified, name)

  /** A folder in this one that is there. */
  def find(name: String): Option[PrivateFolder] = PrivateFolder.find(verified, name)

  /** A new, empty folder in this one; its name is the prefix and a number. */
  def newFolder(prefix: String): PrivateFolder = makeNew(verified, prefix)

  /** The names of all that is in the folder. */
  def names: Seq[String] = list(verified)

  /** None: there is no such file, or not a plain one of this user's. */
  def open(name: String): Option[InputStream] =
    ownFile(name).map(_ => Files.newInputStream(path.resolve(name), READ, NOFOLLOW_LINKS))

  /** The same for reads at any place. */
  def openAt(name: String): Option[FileChannel] =
    ownFile(name).map(_ => FileChannel.open(path.resolve(name), READ, NOFOLLOW_LINKS))

  def length(name: String): Option[Long] = ownFile(name).map(_.size)

  def modifiedMillis(name: String): Option[Long] = ownFile(name).map(_.modifiedMillis)

  /** A channel to a file that is there, for a lock on it. */
  def openForLock(name: String): Option[FileChannel] =
    ownFile(name).map(_ => FileChannel.open(path.resolve(name), WRITE, NOFOLLOW_LINKS))

  /** A new file; it is an error if the name is taken. */
  def create(name: String): OutputStream = Channels.newOutputStream(createChannel(name))

  def createChannel(name: String): FileChannel = {
    val file = verified.resolve(name)
    FileChannel.open(file, java.util.Set.of(CREATE_NEW, WRITE), only("rw-------"): _*)
  }

  /** In one step; a file or a link of the new name is replaced. */
  def rename(from: String, to: String): Unit =
    Files.move(verified.resolve(from), path.resolve(to), StandardCopyOption.ATOMIC_MOVE,
      StandardCopyOption.REPLACE_EXISTING)

  /** Deletes a plain file of this user's; whether there is nothing of that name any more. */
  def delete(name: String): Boolean = {
    ownFile(name).foreach(_ => Files.deleteIfExists(path.resolve(name)))
    !Files.exists(path.resolve(name), NOFOLLOW_LINKS)
  }

  /** Deletes the folder itself, if nothing is in it. */
  def deleteIfEmpty(): Boolean = try Files.deleteIfExists(verified) catch {
    case _: DirectoryNotEmptyException => false
  }

  private def ownFile(name: String): Option[Look] =
    look(verified.resolve(name)).filter(found => found.isFile && found.isOwn && !found.othersWrite)

  private def verified: Path = {
    verify(path, look(path).getOrElse(throw new NoSuchFileException(path.toString)))
    path
  }

  override def toString: String = path.toString
}

object PrivateFolder {
  private val Sticky = 0x200

  /** The user that this process runs as; none on systems without such numbers. */
  private lazy val user: Option[Int] =
    if (FileSystems.getDefault.supportedFileAttributeViews.contains("unix")) {
      Some(new UnixSystem().getUid.toInt)
    } else {
      None
    }

  /** The folder of this name below `parent`, made if it is missing. */
  def make(parent: Path, name: String): PrivateFolder = {
    val path = parent.resolve(name)
    try {
      Files.createDirectory(path, only("rwx------"): _*)
    } catch {
      case _: FileAlreadyExistsException =>
      case error: IOException => throw cannotBeMade(path, error)
    }
    find(parent, name).getOrElse(throw cannotBeMade(path, new NoSuchFileException(path.toString)))
  }

  /** The folder of this name below `parent`, if it is there. An error if it is not ours alone. */
  def find(parent: Path, name: String): Option[PrivateFolder] = {
    val path = parent.resolve(name)
    look(path).map { found =>
      verify(path, found)
      // Other users could only read in it, so that its content is ours.
      if ((found.mode & 0x3f) != 0) {
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rwx------"))
      }
      new PrivateFolder(path)
    }
  }

  def makeNew(parent: Path, prefix: String): PrivateFolder = try {
    new PrivateFolder(Files.createTempDirectory(parent, prefix, only("rwx------"): _*))
  } catch {
    case error: IOException => throw cannotBeMade(parent.resolve(prefix), error)
  }

  /** The names of all that is in a folder, ours or not. */
  def list(folder: Path): Seq[String] = {
    val stream = Files.newDirectoryStream(folder)
    try stream.iterator.asScala.map(_.getFileName.toString).toSeq finally stream.close()
  }

  /** A folder that may belong to others: made if it is missing, with its links resolved. */
  def shared(folder: Path): Path = try {
    if (!Files.isDirectory(folder)) Files.createDirectories(folder, only("rwx------"): _*)
    folder.toRealPath()
  } catch {
    case error: IOException => throw cannotBeMade(folder, error)
  }

  /** Whether other users can exchange files and folders that we make in this folder. */
  def letsOthersExchange(folder: Path): Boolean =
    look(folder).exists(found => found.othersWrite && (found.mode & Sticky) == 0)

  private def verify(path: Path, found: Look): Unit = {
    def refuse(detail: String): Nothing = throw new UnusableLocalFolder(path.toString, detail)

    if (found.isLink) refuse("It is a symbolic link, and leads to where another user may want us.")
    if (!found.isFolder) refuse("It is not a folder.")
    if (!found.isOwn) {
      refuse(s"It belongs to the user with the number ${found.owner.get}; this process runs as " +
        s"${user.get}.")
    }
    if (found.othersWrite) {
      refuse(f"Its mode is ${found.mode & 0xfff}%o: other users can write to it.")
    }
  }

  private def cannotBeMade(path: Path, error: IOException): UnusableLocalFolder =
    new UnusableLocalFolder(path.toString, s"It cannot be made: $error", error)

  /** The attributes of a file or folder, without following a link. */
  private final case class Look(
      isLink: Boolean, isFolder: Boolean, isFile: Boolean, size: Long, modifiedMillis: Long,
      owner: Option[Int], mode: Int) {
    def isOwn: Boolean = owner == user

    def othersWrite: Boolean = (mode & 0x12) != 0 // 022: group, others
  }

  private def look(path: Path): Option[Look] = try {
    val basic = Files.readAttributes(path, classOf[BasicFileAttributes], NOFOLLOW_LINKS)
    val (owner, mode) = user match {
      case None => (None, 0)
      case Some(_) =>
        val unix = Files.readAttributes(path, "unix:uid,mode", NOFOLLOW_LINKS)
        (Some(unix.get("uid").asInstanceOf[Integer].intValue),
          unix.get("mode").asInstanceOf[Integer].intValue)
    }
    Some(Look(basic.isSymbolicLink, basic.isDirectory, basic.isRegularFile, basic.size,
      basic.lastModifiedTime.toMillis, owner, mode))
  } catch {
    case _: NoSuchFileException => None
  }

  private def only(permissions: String): Seq[FileAttribute[java.util.Set[PosixFilePermission]]] =
    if (user.isEmpty) Nil
    else Seq(PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(permissions)))
}
