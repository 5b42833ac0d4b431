package tailrace.commit

import java.io.IOException
import java.util.concurrent.Executor

import scala.collection.mutable

import org.apache.hadoop.fs.FileAlreadyExistsException
import org.slf4j.LoggerFactory

import tailrace.commit.Messages._
import tailrace.faults.{Failpoint, Rule}

/**
 * The driver's ledger: what every batch of every checkpoint has come to, and who waits for it.
 *
 * The life of batch N (docs/rfcs/0004):
 *  1. Tasks `enter`; they go on when batch N-1 is published and `offsets/N` is written.
 *  2. Spark hands over `commits/N`: the batch is applied, and executors get their orders.
 *  3. Executors say what is durable. When all is, the batch is durable.
 *  4. `commits/N` is published; the gate of batch N+1 opens.
 * Anything that cannot be written fails the checkpoint's current run: the gate refuses, Spark fails
 * the query, and a restart goes on from the last published batch.
 *
 * Invariants: `commits/N` becomes visible only after step 3. At most one batch is applied and not
 * published. No method blocks but those whose name begins with `await`; files are touched on `work`.
 */
final class Ledger(work: Executor, retries: Retries) {
  import Ledger._

  private val books = mutable.Map.empty[String, Book]
  private val lostExecutors = mutable.Set.empty[String]
  private var closed = false

  // ---- from Spark's log files, on the driver

  /**
   * A query has listed and tidied its logs; the newest entry of `commits` is this. With the first
   * call of a run the ledger begins to take its batches.
   */
  def listed(
      root: String, run: String, committed: Long, dangling: Seq[Long], packs: PackFiles,
      packsExist: Boolean): Unit =
    synchronized {
      val book = books.getOrElseUpdate(root, new Book(root))
      if (book.run != run && !book.endedRuns(run)) {
        book.dangling = dangling
        book.beginRun(run, committed, packs, packsExist)
          .foreach(letGo(_, tooLate(BatchId(root, run, 0L))))
      }
    }

  /** Offsets that an earlier run left and that are in the way of this batch's. */
  def danglingAt(batch: BatchId): Seq[Long] = synchronized {
    bookOf(batch.root, batch.run).map(_.dangling).filter(_.exists(_ <= batch.number)).getOrElse(Nil)
  }

  def danglingRemoved(batch: BatchId): Unit = synchronized {
    bookOf(batch.root, batch.run).foreach(_.dangling = Nil)
  }

  /** Whether batches of this run go through the ledger, as far as is known before they begin. */
  def isAsynchronous(root: String, run: String): Boolean = synchronized {
    bookOf(root, run).exists(_.asynchronous)
  }

  /** Whether a batch of this run was published through the ledger: the checkpoint has packs. */
  def hasPacks(root: String, run: String): Boolean = synchronized {
    bookOf(root, run).exists(_.packsExist)
  }

  /** Whether this batch's log entries cannot be there yet, unless another query writes them. */
  def isNew(batch: BatchId): Boolean = synchronized {
    bookOf(batch.root, batch.run).exists(book => book.asynchronous && batch.number >= book.next)
  }

  /** Whether tasks of this batch have entered, so that its `commits` entry has to be held back. */
  def hasEntered(batch: BatchId): Boolean = synchronized {
    bookOf(batch.root, batch.run).flatMap(_.batches.get(batch.number)).exists(_.stores.nonEmpty)
  }

  /** Fails if this run cannot go on. */
  def verify(root: String, run: String): Unit = synchronized {
    bookOf(root, run).flatMap(_.failure).foreach(refused => throw refused.asError)
  }

  /** `offsets/N` is written beside the batch; its tasks pass the gate when it is there. */
  def writeOffsets(batch: BatchId, held: HeldFile): Unit = synchronized {
    bookOf(batch.root, batch.run).foreach { book =>
      book.offsetsPending += batch.number
      inBackground(book, batch) {
        Failpoint.pass("offset.before")
        val repeated = becomeVisible(held)
        Failpoint.pass("offset.after")
        synchronized {
          book.lastRetries += repeated
          book.offsetsPending -= batch.number
          openGate(book)
        }
      }
    }
  }

