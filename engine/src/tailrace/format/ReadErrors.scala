package tailrace.format

import java.io.{EOFException, FileNotFoundException, IOException}

import tailrace.errors._

/** What goes wrong while a state file is read, as errors that name the file. */
object ReadErrors {
  def named[T](file: String)(body: => T): T = try body catch {
    case other: NotTheFile => throw other.getCause
    case error: CheckpointError => throw error
    case _: FileNotFoundException =>
      throw new MissingFile(file, "It was listed, but is gone: it was deleted meanwhile.")
    case error: EOFException => throw new CorruptFile(file, "It ends too early.", error)
    case error: IOException => throw new UnreadableFile(file, error)
    case error: RuntimeException if !error.isInstanceOf[EngineError] =>
      throw new CorruptFile(file, s"It cannot be decoded: $error", error)
  }

  /** A failure while a file was read, but not of reading it. */
  final class NotTheFile(cause: Throwable) extends RuntimeException(cause)
}
