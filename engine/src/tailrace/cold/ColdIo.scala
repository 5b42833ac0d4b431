package tailrace.cold

import java.io.File

/** How files on this machine are read and written. */
sealed abstract class ColdIo(val name: String) {
  private[cold] def open(file: File, counts: ColdFiles): SegmentFile

  /** Whether a task may read; otherwise only I/O threads do. */
  private[cold] def anyThreadReads: Boolean
}

object ColdIo {
  /** Through the system's page cache. */
  case object Buffered extends ColdIo("buffered") {
    override private[cold] def open(file: File, counts: ColdFiles) = new BufferedFile(file, counts)
    override private[cold] def anyThreadReads = true
  }

  /** Past it: the page cache is left to others, and a measurement sees the disk. */
  case object Direct extends ColdIo("direct") {
    override private[cold] def open(file: File, counts: ColdFiles) = new DirectFile(file, counts)
    override private[cold] def anyThreadReads = false
  }

  val all: Seq[ColdIo] = Seq(Buffered, Direct)
}
