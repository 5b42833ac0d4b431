package tailrace.layout

import tailrace.cold.{ColdRef, ColdSlots, RefVisitor, SlotEntries}
import tailrace.memory.AddressList

/**
 * Where a column family's records are found. One small interface, one implementation per access
 * pattern: [[tailrace.layout.hash.HashLayout]] for point access,
 * [[tailrace.layout.ordered.OrderedLayout]] for prefix and range scans, and
 * [[tailrace.layout.adaptive.AdaptiveLayout]], which goes from the second to the first where nothing
 * says which of them it will be.
 *
 * A layout holds the addresses of records, and of those that are not in memory references into the
 * log of cold state (a HashLayout alone). [[tailrace.store.Family]] and [[tailrace.store.Changes]]
 * own the records, and decide when their slots are freed. One thread at a time.
 */
trait Layout {
  def size: Long

  /** How many records are in memory. */
  def resident: Long = size

  /** Bytes the layout itself takes, without the records. */
  def overheadBytes: Long

  /** The record of this key, or none. */
  def get(base: AnyRef, offset: Long, length: Int): Record

  /** Makes `record`, which has this key, the key's record. Returns the one it replaces, or none. */
  def put(base: AnyRef, offset: Long, length: Int, record: Record): Record

  /** As `put`, right after `get` has given `found` for the same key: nothing is looked up again. */
  def putAfterGet(base: AnyRef, offset: Long, length: Int, found: Record, record: Record): Unit =
    put(base, offset, length, record)

  /** Prepares an empty layout for this many records: it need not grow on the way there. */
  def reserve(records: Long): Unit = {}

  /** As `put`, for a key that is certainly not there yet. */
  def add(base: AnyRef, offset: Long, length: Int, record: Record): Unit =
    put(base, offset, length, record)

  /** Takes the key's record out and returns it, or none. */
  def remove(base: AnyRef, offset: Long, length: Int): Record

  /**
   * As `put` and `remove`, while changes are loaded over a snapshot: a record that is still in the
   * snapshot ([[PendingRecords]]) is not read, and is none of the layout's any more.
   */
  def putOver(base: AnyRef, offset: Long, length: Int, record: Record): Record =
    put(base, offset, length, record)

  def removeOver(base: AnyRef, offset: Long, length: Int): Record = remove(base, offset, length)

  /**
   * All records. Changes made while the cursor moves are allowed; the cursor may or may not show
   * them, but shows every record that was there from beginning to end exactly once.
   */
  def cursor(): Cursor

  /** Appends the addresses of all records in memory: a snapshot is written from them. */
  def copyTo(addresses: AddressList): Unit

  /** Replaces each record by the result of `move`; keys do not change. */
  def relocate(move: RecordMover): Unit

  def close(): Unit

  // ---- for some layouts only

  /** For scans in the order of the keys. */
  def inOrder: OrderedScans =
    throw new UnsupportedOperationException("the records of this family have no order")

  /** For spilling; None: the records stay in memory. */
  def spillable: Option[Spillable] = None

  /** The batch is over and no cursor moves: a layout that changes its form goes on with it. */
  def betweenBatches(): Unit = {}

  def migration: Migration = Migration.None
}

/** Records that can be scanned in the order of their keys. */
trait OrderedScans {
  /** The records whose keys begin with these bytes, in order. */
  def prefixCursor(prefix: Array[Byte]): Cursor

  /** The records with `start` <= key < `end`, in order; null is no bound. */
  def rangeCursor(start: Array[Byte], end: Array[Byte]): Cursor
}

/** Records that can be spilled: an entry is a record, or a reference to its copy. */
trait Spillable {
  /** How many records are in memory. */
  def resident: Long

  /**
   * Goes on with the round of a clock hand, for one round at the most: `visit` is shown each record
   * in memory with its hash, and says whether to go on. Returns whether it always did.
   */
  def sweep(visit: SweepVisitor): Boolean

  /** Every entry as it stands. */
  def foreachWord(visit: WordVisitor): Unit

  def hashOf(base: AnyRef, offset: Long, length: Int): Int

