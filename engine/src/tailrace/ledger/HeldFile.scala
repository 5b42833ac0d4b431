package tailrace.ledger

/** An entry of one of Spark's logs as Spark handed it over, on its way to the checkpoint. */
trait HeldFile {
  def name: String
  /** All steps but the last: they can run while other files are still being written. */
  def prepare(): Unit
  def isPrepared: Boolean
  /** The one step that makes the file visible. */
  def publish(): Unit
  /** The file will not be published: its temporary file can be deleted. */
  def drop(): Unit
  /** Whether a file of this name is there: before we publish, it is another query's. */
  def isTaken: Boolean = false
  /** Whether the file is there with our content: a step that seemed to fail may have been done. */
  def isPublished: Boolean
}

/** The packs of a checkpoint, as far as the ledger has to do with them. */
trait PackFiles {
  /**
   * Deletes packs of this version that are not among those written now: an earlier run's, which
   * crashed. Packs of later versions cannot be there (see [[tailrace.spark.QueryLogs]]).
   */
  def deleteOthers(version: Long, written: Set[String]): Unit

  def deleteUpTo(version: Long): Unit
}
