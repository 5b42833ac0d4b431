package tailrace.cold

import tailrace.errors.SpillPlace

/**
 * Problem: spilled state may be on the executor's own disk, or far away, where it may outgrow that
 * disk. The log should not know which.
 *
 * Answer: the few questions that the log has. [[LocalTier]] answers them with files on this machine,
 * [[RemoteTier]] with any Hadoop file system.
 *
 * Invariant: the files of a tier belong to one process, and are no part of the checkpoint. If all are
 * lost, a query fails and loads its state again.
 */
trait ColdTier {
  /** For errors: where it is, and the remedy if it fails. */
  def place: SpillPlace

  /** Whether a task may read; otherwise only I/O threads do. */
  def anyThreadReads: Boolean

  /** Two entries with at most so many bytes between them are read with one request. */
  def largestGap: Long

  /** A new, empty folder for one store's files. For I/O threads. */
  private[cold] def newFolder(): ColdFolder
}

/** A store's folder in a tier. */
private[cold] trait ColdFolder {
  /** A new file with this name, to be written. Each name is used once. For I/O threads. */
  def open(name: String): SegmentFile

  /** Deletes all these files, and the folder if it is empty then. For I/O threads. */
  def delete(files: Seq[SegmentFile]): Unit
}