  /**
   * The references among the entries with this hash. Nothing is fetched, nothing counts as used.
   * Records in memory get the stamp if theirs is older (see [[UseClock]]). Whether a slot in memory has
   * an entry with this hash.
   */
  def expectAt(hash: Int, stamp: Int, visit: RefVisitor): Boolean

  /** Adds the records in memory, or a part of them that is like the others, to counts by stamp. */
  def countStamps(counts: Array[Int]): Unit

  /** Gives every record in memory the stamp that takes the place of its own. */
  def restamp(renamed: Array[Int]): Unit

  /** Whether an entry with this hash is this word. */
  def isAt(hash: Int, word: SlotWord): Boolean

  /**
   * Puts `word` in the place of `present`; false: that is not there any more, or is a record with a
   * later stamp than `latest`.
   */
  def exchange(
      hash: Int, present: SlotWord, word: SlotWord, latest: Int = UseClock.Largest): Boolean

  /** The file that may have references of this hash, besides those in memory; null: none has. */
  def slotsAt(hash: Int): ColdSlots

  /** Bytes of slots in memory. */
  def slotBytes: Long

  /**
   * The part of the table with the most references in memory, whose slots can be spilled; null: there
   * is none that has many, or, with `few`, any.
   */
  def pickSlots(few: Boolean): SlotVictims
}

/**
 * The references in one part of a table, on their way to a file. The steps:
 *
 *  1. The owner picks them.
 *  2. An I/O thread writes them, together with those of the part that are in a file already.
 *  3. The owner installs the file, and takes the references out of the table, unless they have changed.
 */
trait SlotVictims {
  /** All references of the part, in the order of their hashes. For an I/O thread. */
  def collect(): SlotEntries

  /**
   * After `collect`; `slots` is null if that gave nothing. False: the part has changed its form; the
   * caller gives the file up.
   */
  def install(written: SlotEntries, slots: ColdSlots): Boolean
}

/** Whether a layout changes its form to the one that its use calls for. */
sealed trait Migration

object Migration {
  case object None extends Migration
  case object UnderWay extends Migration
  case object Done extends Migration
}

/** Moves over records: `next` returns the following one, or none at the end. */
trait Cursor {
  def next(): Record

  /** The result of `read` for each record; `read` is called as the iterator moves. */
  final def map[T](read: RecordReader[T]): Iterator[T] = new Iterator[T] {
    private var following = Record.None
    private var isKnown = false

    override def hasNext: Boolean = {
      if (!isKnown) {
        following = Cursor.this.next()
        isKnown = true
      }
      following.exists
    }

    override def next(): T = {
      if (!hasNext) throw new NoSuchElementException("there are no more records")
      isKnown = false
      read(following)
    }
  }
}

/**
 * Records of a layout that a restart has left in a snapshot (RFC 16). For the layout they are there:
 * it asks for those of a hash before it looks for a key, and for all before it shows all.
 */
trait PendingRecords {
  /** How many there are. */
  def rows: Long

  /** The records of this hash are in the layout. */
  def bring(hash: Int): Unit

  def bringAll(): Unit

  /** The record of this key, of this hash, is replaced, or removed if `removed`. */
  def passOver(hash: Int, base: AnyRef, offset: Long, length: Int, removed: Boolean): Unit

  def close(): Unit
}

/** Records that were spilled, and how they are seen again (see [[tailrace.cold.ColdLog]]). */
trait ColdRecords {
  /** Brings the record back into memory, used by the running batch, and releases its reference. */
  def fetch(ref: ColdRef): Record

  /** The key's record from a file of slots and the log, as `fetch`; or none. */
  def fetchFrom(
      slots: ColdSlots, hash: Int, keyBase: AnyRef, keyOffset: Long, keyLength: Int): Record

  /** Whether the reference has not been given up. */
  def isLive(ref: ColdRef): Boolean

  /** For one cursor. */
  def newView(): ColdView
}

/** Copies to look at, each of which is there until some records later. */
trait ColdView {
  def apply(ref: ColdRef): Record
}
