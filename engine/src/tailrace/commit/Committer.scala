package tailrace.commit

import tailrace.faults.Failpoints
import tailrace.files.{FileNames, Retries, StateFolder}
import tailrace.format.FileKind
import tailrace.ledger.Messages._
import tailrace.metrics.BatchMeter

/** Takes a store's sealed batches. */
trait Committer {
  /** When this returns, the batch may be applied. */
  def commit(batch: SealedBatch, meter: BatchMeter): Unit

  /** Returns when output of the batch that starts from this version may be shown. */
  def awaitGate(version: Long): Unit

  /** Returns when the files of this version can be read, if they ever will be. */
  def awaitDurable(version: Long): Unit

  /** No version before this one will be loaded any more. */
  def oldestNeeded(version: Long): Unit
}

/** Durable before it returns: a changes file of the store's own, written whole or not at all. */
final class SynchronousCommitter(folder: StateFolder, names: FileNames) extends Committer {
  override def commit(batch: SealedBatch, meter: BatchMeter): Unit = {
    val started = System.nanoTime()
    meter.bytesWritten += folder.write(names(FileKind.Changes, batch.version, batch.lineage))(
      batch.bytes.writeTo)
    meter.filesWritten += 1
    meter.writeNanos += System.nanoTime() - started
  }

  override def awaitGate(version: Long): Unit = {}

  override def awaitDurable(version: Long): Unit = {}

  override def oldestNeeded(version: Long): Unit = {}
}

/**
 * Hands batches to the executor's pipeline:
 *  1. The sealed batch goes to the pipeline. From now on an order for it can be met, even if the
 *     task fails.
 *  2. The task registers with the ledger, and is admitted when the batch before is published, so
 *     that nothing this task shows can outlive a batch that is lost.
 * An attempt that is not admitted is discarded with its batch: the ledger orders only parts that
 * count. Where the ledger does not publish (a store outside of a query) the batch is written at
 * once instead.
 */
final class AsynchronousCommitter(
    root: String, run: String, store: String, named: Boolean, link: LedgerLink, pipeline: Pipeline,
    folder: StateFolder, target: PackTarget, inFlightLimit: Long, retries: Retries,
    failpoints: Failpoints, otherwise: Committer)
  extends Committer {

  override def commit(batch: SealedBatch, meter: BatchMeter): Unit = {
    val id = BatchId(root, run, batch.version - 1)
    // 1.
    meter.queuedParts += pipeline.submit(id, batch, target, inFlightLimit, retries)
    // 2.
    failpoints.pass("register.before")
    val started = System.nanoTime()
    val answer =
      link.register(Register(id, StoreAt(batch.store, batch.lineage), named, link.executor))
    failpoints.pass("register.after")
    meter.gateNanos += System.nanoTime() - started
    answer match {
      case Admitted(hiddenMillis, unpublished, repeated) =>
        meter.hiddenMillis += hiddenMillis
        meter.unpublishedBatches += unpublished
        meter.retries += repeated
        meter.bytesWritten += batch.bytes.length
        if (batch.version == 1) folder.make()
      case WriteNow => otherwise.commit(batch, meter)
      case refused: Refused => throw refused.asError
    }
  }

  override def awaitGate(version: Long): Unit =
    link.awaitGate(BatchId(root, run, version)) match {
      case refused: Refused => throw refused.asError
      case _ =>
    }

  override def awaitDurable(version: Long): Unit = link.awaitDurable(root, version - 1)

  override def oldestNeeded(version: Long): Unit =
    link.oldestNeeded(root, store, version)
}
