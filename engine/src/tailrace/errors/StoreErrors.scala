package tailrace.errors

import java.io.IOException

/**
 * Every error that a user can meet states three things: the problem, its cause and the remedy.
 * They are told apart by class, never by their text.
 */
sealed trait StoreError { self: Throwable =>
  def problem: String
  def because: String
  def remedy: String
}

object StoreError {
  def text(problem: String, because: String, remedy: String): String =
    s"$problem\n  Cause: $because\n  Remedy: $remedy"
}

/** The state on the checkpoint file system cannot be used as it is. */
sealed abstract class CheckpointError(
    val problem: String, val because: String, val remedy: String, cause: Throwable = null)
  extends IOException(StoreError.text(problem, because, remedy), cause) with StoreError

final class CorruptFile(val file: String, detail: String, cause: Throwable = null)
  extends CheckpointError(
    s"The state file $file is damaged.",
    detail,
    "Restore the file from a copy, or restart the query from an earlier batch: delete the newest " +
      "entries of the checkpoint's 'commits' and 'offsets' folders, so that a version whose files " +
      "are whole is loaded. Nothing was deleted or changed.",
    cause)

final class MissingFile(val file: String, detail: String)
  extends CheckpointError(
    s"The state file $file is missing.",
    detail,
    "Restore the file from a copy, or start the query with a new checkpoint location. If another " +
      "process cleans the checkpoint folder, stop it. Nothing was deleted or changed.")

final class ForeignFile(val file: String, detail: String)
  extends CheckpointError(
    s"$file is not a state file of tailrace.",
    detail,
    "Use the state store that wrote this checkpoint (spark.sql.streaming.stateStore." +
      "providerClass), or a new checkpoint location. Nothing was deleted or changed.")

final class NewerFormat(val file: String, found: Int, known: Int)
  extends CheckpointError(
    s"The state file $file has format $found; this tailrace reads formats up to $known.",
    "The checkpoint was written by a newer tailrace.",
    "Install that version of tailrace, or use a new checkpoint location.")

/** The checkpoint is whole; only what left this process's memory is not. */
final class ColdFileDamaged(val file: String, offset: Long)
  extends CheckpointError(
    s"The file $file, to which state has moved that does not fit into memory, is damaged.",
    s"The entry at byte $offset is not what was written there.",
    "Restart the query: it loads its state from the checkpoint, which is not affected. If it happens " +
      "again, check the disk, or set spark.sql.streaming.stateStore.tailrace.localDir to another.")

final class BrokenLineage(val file: String, detail: String)
  extends CheckpointError(
    s"The state file $file does not belong to the chain of changes that leads to this version.",
    detail,
    "Two runs of one batch wrote different changes: two queries share the checkpoint, or a " +
      "non-deterministic query ran with speculative tasks. Use one query per checkpoint; for " +
      "speculation set spark.sql.streaming.stateStore.checkpointFormatVersion=2 on a new " +
      "checkpoint. Restart from an earlier batch if the files must be kept.")

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
    cause)

final class CheckpointTaken(problem: String, because: String)
  extends CheckpointError(
    problem,
    because,
    "Stop the other query that uses this checkpoint location, or give one of them a location of " +
      "its own. Nothing of the other query was replaced.")

final class UnreadableFile(val file: String, cause: Throwable)
  extends CheckpointError(
    s"The state file $file could not be read.",
    String.valueOf(cause),
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

final class StoreBusy(store: String, waitedMillis: Long)
  extends EngineError(
    s"$store is in use by another task.",
    s"An earlier attempt of this task has not let go of the store for $waitedMillis ms.",
    "If the earlier task is only slow, raise the option lock_timeout " +
      "(spark.sql.streaming.stateStore.tailrace.lockTimeout).")

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

final class InvalidHint(detail: String, what: String)
  extends EngineError("A hint (tailrace.hint) cannot be followed.", detail, what)
