package tailrace.io

/** The submitter's view of a job. */
trait IoTicket[+T] {
  /** Succeeded, failed or cancelled; `await` then does not wait. */
  def isDone: Boolean

  /** The job's result, as soon as there is one; its error is thrown again, here. */
  def await(): T

  /** Waits until the job has succeeded, failed or been cancelled, also if the thread is interrupted. */
  def awaitEnd(): Unit

  /** Asks the job to stop: at once if it has not begun, else when it paces itself next. */
  def cancel(): Unit
}

/** The job was cancelled, or the scheduler shut down, before it was through. */
final class IoCancelled(what: String) extends RuntimeException(s"$what: it was cancelled")

/** A running job's view of its scheduler. */
trait IoJob {
  /**
   * So many bytes are read or written next. Waits for their tokens, piece by piece; lets a more
   * urgent job go first; throws [[IoCancelled]] if the job is not wanted any more. To be called every
   * 256 KiB or so.
   */
  def pace(bytes: Long): Unit
}

object IoJob {
  /** How much is moved between two calls of `pace`, and how many tokens are taken at a time. */
  val Piece: Int = 256 << 10

  /** Of work that a caller does in its own thread. */
  val unpaced: IoJob = (_: Long) => ()
}

/** Paces a job that moves many small pieces: it is asked once for some of them. */
final class IoPieces(job: IoJob) {
  private var moved = 0L

  /** The bytes that are left of this piece, at least one. */
  def room: Int = (IoJob.Piece - moved).toInt

  def add(bytes: Long): Unit = {
    moved += bytes
    if (moved >= IoJob.Piece) finish()
  }

  def finish(): Unit = if (moved > 0) {
    job.pace(moved)
    moved = 0L
  }
}

/** Counters of the jobs of a kind so far. Times are those of jobs that have ended. */
final case class IoCounts(
    jobs: Long = 0L, failed: Long = 0L, cancelled: Long = 0L, bytes: Long = 0L, pauses: Long = 0L,
    waitingNanos: Long = 0L, runningNanos: Long = 0L, pausedNanos: Long = 0L)
