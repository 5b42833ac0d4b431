package tailrace.cache

import java.io.IOException

import scala.collection.mutable

import tailrace.cold.{ColdEntry, ColdLog, ColdRef, ColdRefs, ColdSlots, SlotEntries}
import tailrace.io.{IoJob, IoKind, IoScheduler}
import tailrace.memory.Budget
import tailrace.metrics.LatencyHistogram

/**
 * Problem: a record that was spilled is read with the look-up that needs it: one random read after
 * the other, in the task.
 *
 * Answer: the prefetching manager of Keyed Prefetching (IV-C). The keys of the rows to come are known
 * before. The store's owner says which entries of the log they are (`expect`, `submit`); I/O threads
 * read them in the order of the disk, neighbours together, and several at a time; the entries wait
 * here until a look-up takes them. An entry is unprocessed (expected), in flight (asked of an I/O
 * thread) or has arrived. Where references were spilled, too, an I/O thread first reads the pages that
 * have them (`expectIn`, RFC 13), and then the entries.
 *
 * Invariants: no entry is read twice at a time, and a look-up that meets one in flight waits for that
 * one. Entries are copies, and a reference is never given twice: an entry here is right, or is not
 * asked for. A read that fails is as if it had not been asked for, and the look-up then finds out for
 * itself. All entries here are booked in the budget.
 *
 * Threads: `expect`, `submit`, `take`, `batchOver` and `clear` are the owner's. The lock guards the
 * fields that the owner shares with I/O threads.
 *
 * @param keeps whether entries that no look-up of their batch took stay, as records that were used do:
 *              a later batch may take them, until its own need their room, the oldest first
 */