  /** 2. All tasks of the batch are done. */
  def handOver(batch: BatchId, held: HeldFile): Unit = synchronized {
    verify(batch.root, batch.run)
    if (closed) throw endedBefore(batch).asError
    val book = books(batch.root)
    val entry = book.batches(batch.number)
    entry.move(BatchState.Applied)
    entry.held = held
    entry.appliedNanos = System.nanoTime()
    book.next = batch.number + 1
    book.asynchronous = true
    book.stores = entry.stores.valuesIterator.map(_.at.store).toSet
    val lost = entry.stores.valuesIterator.find(s => !s.durable && lostExecutors(s.executor))
    if (lost.nonEmpty && Rule.LostExecutorFails.isOn) {
      fail(book, lostWith(lost.get.executor, batch.number))
    } else {
      entry.waitingForOrders.foreach { case (executor, reply) =>
        reply(entry.ordersFor(executor))
      }
      entry.waitingForOrders.clear()
      inBackground(book, batch)(retries(s"Preparing ${held.name}")(held.prepare()))
      if (entry.allDurable || !Rule.PublishAfterDurable.isOn) becomeDurable(book, entry)
    }
  }

  /** Before the first batch of a run is published: removes packs of it that a crash left behind. */
  def sweepBefore(batch: BatchId): Unit = {
    val packs = synchronized(bookOf(batch.root, batch.run).filter(b => !b.swept && b.packsExist)
      .map { book =>
        book.swept = true
        book.packs
      })
    packs.foreach(_.deleteOthers(batch.number + 1, Set.empty))
  }

  /** A batch that did not go through the ledger is in `commits`. */
  def committedDirectly(batch: BatchId): Unit = synchronized {
    bookOf(batch.root, batch.run).foreach { book =>
      book.published = math.max(book.published, batch.number)
      book.next = batch.number + 1
      book.batches -= batch.number
      book.asynchronous = false
    }
  }

  /** Returns when the batch is published; throws when it never will be. */
  def awaitPublished(batch: BatchId): Unit = synchronized {
    var book = bookOf(batch.root, batch.run)
    while (book.exists(b => b.failure.isEmpty && b.batches.contains(batch.number))) {
      wait()
      book = bookOf(batch.root, batch.run)
    }
    verify(batch.root, batch.run)
  }

  /** Returns when nothing of this checkpoint is pending, with what could not be written, if any. */
  def awaitQuiet(root: String, timeoutMillis: Long): Option[Refused] = {
    if (!awaitUntil(timeoutMillis)(books.get(root).forall(_.isQuiet))) {
      throw new CommitFailed(Refused(
        s"Batches of the checkpoint $root are not published yet.",
        s"The checkpoint file system has not taken them within $timeoutMillis ms.",
        "Wait until it answers again; a restart goes on from the last published batch."))
    }
    synchronized(books.get(root).flatMap(_.failure))
  }

  /** The same for all checkpoints below (or at) this path; null is all. */
  def awaitQuietBelow(path: String, timeoutMillis: Long): Seq[Refused] = {
    val roots = synchronized(books.keys.filter { root =>
      path == null || root == path || root.startsWith(path + "/")
    }.toSeq)
    roots.flatMap(awaitQuiet(_, timeoutMillis))
  }

  private def awaitUntil(timeoutMillis: Long)(reached: => Boolean): Boolean = synchronized {
    val deadline = System.nanoTime() + timeoutMillis * 1000000L
    var left = timeoutMillis
    while (!reached && left > 0) {
      wait(left)
      left = (deadline - System.nanoTime()) / 1000000L
    }
    reached
  }

  /**
   * The session ends. What was handed over is still written; the executors of everything else are
   * gone, so that it must not be published.
   */
  def close(): Unit = synchronized { closed = true }

  /** A run is over: what an unfinished batch of it has left to be written is let go. */
  def ended(run: String): Unit = synchronized {
    books.values.filter(_.run == run).foreach { book =>
      book.endedRuns += run
      book.batches.values.filter(_.state == BatchState.Running).toSeq.foreach { batch =>
        book.batches -= batch.number
        letGo(batch, tooLate(BatchId(book.root, run, batch.number)))
      }
    }
    notifyAll()
  }

