package tailrace.cold

import org.apache.hadoop.fs.Path

import tailrace.errors.SpillPlace
import tailrace.files.Retries

/**
 * Spilled state on any Hadoop file system (RFC 15): it may outgrow the executor's disk, and each
 * read is a round trip.
 *
 * Only I/O threads read: the clients of such file systems give up a connection, or close a stream,
 * when the thread that uses them is interrupted, as tasks are.
 */
final class RemoteTier private[cold] (
    home: RemoteHome, memory: WriteMemory, streams: OpenStreams, counts: ColdFiles,
    retries: Retries)
  extends ColdTier {

  override val place: SpillPlace = new SpillPlace.Remote(home.base.toString)

  override def anyThreadReads: Boolean = false

  /** The bytes that a line of two gigabits a second carries in a round trip of one millisecond. */
  override def largestGap: Long = 256L << 10

  /** Asks the file system nothing: it makes a folder with the first file in it. */
  override private[cold] def newFolder(): ColdFolder = new Folder(home.newStore())

  private final class Folder(path: Path) extends ColdFolder {
    @volatile private var isThere = false

    override def open(name: String): SegmentFile = new RemoteFile(
      home, new Path(path, name), () => isThere = true, place, memory, streams, counts, retries)

    override def delete(files: Seq[SegmentFile]): Unit = {
      files.foreach {
        case file: RemoteFile => file.giveUp()
        case other => other.delete()
      }
      if (isThere) {
        counts.count("delete")
        home.deleteStore(path)
      }
    }
  }
}
