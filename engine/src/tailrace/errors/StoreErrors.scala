package tailrace.errors

import java.io.IOException

import org.apache.spark.SparkThrowable

/**
 * Every error that a user can meet states three things: the problem, its cause and the remedy.
 * They are told apart by class, never by their text. Spark's callers tell them apart by Spark's
 * conditions, so each carries the one that Spark's own stores have for the same trouble.
 */
sealed trait StoreError extends SparkThrowable { self: Throwable =>
  def problem: String
  def because: String
  def remedy: String

  /** Null: Spark has none for it. */
  override def getCondition: String = null
}

/** Spark's names for the errors of a state store (its error-conditions.json). */
object SparkCondition {
  private val Load = "CANNOT_LOAD_STATE_STORE."
  val MissingVersion: String = Load + "CANNOT_READ_STREAMING_STATE_FILE"
  val NegativeVersion: String = Load + "UNEXPECTED_VERSION"
  val WrongLineage: String = Load + "INVALID_CHECKPOINT_LINEAGE"
  val InUse: String = Load + "UNRELEASED_THREAD_ERROR"
  val OtherLoad: String = Load + "UNCATEGORIZED"
  val Write: String = "CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT"
}

object StoreError {
  def text(problem: String, because: String, remedy: String): String =
    s"$problem\n  Cause: $because\n  Remedy: $remedy"
}

/** The state on the checkpoint file system cannot be used as it is. */
sealed abstract class CheckpointError(
    val problem: String, val because: String, val remedy: String, cause: Throwable = null)
  extends IOException(StoreError.text(problem, because, remedy), cause) with StoreError {
  override def getCondition: String = SparkCondition.OtherLoad
}

/** @param beginsWrong it is empty, or begins with other bytes than a state file */
final class CorruptFile(
    val file: String, detail: String, cause: Throwable = null, val beginsWrong: Boolean = false,
    setBack: SetBack = SetBack.Anywhere)
  extends CheckpointError(
    s"The state file $file is damaged.",
    detail,
    s"Restore the file from a copy, or ${setBack.text} Nothing was deleted or changed.",
    cause)

final class MissingFile(val file: String, detail: String, setBack: SetBack = SetBack.Anywhere)
  extends CheckpointError(
    s"The state file $file is missing.",
    detail,
    s"Restore the file from a copy, or ${setBack.text} If another process cleans the checkpoint " +
      "folder, stop it. Nothing was deleted or changed.") {
  override def getCondition: String = SparkCondition.MissingVersion
}

/** A note that says how an operator's state is to be read is missing; the state itself is there. */
final class MissingNote(val file: String, detail: String)
  extends CheckpointError(
    s"The note $file is missing.",
    detail,
    "Restore the file from a copy, or make an empty file of that name: that it is there is all " +
      "it says. If another process cleans the checkpoint folder, stop it. Nothing was deleted or " +
      "changed.")

final class ForeignFile(val file: String, detail: String)
  extends CheckpointError(
    s"$file is not a state file of tailrace.",
    detail,
    "Use the state store that wrote this checkpoint (spark.sql.streaming.stateStore." +
      "providerClass), or a new checkpoint location. Nothing was deleted or changed.")

final class NewerFormat(val file: String, val found: Int, val known: Int, more: String = "")
  extends CheckpointError(
    s"The state file $file has format $found; this tailrace reads formats up to $known.",
    "The checkpoint was written by a newer tailrace." + more,
    "Install that version of tailrace, or use a new checkpoint location.")

/** The checkpoint is whole; only this process's spilled state is not. */
final class ColdFileDamaged(val file: String, offset: Long, place: SpillPlace)
  extends CheckpointError(
    s"The file $file, to which state has moved that does not fit into memory, is damaged.",
    s"The entry at byte $offset is not what was written there.",
    "Restart the query: it loads its state from the checkpoint, which is not affected. If it happens " +
      s"again: ${place.check}, or ${place.move}.")