  // ---- from the executors

  /** 1. A task is about to apply a store's batch. */
  def enter(message: Enter)(reply: Entry => Unit): Unit = synchronized {
    val batch = message.batch
    books.get(batch.root) match {
      case Some(book) if book.endedRuns(batch.run) => reply(tooLate(batch))
      case Some(book) if book.run == batch.run =>
        lazy val entry = book.batches.getOrElseUpdate(batch.number, new Batch(batch.number))
        if (book.failure.nonEmpty) {
          reply(book.failure.get)
        } else if (batch.number != book.next || entry.state != BatchState.Running) {
          reply(tooLate(batch))
        } else {
          val key = if (message.named) message.store else message.store.store
          entry.stores(key) = new Batch.Registered(message.store, message.executor)
          if (entry.stores.size == 1) book.unpublishedAtEntry = book.unpublished
          if (book.gateIsOpen(batch.number) || !Rule.GateBeforeOutput.isOn) {
            reply(proceed(book))
          } else {
            entry.waitingAtGate += System.nanoTime() -> reply
          }
        }
      case _ => reply(BeSynchronous)
    }
  }

  /** The gate alone, for tasks that show output before they commit their stores. */
  def gate(batch: BatchId)(reply: Entry => Unit): Unit = synchronized {
    bookOf(batch.root, batch.run) match {
      case Some(book) if book.failure.nonEmpty => reply(book.failure.get)
      case Some(book) if batch.number == book.next && !book.gateIsOpen(batch.number) =>
        val entry = book.batches.getOrElseUpdate(batch.number, new Batch(batch.number))
        entry.waitingAtGate += System.nanoTime() -> reply
      case _ => reply(BeSynchronous)
    }
  }

  def orders(message: AwaitOrders)(reply: Orders => Unit): Unit = synchronized {
    bookOf(message.batch.root, message.batch.run).filter(_.failure.isEmpty)
      .flatMap(_.batches.get(message.batch.number)) match {
      case Some(entry) if entry.state == BatchState.Running =>
        entry.waitingForOrders += message.executor -> reply
      case Some(entry) => reply(entry.ordersFor(message.executor))
      case None => reply(Discard)
    }
  }

  /** 3. An executor has written its part. */
  def durable(message: Durable): Unit = {
    Failpoint.pass("ledger.before")
    synchronized {
      bookOf(message.batch.root, message.batch.run)
        .flatMap(book => book.batches.get(message.batch.number).map(book -> _))
        .foreach { case (book, entry) =>
          entry.stores.valuesIterator
            .filter(store => store.executor == message.executor && message.stores.contains(store.at))
            .foreach(_.durable = true)
          entry.packs += message.pack
          entry.retries += message.retries
          if (entry.state == BatchState.Applied && entry.allDurable) becomeDurable(book, entry)
        }
    }
    Failpoint.pass("ledger.after")
  }

  def notWritten(message: NotWritten): Unit = synchronized {
    // Of a batch that is published nothing can be missing: an attempt that does not count failed.
    bookOf(message.batch.root, message.batch.run).filter(_.batches.contains(message.batch.number))
      .foreach(fail(_, notWritten(message.problem, message.because)))
  }

  def durableOrGone(message: AwaitDurable)(reply: () => Unit): Unit = synchronized {
    books.get(message.root).filter(_.failure.isEmpty)
      .flatMap(_.batches.get(message.batch)) match {
      case Some(entry) if entry.state == BatchState.Applied && Rule.ReadersWait.isOn =>
        entry.waitingForDurable += reply
      case _ => reply()
    }
  }

  def executorLost(executor: String): Unit = synchronized {
    lostExecutors += executor
    if (Rule.LostExecutorFails.isOn) {
      books.values.filter(_.failure.isEmpty).foreach { book =>
        book.batches.values.find { batch =>
          batch.state == BatchState.Applied &&
            batch.stores.valuesIterator.exists(s => s.executor == executor && !s.durable)
        }.foreach(batch => fail(book, lostWith(executor, batch.number)))
      }
    }
  }

