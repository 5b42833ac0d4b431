package tailrace.files

import java.io.{InputStream, OutputStream}

import tailrace.format.PositionedFile

/**
 * The folder of one store on the checkpoint file system: the one seam through which state files
 * are listed, read, written and deleted, so that a test can put a faulty file system below it.
 */
trait StateFolder {
  /** The folder's name, for messages. */
  def path: String

  /** The files in the folder; empty if there is none. */
  def list(): Seq[StateFolder.Entry]

  /** Folders in it that have a state file's name; they are nothing of ours. */
  def folders(): Seq[String] = Nil

  def open(name: String): InputStream

  /** For reads at any place. The file is opened by the first, and again after one that failed. */
  def openAt(name: String, length: Long): PositionedFile =
    throw new UnsupportedOperationException(s"$name cannot be read at any place")

  /** The same of a copy on this machine. */
  def openLocalCopyAt(name: String): Option[PositionedFile] = None

  /** A copy on this machine, if there is one; whether it is the same file is not known yet. */
  def openLocalCopy(name: String): Option[InputStream] = None

  /**
   * Writes a file that is there as a whole or not at all, taking the place of one with the same
   * name. Returns the number of bytes. If `body` throws, there is no new file.
   */
  def write(name: String)(body: OutputStream => Unit): Long

  def delete(name: String): Unit

  /** Makes the folder: Spark's state reader takes a partition for one that has a folder. */
  def make(): Unit

  def nameOf(name: String): String = s"$path/$name"
}

object StateFolder {
  final case class Entry(name: String, length: Long, modifiedMillis: Long)
}
