package tailrace.memory

import java.lang.management.ManagementFactory
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import tailrace.errors.MemoryExhausted

/**
 * Problem: off-heap memory has no limit of its own; a state that outgrows the machine would bring
 * in the kernel's out-of-memory killer, which does not say why.
 *
 * Answer: every chunk of every arena of this process is booked here before it is allocated. A
 * chunk that does not fit is refused with an error that says what to change. Records that can be
 * spilled may not use an eighth of the limit: tables, changes and the addresses of a snapshot cannot
 * be spilled, and grow while a batch runs. Another eighth is for records that are read ahead, where
 * stores do that (RFC 17): they are there for look-ups to come and must not drive out the others, nor
 * be driven out.
 *
 * @param poisons for debugging: memory that is freed is overwritten, so that code that still reads it
 *                is noticed
 *
 * Invariant: `used` is the sum of all live reservations, and never above the limit after
 * `reserve` has returned, but for bytes overdrawn to free more.
 */
final class Budget(defaultLimit: Long, val poisons: Boolean = false) {
  import Budget._

  private val booked = new AtomicLong(0L)
  private val refused = new AtomicLong(0L)
  private val tables = new AtomicInteger(0)
  private val readers = new AtomicInteger(0)
  private val readAhead = new AtomicLong(0L)
  private val starved = new AtomicLong(0L)
  @volatile private var limitBytes: Long = defaultLimit

  def used: Long = booked.get()

  /** How often memory was refused: a change that was being made may have been made by half. */
  def refusals: Long = refused.get()

  def limit: Long = limitBytes

  /** A smaller limit takes nothing back: stores spill until they keep to it. */
  def limit_=(bytes: Long): Unit = limitBytes = bytes

  /** Takes the bytes if they fit. */
  def tryReserve(bytes: Long): Boolean = tryReserve(bytes, limitBytes)

  /** The bytes that can be taken at once, with some left for a batch. */
  def spare: Long = math.max(0L, limitBytes - limitBytes / HeadroomPart / 2 - used)

  def tryReserveSpare(bytes: Long): Boolean =
    tryReserve(bytes, limitBytes - limitBytes / HeadroomPart / 2)

  /** The same for records, which may not use the parts for tables and changes and for reading ahead. */
  def tryReserveForRecords(bytes: Long): Boolean =
    tryReserve(bytes, limitForRecords + readAhead.get())

  /** Bytes that do not fit are not booked for a moment: another reservation would fail for them. */
  private def tryReserve(bytes: Long, most: Long): Boolean = {
    var present = booked.get()
    while (present + bytes <= most) {
      if (booked.compareAndSet(present, present + bytes)) return true
      present = booked.get()
    }
    false
  }

  def reserve(bytes: Long): Unit = if (!tryReserve(bytes)) {
    borrow()
    if (!tryReserve(bytes)) {
      refused.incrementAndGet()
      throw new MemoryExhausted(bytes, used, limitBytes)
    }
  }

  /**
   * Takes bytes also if they do not fit: for data that is needed to free much more at once, such as
   * the references to records that are spilled because memory is at its end.
   */
  def overdraw(bytes: Long): Unit = booked.addAndGet(bytes)

  def release(bytes: Long): Unit = booked.addAndGet(-bytes)

  // ---- the stores that share the limit

  /** The limit without the part for reading ahead. */
  private def ownLimit: Long = limitBytes - readAheadPart

  /** All that is in use, but for records that were read ahead. */
  private def ownUse: Long = used - readAhead.get()

  private def limitForRecords: Long = {
    val part = limitBytes / HeadroomPart
    ownLimit - part - math.min(part, SplitBytes) // a segment of a table grows by copying
  }

  /** The bytes that records can still take. */
  def roomForRecords: Long = math.max(0L, limitForRecords - ownUse)

  /** The part for tables, changes and snapshots is being used up. */
  def isShort: Boolean = ownUse > limitForRecords + (ownLimit - limitForRecords) / 4

  /** Half of that part is gone. */
  def isNearlyUsedUp: Boolean = ownUse > limitForRecords + (ownLimit - limitForRecords) / 2

  /** From here on no store takes more than its share. */
  def isTight: Boolean = ownUse > ownLimit * TightAt

  /** Less than half is in use. State that spills keeps more than that in use. */
  def isAmple: Boolean = ownUse < ownLimit / 2

  // ---- records that are read ahead of their look-ups

  /** As long as a store reads ahead, a part of the limit is for records that wait for look-ups. */
  def readerOpened(): Unit = readers.incrementAndGet()

  def readerClosed(): Unit = readers.decrementAndGet()

  private def readAheadPart: Long = if (readers.get() > 0) limitBytes / ReadAheadPart else 0L

  /** An equal part of it for every store. */
  def shareOfReadAhead: Long = readAheadPart / math.max(1, tables.get())

  /** Takes bytes for a record that is read ahead, if they fit; some are left for a batch. */
  def tryReserveReadAhead(bytes: Long): Boolean = {
    val fits = tryReserveSpare(bytes)
    if (fits) readAhead.addAndGet(bytes)
    fits
  }

  def releaseReadAhead(bytes: Long): Unit = {
    readAhead.addAndGet(-bytes)
    release(bytes)
  }

  def storeOpened(): Unit = tables.incrementAndGet()

  def storeClosed(): Unit = tables.decrementAndGet()

  /** An equal part of the limit for every store that is open. */
  def share: Long = limitForRecords / math.max(1, tables.get())

  /** A store below its share was refused memory: those above theirs give some back. */
  def starves(): Unit = starved.incrementAndGet()

  def starvations: Long = starved.get()

  private val lenders = ConcurrentHashMap.newKeySet[Lender]
  private val isBorrowing = ThreadLocal.withInitial[Boolean](() => false)

  def addLender(lender: Lender): Unit = lenders.add(lender)

  def removeLender(lender: Lender): Unit = lenders.remove(lender)

  /** A store that has more than this gives memory back while it stands still. */
  def lendsAbove: Long = share + share / 4

  /**
   * Asks the stores that stand still for the memory that they have above their share, one after the
   * other, until there is some. A store that gives memory back asks no other.
   */
  def borrow(): Unit = if (!isBorrowing.get()) {
    isBorrowing.set(true)
    try {
      val each = lenders.iterator()
      while (each.hasNext && roomForRecords < share / 4) each.next().giveBack()
    } finally {
      isBorrowing.set(false)
    }
  }
}

object Budget {
  /** A store that may stand still. */
  @FunctionalInterface
  trait Lender {
    /** Gives back memory above the store's share, unless a task uses the store. */
    def giveBack(): Unit
  }

  private val TightAt = 0.75
  private val HeadroomPart = 8
  private val ReadAheadPart = 8
  private val SplitBytes = 2L << 20

  /** 70 % of the machine's memory: the rest is for the heap, Python workers and page cache. */
  def defaultLimit: Long = ManagementFactory.getOperatingSystemMXBean match {
    case os: com.sun.management.OperatingSystemMXBean => (os.getTotalMemorySize * 0.7).toLong
    case _ => Long.MaxValue
  }
}