  /** Packs that no store of the checkpoint needs any more are deleted beside the batches. */
  def oldestNeeded(message: OldestNeeded): Unit = synchronized {
    books.get(message.root).foreach { book =>
      book.oldestNeeded(message.store) = message.version
      if (book.stores.nonEmpty && book.stores.forall(book.oldestNeeded.contains)) {
        val oldest = book.stores.iterator.map(book.oldestNeeded).min
        if (oldest > book.packsDeletedBelow) {
          book.packsDeletedBelow = oldest
          work.execute { () =>
            try book.packs.deleteUpTo(oldest) catch {
              case error: Exception => log.warn(s"Old packs of ${book.root} were not deleted.", error)
            }
          }
        }
      }
    }
  }

  // ---- inside, under the lock

  private def bookOf(root: String, run: String): Option[Book] =
    books.get(root).filter(_.run == run)

  private def becomeDurable(book: Book, entry: Batch): Unit = {
    entry.move(BatchState.Durable)
    entry.waitingForDurable.foreach(_())
    entry.waitingForDurable.clear()
    val batch = BatchId(book.root, book.run, entry.number)
    val known = if (book.swept) None else Some(entry.packs.toSet)
    book.swept = true
    inBackground(book, batch)(publish(batch, book.packs, entry.held, known))
  }

  /** 4. On a thread of its own: files are touched. */
  private def publish(
      batch: BatchId, packs: PackFiles, held: HeldFile, firstOfRun: Option[Set[String]]): Unit = {
    firstOfRun.foreach { written =>
      // Whoever published the batch before us is alive, and its packs are not ours to tidy.
      if (held.isTaken) throw new FileAlreadyExistsException(s"${held.name} exists already")
      retries(s"Tidying the packs of ${batch.root}")(
        packs.deleteOthers(batch.number + 1, written))
    }
    Failpoint.pass("publish.before")
    val repeated = becomeVisible(held)
    Failpoint.pass("publish.after")
    synchronized {
      bookOf(batch.root, batch.run).foreach { book =>
        book.lastRetries += repeated
        book.batches.remove(batch.number).foreach(published(book, _))
      }
      notifyAll()
    }
  }

  /** A step that seemed to fail may have been done: from the second attempt on, look first. */
  private def becomeVisible(held: HeldFile): Int = {
    var attempts = 0
    retries(s"Writing ${held.name}") {
      attempts += 1
      if (attempts == 1 || !held.isPublished) held.publish()
    }
  }

  private def published(book: Book, entry: Batch): Unit = {
    entry.move(BatchState.Published)
    book.published = math.max(book.published, entry.number)
    book.packsExist = true
    val now = System.nanoTime()
    val waited = book.batches.get(entry.number + 1)
      .flatMap(_.waitingAtGate.map(_._1).minOption).fold(0L)(now - _)
    val took = now - entry.appliedNanos
    book.lastHiddenMillis = (took - waited) / 1000000L
    book.lastRetries += entry.retries
    warnIfSlow(book, took, waited)
    openGate(book)
  }

  private def openGate(book: Book): Unit = book.batches.values
    .filter(batch => batch.waitingAtGate.nonEmpty && book.gateIsOpen(batch.number))
    .foreach { batch =>
      batch.waitingAtGate.foreach { case (_, reply) => reply(proceed(book)) }
      batch.waitingAtGate.clear()
    }

  /** The first task of a batch to go on also takes the report of the batch before. */
  private def proceed(book: Book): Proceed = {
    val report = Proceed(book.lastHiddenMillis, book.unpublishedAtEntry, book.lastRetries)
    book.lastHiddenMillis = 0L
    book.unpublishedAtEntry = 0
    book.lastRetries = 0
    report
  }

