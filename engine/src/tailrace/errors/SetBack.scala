package tailrace.errors

/**
 * The remedy for state that is lost: the command that sets a query back to the end of an earlier
 * batch. Deleting entries of Spark's logs by hand would not do: the logs of file sources and sinks
 * would stay ahead, and rows would be lost or doubled.
 *
 * @param batch the newest batch whose state seems to be complete, if one is known
 */
final case class SetBack(checkpoint: String, batch: Option[Long]) {
  def text: String = {
    val (what, number) = batch match {
      case Some(known) => (s"batch $known, whose state seems to be complete", known.toString)
      case None => ("an earlier batch", "BATCH")
    }
    s"set the query back to the end of $what: stop it, then run: tailrace rollback $quoted " +
      s"--to $number (see docs/rollback.md; --dry-run shows what it would do)."
  }

  /** As a shell takes it. */
  private def quoted: String =
    if (checkpoint.matches("[\\w/.:=@%+,-]+")) checkpoint
    else "'" + checkpoint.replace("'", "'\\''") + "'"
}

object SetBack {
  val Anywhere: SetBack = SetBack("CHECKPOINT", None)

  /** The same error, with the command as it is to be typed. */
  def named(error: CheckpointError, setBack: => SetBack): CheckpointError = error match {
    case known: CorruptFile => new CorruptFile(
      known.file, known.because, known.getCause, known.beginsWrong, setBack)
    case known: MissingFile => new MissingFile(known.file, known.because, setBack)
    case known: BrokenLineage => new BrokenLineage(known.file, known.because, setBack)
    case other => other
  }
}
