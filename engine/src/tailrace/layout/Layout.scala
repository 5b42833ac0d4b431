package tailrace.layout

import tailrace.memory.AddressList

/**
 * Where a column family's records are found. One small interface, one implementation per access
 * pattern: [[tailrace.layout.hash.HashLayout]] for point access,
 * [[tailrace.layout.ordered.OrderedLayout]] for prefix and range scans.
 *
 * A layout holds addresses only; who owns the records, and when their slots are freed, is decided
 * by [[tailrace.store.Family]] and [[tailrace.store.Changes]]. One thread at a time.
 */
trait Layout {
  def size: Long

  /** Bytes the layout itself takes, without the records. */
  def overheadBytes: Long

  /** The record of this key, or 0. */
  def get(base: AnyRef, offset: Long, length: Int): Long

  /** Makes `record`, which has this key, the key's record. Returns the one it replaces, or 0. */
  def put(base: AnyRef, offset: Long, length: Int, record: Long): Long

  /** As `put`, right after `get` has given `found` for the same key: nothing is looked up again. */
  def putAfterGet(base: AnyRef, offset: Long, length: Int, found: Long, record: Long): Unit =
    put(base, offset, length, record)

  /** Prepares an empty layout for this many records: it need not grow on the way there. */
  def reserve(records: Long): Unit = {}

  /** As `put`, for a key that is certainly not there yet. */
  def add(base: AnyRef, offset: Long, length: Int, record: Long): Unit =
    put(base, offset, length, record)

  /** Takes the key's record out and returns it, or 0 if there was none. */
  def remove(base: AnyRef, offset: Long, length: Int): Long

  /**
   * All records. Changes made while the cursor moves are allowed; the cursor may or may not show
   * them, but shows every record that was there from beginning to end exactly once.
   */
  def cursor(): Cursor

  /** Appends the addresses of all records: the frozen picture that a snapshot is written from. */
  def copyTo(addresses: AddressList): Unit

  /** Replaces each record's address by what `move` makes of it; keys do not change. */
  def relocate(move: Long => Long): Unit

  def close(): Unit
}

/** Moves over records: `next` returns the following record's address, or 0 at the end. */
trait Cursor {
  def next(): Long
}

/** Records that have left memory, and how they are seen again (see [[tailrace.cold.ColdLog]]). */
trait Away {
  /** The record is in memory again, and its reference is given up. */
  def bringBack(ref: Long): Long

  /** For one cursor: copies to look at, each of which is there until some records later. */
  def newView(): Long => Long
}
