package tailrace.recovery

import java.io.InterruptedIOException
import java.nio.channels.ClosedByInterruptException

import scala.collection.mutable

import org.slf4j.LoggerFactory

import tailrace.errors._

/**
 * The files that one load could not use, and the error of each.
 *
 * Invariant: a file is in trouble once. It is not asked for again in the same load, so that every
 * new plan has one file less to choose from and a load comes to an end.
 */
private[recovery] final class Trouble(store: String) {
  import Trouble.log

  private val found = mutable.LinkedHashMap.empty[String, CheckpointError]
  private val headers = mutable.Set.empty[String]

  def size: Int = found.size

  def files: Seq[String] = found.keys.toSeq

  def concerns(file: String): Boolean = found.contains(file)

  /** Whether not even its lineage is known. */
  def concernsHeader(file: String): Boolean = headers(file)

  /** Reads a file's header; None if it cannot be used. */
  def inHeader[T](file: String)(body: => T): Option[T] = {
    val read = in(file)(body)
    if (read.isEmpty) headers += file
    read
  }

  /** Reads a file; None if it cannot be used. */
  def in[T](file: String)(body: => T): Option[T] =
    try Some(body) catch {
      case error: CheckpointError if isOfTheFile(error) =>
        log.warn(s"A file of $store cannot be used. If there are others from which the state can " +
          s"be loaded, the query goes on. ${error.problem} ${error.because}")
        found.put(file, error)
        None
    }

  /** Whether another file may help: it cannot if the task was cancelled, or memory is short. */
  private def isOfTheFile(error: CheckpointError): Boolean = error match {
    case unreadable: UnreadableFile => unreadable.getCause match {
      case _: InterruptedIOException | _: ClosedByInterruptException => false
      case _ => true
    }
    case _: CorruptFile | _: MissingFile | _: ForeignFile | _: NewerFormat => true
    case _ => false
  }

  /**
   * The error of a load without a complete chain of files: `last` says why the last plan came to
   * nothing. It is of the class of the first file that failed, and names all the others; but if a
   * file could not be read at the moment, that comes first, because it may pass.
   */
  def orElse(last: Option[CheckpointError], otherStore: Option[String]): CheckpointError = {
    val all = found.values.toSeq ++ last
    val first = all.find(_.isInstanceOf[UnreadableFile]).getOrElse(all.head)
    val others = all.filterNot(_ eq first).map(error => s"${error.problem} ${error.because}")
    val more =
      if (others.isEmpty) ""
      else s"\n  No other files can take its place: ${others.mkString("\n    ", "\n    ", "")}"
    (first, otherStore) match {
      case (corrupt: CorruptFile, Some(writer)) if corrupt.beginsWrong =>
        new ForeignFile(corrupt.file, s"${corrupt.because} Files of $writer are beside it.$more")
      case _ if others.isEmpty => first
      case (error: CorruptFile, _) =>
        new CorruptFile(error.file, error.because + more, error.getCause, error.beginsWrong)
      case (error: MissingFile, _) => new MissingFile(error.file, error.because + more)
      case (error: ForeignFile, _) => new ForeignFile(error.file, error.because + more)
      case (error: UnreadableFile, _) => new UnreadableFile(error.file, error.getCause, more)
      case (error: NewerFormat, _) => new NewerFormat(error.file, error.found, error.known, more)
      case (error, _) => error
    }
  }
}

private object Trouble {
  private val log = LoggerFactory.getLogger(classOf[Trouble])
}
