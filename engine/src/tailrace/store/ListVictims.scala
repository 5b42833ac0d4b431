package tailrace.store

import scala.collection.mutable

import tailrace.cold.{ColdEntry, ColdLog, ColdReader, ColdRef, ColdWriter}
import tailrace.io.IoPieces
import tailrace.layout.{Epoch, Node, Nodes, Record, Spillable}
import tailrace.layout.time.TimeIndex

/**
 * Values of lists, those first that are read last. Of each list all values in memory go together, as
 * one entry; a node of 24 bytes takes their place.
 */
private[store] final class ListVictims(
    family: Family, table: Spillable, index: TimeIndex, log: ColdLog, epoch: Epoch,
    readCold: ColdReader)
  extends Victims {
  import ListVictims._

  private val lists = mutable.ArrayBuffer.empty[Candidate]
  private var size = 0L
  private var passedOver = false
  private var stayed = 0

  override def returned: Int = stayed

  /** Whether a list was seen that has values in memory. */
  def sawWarm: Boolean = passedOver

  override def count: Int = lists.length

  override def bytes: Long = size

  /**
   * @param least lists with fewer values in memory are passed over: as much of each stays in memory
   * @return false: all lists were looked at
   */
  def pick(round: Round, wantedBytes: Long, most: Int, least: Int): Boolean = {
    def isEnough = size >= wantedBytes || lists.length >= most

    if (index != null) {
      val buckets = index.bucketsUpTo(round.bucket)
      while (!isEnough && buckets.hasNext) {
        val (id, records) = buckets.next()
        if (id != round.bucket) round.goTo(id)
        while (!isEnough && round.place < records.length) {
          val record = records(round.place)
          consider(hashOf(record), record, least)
          round.place += 1
        }
      }
    }
    if (!isEnough && !round.isSwept) {
      val through = table.sweep { (hash, record, _) =>
        if (index == null || !index.has(record)) consider(hash, record, least)
        !isEnough
      }
      round.isSwept = through
    }
    isEnough
  }

  private def hashOf(record: Record): Int =
    table.hashOf(null, record.keyAddress, record.keyLength)

  private def consider(hash: Int, record: Record, least: Int): Unit =
    // The cold nodes are the oldest: if the newest is one, all are.
    if (!record.listLast.isCold) {
      passedOver = true
      if (!epoch.isInUse(record)) {
        val nodes = record.nodes
        val warm = nodes.indexWhere(!_.isCold)
        if (nodes.length - warm >= least) add(hash, record, nodes, firstToSpill(nodes, warm))
      }
    }

  private def add(hash: Int, record: Record, nodes: Nodes, first: Int): Unit = {
    val spilled = nodes.drop(first)
    val payload = spilled.sum { node =>
      if (!node.isCold) 4L + node.length
      else node.coldRef.size.toLong
    }
    if (ColdEntry.sizeOf(record.keyLength, payload) <= ColdRef.LargestSize) {
      val lane = if (index != null && index.column.inKey) index.column.of(record)
        else SpillManager.CommonLane
      val below = if (first == 0) Node.None else nodes(first - 1)
      lists += new Candidate(hash, record, spilled, below, lane)
      size += spilled.sum(_.size)
    }
  }

  /**
   * From which node on the list is spilled. A list that is spilled a few values at a time would have
   * many small entries, each with a node in memory: from time to time they are written as one.
   */
  private def firstToSpill(nodes: Nodes, warm: Int): Int = {
    var small = warm
    while (small > 0 && nodes(small - 1).coldValues < LargeEntry) small -= 1
    if (warm - small < ManyEntries) warm else small
  }

  override def encode(entries: ColdEntry.Builder): Unit = lists.foreach { list =>
    list.values = list.nodes.sum(node => math.max(1, node.coldValues).toLong).toInt
    entries.start(family.id, list.values,
      null, list.record.keyAddress, list.record.keyLength)
    list.nodes.foreach { node =>
      if (!node.isCold) {
        entries.listValue(null, node.valueAddress, node.length)
      } else {
        readCold(node.coldRef).values.foreach { case (bytes, offset, length) =>
          entries.listValue(bytes, offset, length)
        }
      }
    }
    list.place = entries.finish()
  }

  override def write(entries: ColdEntry.Builder, writer: ColdWriter, pieces: IoPieces): Unit =
    lists.foreach { list =>
      val entry = new ColdEntry(entries.bytes, list.place)
      pieces.add(entry.size)
      list.ref = writer.append(list.lane, entries.bytes, list.place, entry.size)
    }

  override def forget(all: Boolean): Unit = lists.foreach { list =>
    if (all || !table.isAt(list.hash, list.record.word)) list.record = Record.None
  }

  override def install(freed: Changes): Long = {
    var gained = 0L
    lists.foreach { list =>
      val record = list.record
      if (record.exists && !epoch.isInUse(record) && table.isAt(list.hash, record.word)) {
        family.replaceList(list.hash, record, list.below, list.ref, list.values)
        freed.addPart(family.id, record, list.below)
        gained += list.nodes.sum(_.size)
      } else {
        if (record.exists && table.isAt(list.hash, record.word)) stayed += 1
        log.free(list.ref)
      }
    }
    gained
  }
}

/**
 * Which lists of a family were looked at in this batch: none twice, but lists with few values in
 * memory get their turn after all others. A family without a value in memory is not looked at.
 */
private[store] final class ListRounds {
  private var round = new ListVictims.Round
  private var least = ListVictims.ManyValues
  private var isThrough = false
  private var sawWarm = false
  var mayBeWarm = false

  def restart(): Unit = {
    round = new ListVictims.Round
    least = ListVictims.ManyValues
    isThrough = false
    sawWarm = false
  }

  def restartIfThrough(): Unit = if (isThrough) restart()

  def pick(wantedBytes: Long, most: Int)(newVictims: => ListVictims): Option[ListVictims] =
    if (isThrough || !mayBeWarm) {
      None
    } else {
      val victims = newVictims
      val isEnough = victims.pick(round, wantedBytes, most, least)
      sawWarm |= victims.sawWarm
      if (!isEnough) nextRound()
      if (victims.count > 0) Some(victims) else pick(wantedBytes, most)(newVictims)
    }

  private def nextRound(): Unit = if (least > 1) {
    least = 1
    round = new ListVictims.Round
  } else {
    isThrough = true
    mayBeWarm = sawWarm
  }
}

private[store] object ListVictims {
  val ManyValues = 8
  /** Values with which an entry is not written again. */
  private val LargeEntry = 64
  private val ManyEntries = 8

  /** How far the lists of a family were looked at in this batch. */
  final class Round {
    var bucket: Long = Long.MaxValue
    var place = 0
    var isSwept = false

    def goTo(id: Long): Unit = {
      bucket = id
      place = 0
    }
  }

  /** @param below the newest node that stays as it is, or none */
  private final class Candidate(
      val hash: Int, var record: Record, val nodes: Nodes, val below: Node, val lane: Long) {
    var values = 0
    var place = 0
    var ref = ColdRef.None
  }
}
