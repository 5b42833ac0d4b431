package tailrace.recovery

import java.io.InputStream

import org.slf4j.LoggerFactory

import tailrace.errors._
import tailrace.format._

/**
 * A file, or a part of a pack, that a plan counts on.
 *
 * @param name  the file's name with its folder, for messages
 * @param known  lineage and parent's lineage, where the index of a pack has said them
 * @param openAt of a file of its own, for reads at any place; `openLocalCopyAt` of its copy
 */
private[recovery] final class PlannedFile(
    val name: String, val length: Long, val kind: FileKind, val version: Long, store: String,
    open: () => InputStream, openLocalCopy: () => Option[InputStream],
    known: Option[(Long, Long)] = None, openAt: () => PositionedFile = null,
    openLocalCopyAt: () => Option[PositionedFile] = () => None) {
  import PlannedFile._

  lazy val header: FileHeader = reading(local = false)(_.header)

  def lineage: Long = known.fold(header.lineage)(_._1)

  def parentLineage: Long = known.fold(header.parentLineage)(_._2)

  def hasGoodLocalCopy: Boolean = try {
    openLocalCopy().exists { stream =>
      try {
        val reader = new StateFileReader(stream, name)
        val same = isSame(reader.header)
        if (same) reader.verify()
        same
      } finally {
        stream.close()
      }
    }
  } catch {
    case error: Exception =>
      log.warn(s"The local copy of $name is not used: $error")
      false
  }

  private def isSame(found: FileHeader): Boolean = found.lineage == lineage &&
    found.version == version && found.kind == kind && found.store == store

  def reading[T](local: Boolean)(body: StateFileReader => T): T = ReadErrors.named(name) {
    val stream = (if (local) openLocalCopy() else None).getOrElse(open())
    try {
      val reader = new StateFileReader(stream, name)
      verify(reader.header)
      // The copy that was verified may have been replaced by one of another run since.
      if (local && reader.header.lineage != lineage) {
        throw new BrokenLineage(name, "Its local copy was replaced while it was loaded.")
      }
      body(reader)
    } finally {
      stream.close()
    }
  }

  /** The blocks of a snapshot, which stays open; None: it has no index. */
  def openBlocks(): Option[SnapshotBlocks] = ReadErrors.named(name) {
    SnapshotBlocks.open(openAt(), name).map { found =>
      try {
        verify(found.header)
        if (found.header.lineage != lineage) {
          throw new BrokenLineage(name, "It was replaced while it was loaded.")
        }
        found
      } catch {
        case error: Throwable =>
          found.close()
          throw error
      }
    }
  }

  /** Those of a copy on this machine, of the same state; each is verified when it is read. */
  def openLocalBlocks(): Option[SnapshotBlocks] = try {
    openLocalCopyAt().flatMap(SnapshotBlocks.open(_, name)).filter { found =>
      val same = isSame(found.header)
      if (!same) found.close()
      same
    }
  } catch {
    case error: Exception =>
      log.warn(s"The local copy of $name is not used: $error")
      None
  }

  private def verify(found: FileHeader): Unit = {
    if (found.store != store) {
      throw new ForeignFile(name, s"It belongs to the store ${found.store}; this is $store.")
    }
    if (found.version != version || found.kind != kind) {
      throw new CorruptFile(
        name, s"Its header says that it is the ${found.kind} of version ${found.version}.")
    }
    known.filter(_ != (found.lineage, found.parentLineage)).foreach { _ =>
      throw new CorruptFile(name, s"Its index and the part of $store do not agree.")
    }
  }
}

private[recovery] object PlannedFile {
  private val log = LoggerFactory.getLogger(classOf[PlannedFile])
}
