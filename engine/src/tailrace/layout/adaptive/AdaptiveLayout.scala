package tailrace.layout.adaptive

import org.apache.spark.unsafe.Platform

import tailrace.layout.{ColdRecords, Cursor, Epoch, Layout, Migration, OrderedScans, Record}
import tailrace.layout.RecordMover
import tailrace.layout.hash.HashLayout
import tailrace.layout.ordered.{OrderedLayout, SortWord}
import tailrace.memory.{AddressList, Budget}

/**
 * Problem: keys that can be scanned in order, of which neither the plan nor a hint says whether they
 * ever will be. The sorted layout serves every use; a hash table serves point access better.
 *
 * Answer (APSys '18, 4.3): start sorted and watch. After some thousand accesses by key without a
 * scan, move to a hash table, step by step between the batches (see [[Pace]]). Until it is complete
 * both are kept up to date, and the sorted one answers. A scan that comes after all sorts the entries
 * again, and then they stay sorted: a query does not change its use back and forth for long.
 *
 * Layouts hold addresses and no file names them, so a process that is killed in between has
 * nothing to mend: the next one starts sorted and watches again.
 *
 * Invariant: `sorted` or `hashed`, whichever is said to be complete, has every record; one that is
 * not null has no record that was replaced or removed.
 */
final class AdaptiveLayout(
    budget: Budget, word: SortWord, cold: ColdRecords, epoch: Epoch, pace: Pace) extends Layout {
  import AdaptiveLayout._

  private var sorted = new OrderedLayout(budget, word)
  private var hashed: HashLayout = null
  private var phase: Phase = Watching
  private var accesses = 0L // reads and removals: a load only puts
  private var movedTo: Array[Byte] = null // the key up to which entries have moved

  override def migration: Migration = phase match {
    case Moving => Migration.UnderWay
    case Hashed => Migration.Done
    case _ => Migration.None
  }

  private def complete: Layout = if (sorted != null) sorted else hashed

  override def size: Long = complete.size

  override def overheadBytes: Long =
    (if (sorted == null) 0L else sorted.overheadBytes) +
      (if (hashed == null) 0L else hashed.overheadBytes)

  override def get(base: AnyRef, offset: Long, length: Int): Record = {
    accesses += 1
    complete.get(base, offset, length)
  }

  override def put(base: AnyRef, offset: Long, length: Int, record: Record): Record = {
    if (sorted != null && hashed != null) {
      hashed.put(base, offset, length, record)
      () // an `if` whose value is a record or nothing would make an object of the record
    }
    complete.put(base, offset, length, record)
  }

  override def remove(base: AnyRef, offset: Long, length: Int): Record = {
    accesses += 1
    if (sorted != null && hashed != null) {
      hashed.remove(base, offset, length)
      () // as above
    }
    complete.remove(base, offset, length)
  }

  override def cursor(): Cursor = complete.cursor()

  override def copyTo(addresses: AddressList): Unit = complete.copyTo(addresses)

  override def relocate(move: RecordMover): Unit =
    if (sorted != null && hashed != null) {
      stopMoving() // `move` copies a record, so it must see each once
      sorted.relocate(move)
    } else {
      complete.relocate(move)
    }

  override def close(): Unit = {
    if (sorted != null) sorted.close()
    if (hashed != null) hashed.close()
  }

  override def inOrder: OrderedScans = {
    if (sorted == null) {
      sorted = new OrderedLayout(budget, word)
      val cursor = hashed.cursor()
      var record = cursor.next()
      while (record.exists) {
        sorted.put(null, record.keyAddress, record.keyLength, record)
        record = cursor.next()
      }
    }
    stopMoving()
    phase = Scanned
    sorted
  }

  override def betweenBatches(): Unit = phase match {
    case Watching if accesses >= pace.watched =>
      hashed = new HashLayout(budget, cold, epoch)
      hashed.reserve(sorted.size)
      phase = Moving
      move()
    case Moving => move()
    case _ =>
  }

  private def move(): Unit = {
    val cursor = sorted.rangeCursor(movedTo, null)
    var last = Record.None
    var steps = 0
    var record = cursor.next()
    while (record.exists && steps < pace.step) {
      hashed.put(null, record.keyAddress, record.keyLength, record)
      last = record
      steps += 1
      record = cursor.next()
    }
    if (record.isNone) {
      sorted.close()
      sorted = null
      movedTo = null
      phase = Hashed
    } else {
      movedTo = new Array[Byte](last.keyLength)
      Platform.copyMemory(null, last.keyAddress, movedTo,
        Platform.BYTE_ARRAY_OFFSET.toLong, movedTo.length.toLong)
    }
  }

  private def stopMoving(): Unit = {
    if (hashed != null) hashed.close()
    hashed = null
    movedTo = null
    accesses = 0L
    phase = Watching
  }
}

object AdaptiveLayout {
  sealed trait Phase
  case object Watching extends Phase
  case object Moving extends Phase
  case object Hashed extends Phase
  case object Scanned extends Phase
}

/**
 * @param watched how many accesses without a scan say that there will be none
 * @param step    entries that move between two batches
 */
final case class Pace(watched: Long, step: Int)

object Pace {
  val Usual: Pace = Pace(10000, 20000)
  /** For tests: every history sees every phase. */
  val Hasty: Pace = Pace(10, 5)
}
