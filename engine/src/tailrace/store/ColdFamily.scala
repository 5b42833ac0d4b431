package tailrace.store

import tailrace.cache.PrefetchManager
import tailrace.cold.{ColdEntry, ColdLog, ColdRef, ColdSlots, ExpectedRead, ReadAhead, RefVisitor}
import tailrace.layout.{ColdRecords, ColdView, Node, Nodes, Record, SlotWord, Spillable}
import tailrace.layout.time.{TimeColumn, TimeIndex}
import tailrace.memory.Arena

/**
 * The spilled part of a family, and how it is read again (RFC 8).
 *
 *  - A family with one value per key: whole records are spilled; the table's slot then has a
 *    reference. Any look-up that meets it fetches the record.
 *  - A family of lists: values are spilled; the key stays, with a node for all values that were
 *    spilled together. They are read where they are, and never fetched.
 *  - Ordered families stay in memory: they compare keys all the time.
 *
 * Invariants: a reference is in a slot, a node or a frozen version, and never in a batch's
 * [[Changes]]. A copy in the log and one in memory never both count.
 *
 * @param readRatio how many of the living lists are read at a time (FlowKV's read batch ratio)
 */
private[store] final class ColdFamily(
    family: Family, index: TimeIndex, log: ColdLog, prefetch: PrefetchManager, arena: () => Arena,
    readRatio: Double)
  extends ColdRecords {

  val ahead = new ReadAhead(log)
  private val views = new scala.collection.mutable.ArrayBuffer[View]
  private var fetchedCount = 0L

  private def table: Spillable = family.layout.spillable.getOrElse(
    throw new IllegalStateException(s"records of ${family.name} are never spilled"))

  /** How many records were fetched. */
  def fetched: Long = fetchedCount

  // ---- records

  override def fetch(ref: ColdRef): Record = fetch(ref, prefetch.take(ref))

  /** Of a key that is looked up soon: if its record was spilled, it can be read ahead. */
  def expect(base: AnyRef, offset: Long, length: Int, stamp: Int): Unit = {
    val spillable = family.layout.spillable
    if (spillable.isDefined) expectHash(spillable.get.hashOf(base, offset, length), stamp)
  }

  def expectHash(hash: Int, stamp: Int): Unit = {
    val spillable = family.layout.spillable
    if (spillable.isDefined) {
      // Another key in a file may have the same hash: it is read when it is looked up.
      val isInSlots = spillable.get.expectAt(hash, stamp, expected)
      val slots = if (isInSlots) null else spillable.get.slotsAt(hash)
      if (slots != null) prefetch.expectIn(slots, hash)
    }
  }

  private val expected: RefVisitor = ref => prefetch.expect(ref)

  override def fetchFrom(
      slots: ColdSlots, hash: Int, keyBase: AnyRef, keyOffset: Long, keyLength: Int): Record = {
    val refs = prefetch.refsAt(slots, hash)
    var at = 0
    while (at < refs.length) {
      if (log.isLive(refs(at))) {
        val found = prefetch.take(refs(at))
        if (found.hasKey(keyBase, keyOffset, keyLength)) return fetch(refs(at), found)
      }
      at += 1
    }
    Record.None
  }

  override def isLive(ref: ColdRef): Boolean = log.isLive(ref)

  private def fetch(ref: ColdRef, found: ColdEntry): Record = {
    val record = family.resident(arena(), found)
    log.free(ref)
    fetchedCount += 1
    record
  }

  /** A cursor has references that may be given up before it comes to them: no file is deleted. */
  override def newView(): ColdView = {
    val view = new View
    views += view
    log.pin()
    view
  }

  /** No cursor moves any more. */
  def closeViews(): Unit = {
    views.foreach { view =>
      view.close()
      log.unpin()
    }
    views.clear()
  }

  /** A cursor looks one record ahead, and its user at the one before. */
  private final class View extends ColdView {
    private val shown = new Array[Long](4) // addresses of records
    private var next = 0

    override def apply(ref: ColdRef): Record = {
      val started = System.nanoTime()
      val found = log.read(ref)
      prefetch.waitedSince(started)
      release(next)
      val copy = Record.create(arena(), tailed = false, found.bytes, found.key, found.keyLength,
        found.bytes, found.payload, found.payloadLength)
      copy.clearBatchMarks()
      shown(next) = copy.address
      next = (next + 1) % shown.length
      copy
    }

    def close(): Unit = shown.indices.foreach(release)

    private def release(place: Int): Unit = if (shown(place) != 0L) {
      new Record(shown(place)).free(arena())
      shown(place) = 0L
    }
  }

  /** Those that are due, or in the bucket of the watermark, are in memory again. */
  def fetchDue(upTo: Long): Unit = {
    index.touchDue(upTo) // not spilled while the others are fetched
    val refs = index.takeCold(upTo).filter(log.isLive)
    if (refs.length > 0) {
      val started = System.nanoTime()
      log.readAll(refs) { (ref, found) =>
        val hash = table.hashOf(found.bytes, found.key, found.keyLength)
        val word = SlotWord.of(ref)
        if (table.isAt(hash, word)) {
          table.exchange(hash, word, family.resident(arena(), found).word)
          log.free(ref) // after the exchange: a live reference is in the table
          fetchedCount += 1
        }
      }
      prefetch.waitedSince(started)
    }
  }

  // ---- reading lists

  /** The values of a cold node of a list, and on the way those that are expected to be read next. */
  def read(node: Node): ColdEntry = {
    val started = System.nanoTime()
    try ahead.read(node.coldRef, expectedNext()) finally prefetch.waitedSince(started)
  }

  /** For a thread that does not own the store: nothing is kept. */
  def readOnce(ref: ColdRef): ColdEntry = log.read(ref)

  /** References and times of the lists that are due first. */
  private def expectedNext(): Iterator[ExpectedRead] =
    if (index == null) {
      Iterator.empty
    } else {
      val most = (family.layout.size * readRatio).toInt
      index.earliestFirst().map(expectedReads).take(most).flatten
    }

  private def expectedReads(list: Record): Iterator[ExpectedRead] = {
    val nodes = list.nodes
    nodes.raw.indices.iterator.filter(nodes(_).isCold)
      .map(place => new ExpectedRead(nodes(place).coldRef, index.column.of(list)))
  }

  /** Between batches: gives up entries that were read ahead for a time that has moved. */
  def betweenBatches(): Unit = {
    closeViews()
    ahead.review { found =>
      val record = family.layout.get(found.bytes, found.key, found.keyLength)
      if (record.isNone) TimeColumn.Never else index.column.of(record)
    }
    // Cleaning gives records new references: those they had before are forgotten from time to time.
    if (index != null && index.coldSize > 2 * family.layout.size + ColdFamily.FewRefs) {
      index.pruneCold(log.isLive)
    }
  }

  /** The node and its values are not needed any more. */
  def freeNode(node: Node): Unit = {
    ahead.forget(node.coldRef)
    log.free(node.coldRef)
  }

  // ---- cleaning

  /** Cleaning has copied the entry to another segment: its references move to the copy. */
  def move(ref: ColdRef, found: ColdEntry, copy: ColdRef): Boolean = {
    val moved = if (found.count == 0) moveRecord(ref, found, copy) else moveValues(ref, found, copy)
    log.free(if (moved) ref else copy)
    moved
  }

  private def moveRecord(ref: ColdRef, found: ColdEntry, copy: ColdRef): Boolean = {
    val hash = table.hashOf(found.bytes, found.key, found.keyLength)
    val moved = table.exchange(hash, SlotWord.of(ref), SlotWord.of(copy))
    if (moved) {
      if (index != null) index.addCold(index.column.of(found), copy)
      prefetch.moved(ref, copy)
    }
    moved
  }

  private def moveValues(ref: ColdRef, found: ColdEntry, copy: ColdRef): Boolean = {
    val record = family.layout.get(found.bytes, found.key, found.keyLength)
    val nodes = if (record.isNone) Nodes.Empty else record.nodes
    val place = nodes.indexWhere(node => node.isCold && node.coldRef == ref)
    if (place >= 0) {
      ahead.forget(ref)
      // A frozen version may show the node: its writer reads the old place or the new one.
      nodes(place).setColdRef(copy)
    }
    place >= 0
  }

  /** The family ends; its records are not asked for again. */
  def giveUp(): Unit = {
    ahead.clear()
    if (!log.isEmpty) family.layout.spillable.foreach(_.foreachWord { word =>
      if (word.isCold) log.free(word.ref)
      else if (family.kind.multiValue) freeValues(word.record)
    })
  }

  private def freeValues(list: Record): Unit =
    list.nodes.foreach(node => if (node.isCold) log.free(node.coldRef))
}

private object ColdFamily {
  val FewRefs = 1024
}
