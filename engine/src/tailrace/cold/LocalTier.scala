package tailrace.cold

import java.io.File
import java.nio.file.Files

import tailrace.errors.SpillPlace
import tailrace.files.LocalRoot

/**
 * Spilled state in files on the executor's machine.
 *
 * @param makeFolder makes an empty folder
 * @param counts     which threads write and delete files
 */
final class LocalTier(root: LocalRoot, makeFolder: () => File, counts: ColdFiles, io: ColdIo)
  extends ColdTier {

  override val place: SpillPlace = new SpillPlace.Local(root.toString)

  override def anyThreadReads: Boolean = io.anyThreadReads

  /** A disk reads as many bytes in the time of one more request. */
  override def largestGap: Long = 16L << 10

  override private[cold] def newFolder(): ColdFolder = new ColdFolder {
    private val folder = makeFolder()

    override def open(name: String): SegmentFile = io.open(new File(folder, name), counts)

    override def delete(files: Seq[SegmentFile]): Unit = {
      files.foreach(_.delete())
      Files.deleteIfExists(folder.toPath)
    }
  }
}

object LocalTier {
  def in(root: LocalRoot, folders: ColdFolders, io: ColdIo): LocalTier =
    new LocalTier(root, () => folders.newFolder(root), folders.fileCounts, io)
}