  private def warnIfSlow(book: Book, took: Long, waited: Long): Unit = {
    if (waited * 4 > took && waited > 100L * 1000000) book.slowInARow += 1 else book.slowInARow = 0
    if (book.slowInARow == SlowBatches) {
      book.slowInARow = -SlowBatches * 10 // the next warning is far away
      log.warn(s"The checkpoint ${book.root} cannot keep up: the last $SlowBatches batches waited " +
        s"for the one before to be published (the last ${waited / 1000000} of ${took / 1000000} " +
        "ms). Use a faster checkpoint location, a longer trigger interval, compression='zstd' if " +
        "the network is the limit, or fewer state changes per batch.")
    }
  }

  private def fail(book: Book, failure: Refused): Unit = {
    if (book.failure.isEmpty) log.error(s"${failure.problem} Cause: ${failure.because}")
    book.failure = book.failure.orElse(Some(failure))
    book.offsetsPending.clear()
    book.batches.values.foreach(letGo(_, book.failure.get))
    book.batches.clear()
    notifyAll()
  }

  private def letGo(batch: Batch, answer: Refused): Unit = {
    if (batch.state != BatchState.Published && batch.state != BatchState.Failed) {
      batch.move(BatchState.Failed)
    }
    batch.waitingAtGate.foreach { case (_, reply) => reply(answer) }
    batch.waitingForOrders.foreach { case (_, reply) => reply(Discard) }
    batch.waitingForDurable.foreach(_())
    batch.waitingAtGate.clear()
    batch.waitingForOrders.clear()
    batch.waitingForDurable.clear()
  }

  /** Touches files on another thread; what is under way counts as pending, also after a failure. */
  private def inBackground(book: Book, batch: BatchId)(body: => Unit): Unit = {
    book.underWay += 1
    work.execute { () =>
      val error = try {
        body
        None
      } catch {
        case error: Throwable => Some(error)
      }
      synchronized {
        book.underWay -= 1
        error.filter(_ => book.run == batch.run).foreach { cause =>
          fail(book, notWritten(s"The log entries of batch ${batch.number} of ${batch.root} could " +
            "not be written.", cause))
        }
        notifyAll()
      }
    }
  }

  private def tooLate(batch: BatchId): Refused = Refused(
    s"A task wants to commit state of batch ${batch.number} of ${batch.root}, which is over.",
    "It is an earlier attempt that was not noticed to have been given up, or the query was stopped.",
    "Nothing has to be done: the attempt that counts has committed.")

  private def endedBefore(batch: BatchId): Refused = Refused(
    s"The Spark session was stopped before batch ${batch.number} of ${batch.root} was over.",
    "Its state cannot be written any more.",
    "Restart the query: it goes on from the last published batch and runs this one again.")

  private def notWritten(problem: String, because: String): Refused = Refused(problem, because,
    "Check free space, quota, permissions and reachability of the checkpoint location, then " +
      "restart the query: it goes on from the last published batch (tailrace.supervise does so " +
      "by itself).")

  private def notWritten(problem: String, cause: Throwable): Refused = {
    val refused = notWritten(problem, cause.toString)
    cause match {
      case _: FileAlreadyExistsException => refused.copy(taken = true, because =
        s"Concurrent update to the log. Multiple streaming jobs detected: ${cause.getMessage}")
      case _ => refused
    }
  }

  private def lostWith(executor: String, batch: Long): Refused = Refused(
    s"Executor $executor was lost with state of batch $batch that was not durable yet.",
    "Its memory held the only copy of what the batch changed.",
    "Restart the query: it goes on from the last published batch and runs this one again " +
      "(tailrace.supervise does so by itself).")
}

object Ledger {
  private val log = LoggerFactory.getLogger(classOf[Ledger])
  private val SlowBatches = 10

  /** The packs of a checkpoint, as far as the ledger has to do with them. */
  trait PackFiles {
    /**
     * Deletes packs of this and later versions that are not among those written now: an earlier
     * run's, which crashed or was set back.
     */
    def deleteOthers(version: Long, written: Set[String]): Unit

    def deleteUpTo(version: Long): Unit
  }
}

/** A batch cannot be made durable or published; an IOException, as any failed write. */
final class CommitFailed(val refused: Refused)
  extends IOException(tailrace.errors.StoreError.text(
    refused.problem, refused.because, refused.remedy))