final class ColdFileUnreadable(val file: String, place: SpillPlace, cause: Throwable)
  extends CheckpointError(
    s"The file $file, to which state has moved that does not fit into memory, could not be read.",
    s"$cause. It was tried again for as long as the option retry_timeout says, if that could help.",
    s"${place.check}, or ${place.move}. Then restart the query: nothing is lost, it loads its " +
      "state from the checkpoint.",
    cause)

final class UnusableColdDir(val uri: String, cause: Throwable)
  extends CheckpointError(
    s"The folder for state that does not fit into memory, $uri, cannot be used.",
    String.valueOf(cause),
    {
      val place = new SpillPlace.Remote(uri)
      s"${place.check}, or ${place.move}. Then restart the query: the checkpoint is not affected."
    },
    cause)

/** A folder on this machine for copies, and for state that does not fit into memory. */
final class UnusableLocalFolder(val folder: String, detail: String, cause: Throwable = null)
  extends CheckpointError(
    s"The local folder $folder cannot be used.",
    detail,
    "Set the option local_dir (spark.sql.streaming.stateStore.tailrace.localDir) to a folder that " +
      "this user may write to; or remove this one, if it is yours and not needed, and it is made " +
      "again. Nothing in it was read, changed or deleted, and the checkpoint is not affected.",
    cause)

final class ColdLogUsedUp(files: Int)
  extends CheckpointError(
    "The log of state that does not fit into memory has used up the numbers of its files.",
    s"It has had $files files since the store was opened, and a file's number is never used again.",
    "Restart the query: it loads its state from the checkpoint, which is not affected, and begins " +
      "a new log. If it happens soon again, raise the option memory_limit " +
      "(spark.sql.streaming.stateStore.tailrace.memoryLimit), so that less state has to move.")

final class BrokenLineage(
    val file: String, detail: String, setBack: SetBack = SetBack.Anywhere)
  extends CheckpointError(
    s"The state file $file does not belong to the chain of changes that leads to this version.",
    detail,
    "Two runs of one batch wrote different changes: two queries share the checkpoint, or a " +
      "non-deterministic query ran with speculative tasks. Use one query per checkpoint; for " +
      "speculation set spark.sql.streaming.stateStore.checkpointFormatVersion=2 on a new " +
      s"checkpoint. To go on with this one, ${setBack.text}") {
  override def getCondition: String = SparkCondition.WrongLineage
}

final class SchemaMismatch(val file: String, detail: String)
  extends CheckpointError(
    s"The state in $file does not fit the query.",
    detail,
    "Restore the query's grouping keys and aggregates to what they were when the checkpoint was " +
      "written, or use a new checkpoint location.")

final class WriteFailed(val file: String, cause: Throwable)
  extends CheckpointError(
    s"The state file $file could not be written.",
    String.valueOf(cause),
    "Check free space, quota and permissions of the checkpoint location, then restart the query: " +
      "it goes on from the last batch that was committed.",
    cause) {
  override def getCondition: String = SparkCondition.Write
}

final class FolderInTheWay(val folder: String)
  extends CheckpointError(
    s"$folder is a folder, where a file belongs.",
    "It was not made by tailrace or Spark, which have files of this name.",
    "Move the folder to another place, or remove it if its content is not needed; if it took the " +
      "place of a file, restore that from a copy. Then restart the query. Nothing in the folder " +
      "was deleted or changed.")

final class CheckpointTaken(problem: String, because: String)
  extends CheckpointError(
    problem,
    because,
    "Stop the other query that uses this checkpoint location, or give one of them a location of " +
      "its own. Nothing of the other query was replaced.") {
  override def getCondition: String = SparkCondition.Write
}

final class UnreadableFile(val file: String, cause: Throwable, more: String = "")
  extends CheckpointError(
    s"The state file $file could not be read.",
    s"$cause$more",
    "Check that the checkpoint location is reachable and that this user may read it, then " +
      "restart the query.",
    cause)