final class PrefetchManager(
    log: ColdLog, io: IoScheduler, budget: Budget, store: String, keeps: Boolean) {
  import PrefetchManager._

  // The owner's.
  private val unprocessed = new ExpectedRefs
  private val unresolved = new ExpectedSlots
  private var isUsed = false
  private var expectedCount = 0L
  // Of the last look-up in a file of slots: a look-up and the write behind it ask for the same.
  private var lastSlots: ColdSlots = null
  private var lastHash = 0
  private var lastRefs = new ColdRefs(Array.emptyLongArray)
  // Guarded by this.
  private var fetches = mutable.LongMap.empty[AnyRef] // by reference: its Fetch, or what has Arrived
  // By file of slots and hash: its SlotFetch, or the references.
  private var resolutions = mutable.LongMap.empty[AnyRef]
  private var bytes = 0L // of all of them
  private val kept = mutable.Queue.empty[Long] // of earlier batches, the oldest first; some were taken
  private var keptBytes = 0L
  private var hintedBytes = 0L // of this batch's hints; the rest of the room is for the task's own keys
  private var pendingBytes = 0L // of entries whose references are not known yet, about
  private var entrySize = FirstEntrySize // on average
  private val counters = new PrefetchCounters
  private val access = new AccessTime
  private val requests = new LatencyHistogram
  private var isOpen = false

  /** What became of look-ups and of entries so far. */
  def counts: PrefetchCounters = synchronized(counters.copied)

  /** Entries that have arrived and were not taken yet. */
  def waiting: Long = synchronized(fetches.valuesIterator.count(_.isInstanceOf[Arrived]).toLong)

  /** Time from a request to its entries, at the 99th percentile. */
  def requestNanos: Long = requests.percentile(0.99)

  def bufferedBytes: Long = synchronized(bytes)

  /** Whether look-ups that read for themselves wait long enough for reading ahead to gain time. */
  def isWorthwhile: Boolean = synchronized(access.isLong)

  def restartClock(): Unit = synchronized { counters.waited = 0L }

  /** Whether there is room for more. */
  def hasRoom: Boolean = unprocessed.bytes +
    synchronized(bytes - keptBytes + pendingBytes) < limit

  /** The store reads ahead: the budget has a part for that from now on. */
  def open(): Unit = if (!isOpen) {
    isOpen = true
    budget.readerOpened()
  }

  def close(): Unit = {
    clear()
    if (isOpen) budget.readerClosed()
    isOpen = false
  }

  /** The store's part for entries that wait. They are on the heap. */
  private def limit: Long =
    math.max(LeastRoom, math.min(MostRoom, math.max(budget.share / 32, budget.shareOfReadAhead)))

  // ---- expecting

  /** The entry will be looked up soon. */
  def expect(ref: ColdRef): Unit = {
    isUsed = true
    expectedCount += 1
    unprocessed.add(ref)
  }

  /** How often something was expected that is not in memory. */
  def expectations: Long = expectedCount

  /** The key of this hash will be looked up soon; the file may have its reference. */
  def expectIn(slots: ColdSlots, hash: Int): Unit = {
    isUsed = true
    expectedCount += 1
    unresolved.add(slots, hash)
    unprocessed.addBytes(entrySize + ResolutionSize)
  }

  /** Has all that is expected read: the more at a time, the nearer they lie to each other. */
  def submit(origin: Origin): Unit = {
    if (!unprocessed.isEmpty) {
      val asked = synchronized(admitted(unprocessed.taken(), origin)).inOrderOfTheDisk
      asked.raw.grouped(ChunkSize).foreach(refs => submit(new Fetch(new ColdRefs(refs), origin)))
    }
    unresolved.takeAll(ChunkSize)(submitSlots(_, _, origin))
    unprocessed.clear()
  }

  /** Those that are not here yet, the first ones first, as many as there is room for. */
  private def admitted(refs: Array[Long], origin: Origin): ColdRefs = {
    val fresh = new mutable.ArrayBuilder.ofLong
    var at = 0
    var isFull = false
    while (at < refs.length && !isFull) {
      val ref = new ColdRef(refs(at))
      if (!fetches.contains(ref.raw)) {
        val isHinted = origin == Origin.Hints
        isFull = isHinted && hintedBytes + ref.size > limit / HintedPart || !mayTake(ref.size.toLong)
        if (!isFull) {
          if (isHinted) hintedBytes += ref.size
          fetches(ref.raw) = Admitted // its job follows
          fresh += ref.raw
        }
      }
      at += 1
    }
    new ColdRefs(fresh.result())
  }

  private def mayTake(size: Long): Boolean = {
    while (bytes + size > limit && dropOldest()) {}
    def fits = bytes + size <= limit && budget.tryReserveReadAhead(size)
    var isTaken = fits
    while (!isTaken && dropOldest()) isTaken = fits
    if (isTaken) bytes += size
    isTaken
  }

  /** Of those of earlier batches. */
  private def dropOldest(): Boolean = {
    var isFound = false
    while (!isFound && kept.nonEmpty) {
      val ref = new ColdRef(kept.dequeue())
      fetches.getOrNull(ref.raw) match {
        case arrived: Arrived if arrived.isKept =>
          isFound = true
          counters.vain(arrived.origin)
          remove(ref)
        case _ =>
      }
    }
    isFound
  }

  private def submit(chunk: Fetch): Unit = {
    synchronized(chunk.refs.raw.foreach(fetches(_) = chunk))
    chunk.asked = System.nanoTime()
    try chunk.ticket = io.submit(IoKind.Read, s"Reading ahead in $store")(read(chunk, _)) catch {
      case error: Throwable =>
        giveUp(chunk)
        throw error
    }
  }

  private def submitSlots(slots: ColdSlots, hashes: Array[Int], origin: Origin): Unit = {
    val wanted = synchronized(hashes.filter { hash =>
      !resolutions.contains(keyOf(slots, hash)) && mayTake(ResolutionSize)
    })
    if (wanted.nonEmpty) {
      val chunk = new SlotFetch(slots, wanted, origin)
      synchronized {
        chunk.pending = wanted.length.toLong * entrySize
        pendingBytes += chunk.pending
        wanted.foreach(hash => resolutions(keyOf(slots, hash)) = chunk)
      }
      chunk.asked = System.nanoTime()
      try chunk.ticket = io.submit(IoKind.Read, s"Reading ahead in $store")(resolve(chunk, _)) catch {
        case error: Throwable =>
          giveUp(chunk)
          throw error
      }
    }
  }

  // ---- in an I/O thread

  /** Reads the pages that have the references, then the entries. */
  private def resolve(chunk: SlotFetch, job: IoJob): Unit = {
    val entries = try {
      job.pace(chunk.slots.bytesOf(chunk.hashes))
      val found = new SlotEntries(chunk.hashes.length)
      chunk.slots.findAll(chunk.hashes)((hash, ref) => if (log.isLive(ref)) found.add(hash, ref))
      resolved(chunk, found)
    } catch {
      case _: IOException => null // the look-up finds out for itself
    } finally {
      giveUp(chunk)
    }
    if (entries != null && entries.refs.length > 0) read(entries, job)
  }

  /** The references are known; returns the entries that are to be read. */
  private def resolved(chunk: SlotFetch, found: SlotEntries): Fetch = synchronized {
    val refs = new mutable.ArrayBuilder.ofLong
    var at = 0
    chunk.hashes.foreach { hash =>
      val own = new mutable.ArrayBuilder.ofLong
      while (at < found.size && found.hash(at) == hash) {
        own += found.ref(at).raw
        at += 1
      }
      val key = keyOf(chunk.slots, hash)
      if (resolutions.getOrNull(key) eq chunk) {
        val known = own.result()
        resolutions(key) = known
        refs ++= known
      }
    }
    val wanted = refs.result()
    val entries = new Fetch(admitted(wanted, chunk.origin).inOrderOfTheDisk, chunk.origin)
    entries.ticket = chunk.ticket
    entries.asked = chunk.asked
    entries.refs.raw.foreach(fetches(_) = entries)
    notifyAll()
    entries
  }

  private def giveUp(chunk: SlotFetch): Unit = synchronized {
    pendingBytes -= chunk.pending
    chunk.pending = 0L
    chunk.hashes.foreach { hash =>
      val key = keyOf(chunk.slots, hash)
      if (resolutions.getOrNull(key) eq chunk) {
        counters.lostCount += 1
        removeResolution(key)
      }
    }
    notifyAll()
  }

  private def removeResolution(key: Long): Unit = {
    resolutions -= key
    bytes -= ResolutionSize
    budget.releaseReadAhead(ResolutionSize)
  }

  private def read(chunk: Fetch, job: IoJob): Unit = {
    val arrived = new mutable.ArrayBuffer[ColdEntry](Delivery)
    val places = new mutable.ArrayBuilder.ofLong
    def deliver(): Unit = {
      arrive(chunk, places.result(), arrived)
      places.clear()
      arrived.clear()
    }
    try {
      job.pace(chunk.refs.bytes)
      log.readHinted(chunk.refs) { (ref, entry) =>
        arrived += entry.copied
        places += ref.raw
        if (arrived.length == Delivery) deliver()
      }
    } finally {
      deliver()
      giveUp(chunk)
      requests.add(System.nanoTime() - chunk.asked)
    }
  }

  private def arrive(
      chunk: Fetch, refs: Array[Long], entries: mutable.ArrayBuffer[ColdEntry]): Unit = synchronized {
    var at = 0
    while (at < refs.length) {
      if (fetches.getOrNull(refs(at)) eq chunk) {
        fetches(refs(at)) = new Arrived(entries(at), chunk.origin)
        counters.readCount += 1
      }
      at += 1
    }
    notifyAll()
  }

  /** Entries that have not arrived will not. */
  private def giveUp(chunk: Fetch): Unit = synchronized {
    chunk.refs.raw.foreach { word =>
      if (fetches.getOrNull(word) eq chunk) {
        counters.lostCount += 1
        remove(new ColdRef(word))
      }
    }
    notifyAll()
  }

  // ---- taking

  /** The entry that a look-up needs: read ahead, or read now. */
  def take(ref: ColdRef): ColdEntry = {
    val waiting = takeFetched(ref)
    if (waiting != null) {
      waiting
    } else {
      val started = System.nanoTime()
      try log.read(ref) finally missed(ref.size, System.nanoTime() - started, records = 1)
    }
  }

  /** Cleaning has copied the entry to another place: it is asked for by that from now on. */
  def moved(ref: ColdRef, copy: ColdRef): Unit = if (isUsed) synchronized {
    fetches.getOrNull(ref.raw) match {
      case arrived: Arrived =>
        fetches -= ref.raw
        fetches(copy.raw) = arrived
        if (arrived.isKept) kept += copy.raw
      case _ => // one that is being read is not found at its new place, and is read again
    }
  }

  /** The references of a hash that a file of slots has: read ahead, or read now. */
  def refsAt(slots: ColdSlots, hash: Int): ColdRefs = {
    if ((lastSlots ne slots) || lastHash != hash) {
      val known = takeResolved(keyOf(slots, hash))
      lastRefs = new ColdRefs(if (known != null) known else readSlots(slots, hash).raw)
      lastSlots = slots
      lastHash = hash
    }
    lastRefs
  }

  private def readSlots(slots: ColdSlots, hash: Int): ColdRefs = {
    val started = System.nanoTime()
    var found = lastRefs
    try found = slots.find(hash) finally missed(entrySize, System.nanoTime() - started, records = 0)
    found
  }

  /** A task waited for spilled state that is not looked up by key. */
  def waitedSince(started: Long): Unit = synchronized {
    counters.waited += System.nanoTime() - started
  }

  private def missed(size: Long, nanos: Long, records: Int): Unit = synchronized {
    counters.missCount += records
    counters.waited += nanos
    access.add(nanos)
    entrySize += (size - entrySize) / SizeSamples
  }

  private def takeResolved(key: Long): Array[Long] = synchronized {
    resolutions.getOrNull(key) match {
      case chunk: SlotFetch =>
        val started = System.nanoTime()
        while (resolutions.getOrNull(key) eq chunk) {
          if (chunk.isOver) giveUp(chunk) else wait(LookMillis)
        }
        counters.waited += System.nanoTime() - started
      case _ =>
    }
    resolutions.getOrNull(key) match {
      case refs: Array[Long] =>
        removeResolution(key)
        refs
      case _ => null
    }
  }

  private def takeFetched(ref: ColdRef): ColdEntry = synchronized {
    fetches.getOrNull(ref.raw) match {
      case arrived: Arrived =>
        counters.hit(arrived.origin)
        remove(ref)
        arrived.entry
      case chunk: Fetch => awaited(ref, chunk)
      case _ => null
    }
  }

  /** The entry, as soon as it arrives; null: it does not. */
  private def awaited(ref: ColdRef, chunk: Fetch): ColdEntry = {
    val started = System.nanoTime()
    while (fetches.getOrNull(ref.raw) eq chunk) {
      // A job that never began gives no notice of its end.
      if (chunk.isOver) giveUp(chunk) else wait(LookMillis)
    }
    counters.waited += System.nanoTime() - started
    fetches.getOrNull(ref.raw) match {
      case arrived: Arrived =>
        counters.lateCount += 1
        remove(ref)
        arrived.entry
      case _ => null
    }
  }

  /** Entries that were not taken stay, or were read in vain. What is under way is given up. */
  def batchOver(): Unit = if (keeps && isUsed) {
    val arrived = mutable.LongMap.empty[AnyRef]
    synchronized {
      keptBytes = 0L
      fetches.foreach {
        case (ref, found: Arrived) =>
          arrived(ref) = found
          keptBytes += new ColdRef(ref).size
          if (!found.isKept) kept += ref
          found.isKept = true
        case _ =>
      }
      arrived.foreachKey(fetches -= _)
      bytes -= keptBytes
      giveUpAll()
      fetches = arrived
      bytes = keptBytes
      if (kept.size > 2 * arrived.size + FewRefs) kept.filterInPlace(arrived.contains)
    }
    isUsed = arrived.nonEmpty
  } else {
    clear()
  }

  /** Gives up all. Tables that have grown are given up, too. */
  def clear(): Unit = if (isUsed) {
    isUsed = false
    synchronized {
      giveUpAll()
      kept.clear()
      keptBytes = 0L
    }
  }

  private def giveUpAll(): Unit = {
    unprocessed.clear()
    unresolved.clear()
    resolutions.foreachValue {
      case chunk: SlotFetch =>
        chunk.cancel()
        pendingBytes -= chunk.pending // a job that never began does not give it up
        chunk.pending = 0L
      case _ =>
    }
    resolutions = mutable.LongMap.empty[AnyRef]
    fetches.foreachValue {
      case chunk: Fetch => chunk.cancel()
      case arrived: Arrived => counters.vain(arrived.origin)
      case _ =>
    }
    fetches = mutable.LongMap.empty[AnyRef]
    budget.releaseReadAhead(bytes)
    bytes = 0L
    hintedBytes = 0L
  }

  private def remove(ref: ColdRef): Unit = {
    fetches.getOrNull(ref.raw) match {
      case arrived: Arrived if arrived.isKept => keptBytes -= ref.size
      case found: ReadFor if found.origin == Origin.Hints => hintedBytes -= ref.size
      case _ =>
    }
    fetches -= ref.raw
    bytes -= ref.size
    budget.releaseReadAhead(ref.size.toLong)
  }
}

object PrefetchManager {
  /** The entries of a job. Jobs run beside each other: a disk answers many requests at a time. */
  private val ChunkSize = 256
  /** A look-up that waits for an entry does not wait for the whole job. */
  private val Delivery = 32
  private val LeastRoom = 256L << 10
  private val MostRoom = 32L << 20
  private val LookMillis = 50L
  private val FewRefs = 64
  /** Of the room: hints take no more, because the task knows the order of its look-ups. */
  private val HintedPart = 2

  /** Of a hash whose references are known, or asked for. */
  private val ResolutionSize = 64L
  private val FirstEntrySize = 128L
  private val SizeSamples = 64

  private object Admitted
  private def keyOf(slots: ColdSlots, hash: Int): Long = slots.id.toLong << 32 | hash & 0xffffffffL
}
