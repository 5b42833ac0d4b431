package tailrace.files

import java.io.InputStream

import tailrace.format.PackHeader

/** The packs of a checkpoint, from which stores are loaded. */
trait PackShelf {
  /** The folder's name, for messages. */
  def path: String

  /** The packs of every version, as they are listed now. */
  def list(): Map[Long, Seq[PackShelf.Pack]]

  /** Folders that have a pack's name; they are nothing of ours. */
  def folders(): Seq[String] = Nil
}

object PackShelf {
  trait Pack {
    def name: String
    def header: PackHeader
    /** One store's part of the pack: the bytes of a changes file. */
    def open(entry: PackHeader.Entry): InputStream
    def openLocalCopy(entry: PackHeader.Entry): Option[InputStream]
  }

  /** No packs: the store writes files of its own. */
  val Empty: PackShelf = new PackShelf {
    override def path: String = ""
    override def list(): Map[Long, Seq[Pack]] = Map.empty
  }
}
