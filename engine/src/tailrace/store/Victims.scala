package tailrace.store

import tailrace.cold.{ColdEntry, ColdLog, ColdRef, ColdWriter}
import tailrace.io.IoPieces
import tailrace.layout.{Epoch, Record, SlotWord, Spillable}
import tailrace.layout.time.TimeIndex

/**
 * Records, or values of lists, of one family on their way to the log. The steps:
 *
 *  1. The owner picks them.
 *  2. An I/O thread makes entries of them (`encode`), then writes these (`write`).
 *  3. The owner installs the references where nothing has changed meanwhile; a changed key keeps
 *     its record, and the copy in the log is given up.
 *
 * Before the owner frees records for another reason, it waits for `encode`, and calls `forget`: the
 * address of a record that was freed may be another record's by the time of step 3.
 */
private[store] trait Victims {
  /** How many, and the bytes of memory that they take. */
  def count: Int
  def bytes: Long
  def encode(entries: ColdEntry.Builder): Unit
  def write(entries: ColdEntry.Builder, writer: ColdWriter, pieces: IoPieces): Unit
  /** Drops those that are not in their slots any more; all of them, if addresses change. */
  def forget(all: Boolean): Unit
  /** Adds the records that can be freed to `freed`; returns their bytes. */
  def install(freed: Changes): Long
  /** After `install`: how many stay because they were asked for meanwhile. */
  def returned: Int
}

/**
 * Whole records, found by the clock hand. Until they are installed they are in an eviction buffer: one
 * that is used meanwhile, or expected by a later time, stays.
 */
private[store] final class RecordVictims(
    family: Family, table: Spillable, index: TimeIndex, log: ColdLog, epoch: Epoch,
    order: EvictionOrder)
  extends Victims {
  private var records = new Array[Long](256) // addresses; 0: not spilled after all
  private var hashes = new Array[Int](256)
  private var places: Array[Int] = _
  private var refs: Array[Long] = _ // the words of references
  private var filled = 0
  private var size = 0L

  override def count: Int = filled

  override def bytes: Long = size

  private var latest = 0
  private var stayed = 0

  override def returned: Int = stayed

  /** Goes round the table until so many bytes or records are found. False: nothing is left. */
  def pick(wantedBytes: Long, most: Int): Boolean = {
    def isEnough = size >= wantedBytes || filled >= most
    def round(): Unit = table.sweep { (hash, record, stamp) =>
      if (order.takes(record, stamp) && record.size < ColdRef.LargestSize / 2) add(hash, record)
      !isEnough
    }

    if (table.resident > 0) {
      var rounds = 1
      round()
      while (!isEnough && order.widens(filled, rounds)) {
        rounds += 1
        round()
      }
    }
    latest = order.latest
    filled > 0
  }

  private def add(hash: Int, record: Record): Unit = {
    if (filled == records.length) {
      records = java.util.Arrays.copyOf(records, filled * 2)
      hashes = java.util.Arrays.copyOf(hashes, filled * 2)
    }
    records(filled) = record.address
    hashes(filled) = hash
    filled += 1
    size += record.size
  }

  override def encode(entries: ColdEntry.Builder): Unit = {
    places = new Array[Int](filled)
    var at = 0
    while (at < filled) {
      val record = new Record(records(at))
      entries.start(family.id, 0, null, record.keyAddress, record.keyLength)
      entries.value(null, record.valueAddress, record.valueLength)
      places(at) = entries.finish()
      at += 1
    }
  }

  override def write(entries: ColdEntry.Builder, writer: ColdWriter, pieces: IoPieces): Unit = {
    refs = new Array[Long](filled)
    var at = 0
    while (at < filled) {
      val entry = new ColdEntry(entries.bytes, places(at))
      pieces.add(entry.size)
      refs(at) = writer.append(SpillManager.CommonLane, entries.bytes, places(at), entry.size).raw
      at += 1
    }
  }

  override def forget(all: Boolean): Unit = {
    var at = 0
    while (at < filled) {
      if (all || !table.isAt(hashes(at), new Record(records(at)).word)) records(at) = 0L
      at += 1
    }
  }

  override def install(freed: Changes): Long = {
    var gained = 0L
    var at = 0
    while (at < filled) {
      val record = new Record(records(at))
      val ref = new ColdRef(refs(at))
      if (record.exists && !epoch.isInUse(record) &&
          table.exchange(hashes(at), record.word, SlotWord.of(ref), latest)) {
        if (index != null) index.spilled(record, ref)
        freed.add(Change.Spilled, family.id, record, Record.None)
        gained += record.size
      } else {
        if (record.exists && table.isAt(hashes(at), record.word)) stayed += 1
        log.free(ref)
      }
      at += 1
    }
    gained
  }
}