/** The engine, not the checkpoint, cannot go on. */
sealed abstract class EngineError(val problem: String, val because: String, val remedy: String)
  extends IllegalStateException(StoreError.text(problem, because, remedy)) with StoreError

final class MemoryExhausted(asked: Long, used: Long, limit: Long)
  extends EngineError(
    s"The state does not fit the memory budget: $asked bytes more were asked for.",
    s"$used of $limit bytes are in use by all the stores of this process.",
    "Raise the option memory_limit (spark.sql.streaming.stateStore.tailrace.memoryLimit), give " +
      "the executors more memory or spread the state over more executors, or bound the state " +
      "with a watermark.")

final class SpillFailed(place: SpillPlace, bytes: Long, cause: Throwable)
  extends EngineError(
    s"State that does not fit into memory could not be written to ${place.name}.",
    s"$cause. The store has $bytes bytes of state in files there.",
    s"${place.check}, or ${place.move}; or raise the option memory_limit " +
      "(spark.sql.streaming.stateStore.tailrace.memoryLimit). Then restart the query: nothing is " +
      "lost, it loads its state from the checkpoint.") {
  initCause(cause)
}

final class DirectIoUnsupported(folder: String, cause: Throwable)
  extends EngineError(
    s"State that does not fit into memory cannot be written to $folder past the page cache.",
    s"The file system refuses files that are opened for direct I/O: $cause.",
    "Set the option cold_io (spark.sql.streaming.stateStore.tailrace.coldIo) to buffered, or " +
      "local_dir (spark.sql.streaming.stateStore.tailrace.localDir) to a folder on a disk. Then " +
      "restart the query: nothing is lost, it loads its state from the checkpoint.") {
  initCause(cause)
}

final class StoreBusy(store: String, waitedMillis: Long)
  extends EngineError(
    s"$store is in use by another task.",
    s"An earlier attempt of this task has not let go of the store for $waitedMillis ms.",
    "If the earlier task is only slow, raise the option lock_timeout " +
      "(spark.sql.streaming.stateStore.tailrace.lockTimeout).") {
  override def getCondition: String = SparkCondition.InUse
}

final class WrongSpark(found: String, built: String)
  extends EngineError(
    s"This tailrace engine was built for Spark $built and does not run on Spark $found.",
    "The state store interface differs between the minor versions of Spark.",
    s"Install pyspark $built, or the tailrace that was made for Spark $found.")

final class WrongByteOrder
  extends EngineError(
    "This machine is big-endian.",
    "State files hold little-endian numbers and Spark's rows as they are in memory.",
    "Run on a little-endian machine (x86-64, ARM64).")

final class InvalidOption(option: String, value: String, allowed: String)
  extends EngineError(
    s"The option $option has the value '$value'.",
    s"Allowed: $allowed.",
    "Set it through tailrace.configure or tailrace.confs, which check values before Spark starts.")

final class ContradictingOptions(problem: String, because: String, remedy: String)
  extends EngineError(problem, because, remedy)

final class UnknownOption(key: String, closest: String, known: Seq[String])
  extends EngineError(
    s"There is no option $key.",
    s"The options are: ${known.mkString(", ")}.",
    s"Did you mean $closest? Correct the key in the session's settings, or take it out.")

final class InvalidHint(detail: String, what: String)
  extends EngineError("A hint (tailrace.hint) cannot be followed.", detail, what)

/** Spark's own logs do not fit the rest of the checkpoint. */
final class LogEntriesMissing(val root: String, problem: String, because: String)
  extends CheckpointError(
    s"The checkpoint $root is not complete. $problem",
    s"$because Files were lost: the checkpoint was copied while a query wrote to it, restored in " +
      "part, or cleaned up.",
    "Restore the missing files from a copy. If there is none, set the query back to a batch whose " +
      "files are whole (tailrace rollback), or use a new checkpoint location. Nothing was deleted or " +
      "changed.")
