package tailrace.store

import tailrace.cold.{ColdEntry, ColdLog, ColdRef, ReadAhead}
import tailrace.layout.{Away, Record}
import tailrace.layout.hash.HashLayout
import tailrace.layout.time.{TimeColumn, TimeIndex}
import tailrace.memory.Arena

/**
 * What of a family has left memory, how it leaves and how it comes back (RFC 8).
 *
 *  - A family with one value per key: whole records leave, the oldest first (a clock hand goes round
 *    the table); the table's slot then has a reference. Any look-up that meets it brings it back.
 *  - A family of lists: values leave, those first that are read last; the key stays, with a node
 *    for all values that left together. They are read where they are, and never come back.
 *  - Ordered families stay in memory: they compare keys all the time.
 *
 * Invariants: something leaves only between batches, when nothing can be undone; so a reference is
 * in a slot, a node or an image, and never in a batch's [[Changes]]. A copy in the log and one in
 * memory never both count.
 *
 * @param readRatio how many of the living lists are read at a time (FlowKV's read batch ratio)
 */
private[store] final class ColdPart(
    family: Family, index: TimeIndex, log: ColdLog, arena: () => Arena, readRatio: Double)
  extends Away {

  private val entry = new ColdEntry.Builder
  val ahead = new ReadAhead(log)
  private val views = new scala.collection.mutable.ArrayBuffer[View]
  private var returned = 0L

  private def table: HashLayout = family.layout.asInstanceOf[HashLayout]

  /** How many records were brought back. */
  def broughtBack: Long = returned

  // ---- records

  override def bringBack(ref: Long): Long = bringBack(ref, log.read(ref))

  private def bringBack(ref: Long, found: ColdEntry): Long = {
    val record = family.resident(arena(), found)
    log.free(ref)
    returned += 1
    record
  }

  override def newView(): Long => Long = {
    val view = new View
    views += view
    view
  }

  /** A cursor looks one record ahead, and its user at the one before. */
  private final class View extends (Long => Long) {
    private val shown = new Array[Long](4)
    private var next = 0

    override def apply(ref: Long): Long = {
      val found = log.read(ref)
      release(next)
      val copy = Record.create(arena(), tailed = false, found.bytes, found.key, found.keyLength,
        found.bytes, found.payload, found.payloadLength)
      Record.settle(copy)
      shown(next) = copy
      next = (next + 1) % shown.length
      copy
    }

    def close(): Unit = shown.indices.foreach(release)

    private def release(place: Int): Unit = if (shown(place) != 0L) {
      Record.free(arena(), shown(place))
      shown(place) = 0L
    }
  }

  /** Those that are due, or in the bucket of the watermark, are in memory again. */
  def bringBackDue(upTo: Long): Unit = if (index != null) {
    val refs = index.takeAway(upTo).filter(log.hasSegmentOf)
    if (refs.nonEmpty) {
      log.readAll(refs) { (ref, found) =>
        // Not current: the record has come back since, and was perhaps replaced.
        if (table.isAt(found.bytes, found.key, found.keyLength, ref)) {
          table.exchange(found.bytes, found.key, found.keyLength, ref, bringBack(ref, found))
        }
      }
    }
  }

  // ---- leaving

  /** Makes at least `wanted` bytes free, if there is as much. What is free then goes to `freed`. */
  def leave(wanted: Long, freed: Changes): Long =
    if (!family.layout.isInstanceOf[HashLayout] || wanted <= 0) 0L
    else if (family.kind.multiValue) listsLeave(wanted, freed)
    else recordsLeave(wanted, freed)

  private def recordsLeave(wanted: Long, freed: Changes): Long = {
    var gained = 0L
    var round = 0
    while (gained < wanted && round < 2) { // what the first spares as recent goes in the second
      table.sweep(() => gained < wanted) { record =>
        if (Record.isRecent(record)) {
          Record.markOld(record)
          record
        } else {
          gained += Record.size(record)
          recordLeaves(record, freed)
        }
      }
      round += 1
    }
    gained
  }

  private def recordLeaves(record: Long, freed: Changes): Long = {
    entry.start(family.id, 0, null, Record.keyAddress(record), Record.keyLength(record))
    entry.value(null, Record.valueAddress(record), Record.valueLength(record))
    entry.finish()
    if (entry.size > ColdRef.LargestSize) return record
    val ref = log.append(ColdPart.CommonLane, entry.bytes, 0, entry.size)
    if (index != null) index.goesAway(record, ref)
    freed.add(Change.Left, family.id, record, 0L)
    ref
  }

  /** Lists with many values in memory first: what stays of each in memory is the same. */
  private def listsLeave(wanted: Long, freed: Changes): Long = {
    val gained = listsLeave(wanted, freed, ColdPart.ManyValues)
    if (gained >= wanted) gained else gained + listsLeave(wanted - gained, freed, 1)
  }

  private def listsLeave(wanted: Long, freed: Changes, least: Int): Long = {
    val expected = if (index != null) index.latestFirst() else Iterator.empty[Long]
    val others = family.layout.cursor()
    val all = expected ++ Iterator.continually(others.next()).takeWhile(_ != 0L)
      .filter(record => index == null || !index.has(record))
    var gained = 0L
    while (gained < wanted && all.hasNext) gained += listLeaves(all.next(), freed, least)
    gained
  }

  private def listLeaves(record: Long, freed: Changes, least: Int): Long = {
    val nodes = Record.nodes(record) // the cold ones are the oldest
    val warm = nodes.indexWhere(Record.coldValues(_) == 0)
    if (warm < 0 || nodes.length - warm < least) return 0L
    val first = firstToLeave(nodes, warm)
    val leaving = nodes.drop(first)
    entry.start(family.id, leaving.map(node => math.max(1, Record.coldValues(node))).sum,
      null, Record.keyAddress(record), Record.keyLength(record))
    leaving.foreach { node =>
      if (Record.coldValues(node) == 0) {
        entry.listValue(null, Record.nodeValue(node), Record.nodeLength(node))
      } else {
        log.read(Record.coldRef(node)).values.foreach { case (bytes, offset, length) =>
          entry.listValue(bytes, offset, length)
        }
      }
    }
    entry.finish()
    if (entry.size > ColdRef.LargestSize) return 0L
    val lane = if (index != null && index.column.inKey) index.column.of(record)
      else ColdPart.CommonLane
    val ref = log.append(lane, entry.bytes, 0, entry.size)
    val below = if (first == 0) 0L else nodes(first - 1)
    val node = Record.createColdNode(arena(), below, ref, entry.values)
    family.replaceList(arena(), record, if (below == 0L) node else Record.listFirst(record), node)
    freed.add(Change.PartLeft, family.id, record, below)
    leaving.iterator.map(Record.nodeSize).sum
  }

  /**
   * From which node on the list leaves. A list that leaves a few values at a time would have many
   * small entries, each with a node in memory: from time to time they are written as one.
   */
  private def firstToLeave(nodes: Array[Long], warm: Int): Int = {
    var small = warm
    while (small > 0 && Record.coldValues(nodes(small - 1)) < ColdPart.LargeEntry) small -= 1
    if (warm - small < ColdPart.ManyEntries) warm else small
  }

  // ---- reading lists

  /** The values of a cold node of a list, and on the way those that are expected to be read next. */
  def read(node: Long): ColdEntry = ahead.read(Record.coldRef(node), expectedNext())

  /** For a snapshot, in its own thread: nothing is kept. */
  def readOnce(ref: Long): ColdEntry = log.read(ref)

  /** References and times of the lists that fall due first. */
  private def expectedNext(): Iterator[(Long, Long)] =
    if (index == null) {
      Iterator.empty
    } else {
      val most = (family.layout.size * readRatio).toInt
      index.earliestFirst().take(most)
        .flatMap(record => coldRefs(record).map(_ -> index.column.of(record)))
    }

  private def coldRefs(record: Long): Iterator[Long] =
    Record.nodes(record).iterator.filter(Record.coldValues(_) > 0).map(Record.coldRef)

  /** Between batches: gives up what was read ahead for a time that has moved. */
  def settle(): Unit = {
    views.foreach(_.close())
    views.clear()
    ahead.review { found =>
      val record = family.layout.get(found.bytes, found.key, found.keyLength)
      if (record == 0L) TimeColumn.Never else index.column.of(record)
    }
  }

  /** The node, and what it stands for, is nobody's any more. */
  def freeNode(node: Long): Unit = {
    ahead.forget(Record.coldRef(node))
    log.free(Record.coldRef(node))
  }

  // ---- cleaning

  /** If the entry is alive, it is written once more, and the old one given up. */
  def keep(ref: Long, found: ColdEntry): Unit =
    if (found.count == 0) keepRecord(ref, found) else keepValues(ref, found)

  private def keepRecord(ref: Long, found: ColdEntry): Unit =
    if (table.isAt(found.bytes, found.key, found.keyLength, ref)) {
      val copy = log.append(ColdPart.CommonLane, found.bytes, found.start, found.size)
      table.exchange(found.bytes, found.key, found.keyLength, ref, copy)
      if (index != null) index.away(index.column.of(found), copy)
      log.free(ref)
    }

  private def keepValues(ref: Long, found: ColdEntry): Unit = {
    val record = family.layout.get(found.bytes, found.key, found.keyLength)
    if (record != 0L) {
      Record.nodes(record)
        .find(node => Record.coldValues(node) > 0 && Record.coldRef(node) == ref)
        .foreach { node =>
          ahead.forget(ref)
          val copy = log.append(ColdPart.CommonLane, found.bytes, found.start, found.size)
          // An image may show the node: its writer reads the old place or the new one.
          if (log.isPinned) log.flush()
          Record.setColdRef(node, copy)
          log.free(ref)
        }
    }
  }

  /** The family ends; its records are not asked for again. */
  def giveUp(): Unit = {
    ahead.clear()
    if (!log.isEmpty) family.layout match {
      case hash: HashLayout => hash.foreachWord { word =>
        if (ColdRef.isCold(word)) log.free(word)
        else if (family.kind.multiValue) coldRefs(word).foreach(log.free)
      }
      case _ =>
    }
  }
}

private[store] object ColdPart {
  /** Of everything that does not fall due with the rest of a window. */
  val CommonLane: Long = Long.MinValue

  private val ManyValues = 8
  /** Values with which an entry is not written again. */
  private val LargeEntry = 64
  private val ManyEntries = 8
}
