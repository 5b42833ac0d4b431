package tailrace.spark

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreId}

/**
 * The keys that one side of a stream-stream join will look up: of rows that it has not asked for yet.
 *
 * Problem: a side's state is two tables: how many rows a key has, and the rows by key and number.
 * Which rows are read is known only when the number is.
 *
 * Answer: two steps. `add` expects the numbers of a key, of both sides: the join reads the other
 * side's, and its own to append the row. `follow`, for the same key a moment later, looks the numbers
 * up (they have been read meanwhile, or are waited for) and expects the other side's rows.
 *
 * Invariant: the join itself looks up all that `follow` does.
 *
 * @param withNumber the key of a row: a join's key and the row's number
 */
final class ExpectedJoin private (
    ownCounts: ExpectedJoin.Part, ownRows: ExpectedJoin.Part, otherCounts: ExpectedJoin.Part,
    otherRows: ExpectedJoin.Part, withNumber: (UnsafeRow, Long) => UnsafeRow) {
  import ExpectedJoin._

  private val parts = Seq(ownCounts, ownRows, otherCounts, otherRows)
  private val followed = new java.util.HashSet[UnsafeRow]

  def began(): Unit = parts.foreach(_.keys.began())

  def areOfUse: Boolean = parts.exists(_.keys.areOfUse)

  def haveRoom: Boolean = parts.forall(_.keys.haveRoom)

  /** The join works on a row of this time from now on. */
  def moveTo(time: Long): Unit = parts.foreach(_.keys.moveTo(time))

  def add(key: UnsafeRow, time: Long, ahead: Int): Unit =
    Seq(ownCounts, otherCounts).foreach { part =>
      if (part.keys.areOfUse) part.keys.add(key, part.family, time, ahead)
    }

  /** Has the numbers of all keys read, in the background. */
  def fetch(): Unit = {
    ownCounts.keys.fetch()
    otherCounts.keys.fetch()
    followed.clear()
  }

  /** After `fetch`: the key's rows are expected. */
  def follow(key: UnsafeRow, time: Long, ahead: Int): Unit =
      if (followed.size < Most && !followed.contains(key)) {
    followed.add(key.copy())
    if (otherRows.keys.areOfUse) {
      val count = math.min(otherCounts.numberOf(key), MostOfKey)
      var number = 0L
      while (number < count && otherRows.keys.haveRoom) {
        otherRows.keys.add(withNumber(key, number), otherRows.family, time, ahead)
        number += 1
      }
    }
    // Where the new row goes: there is none yet, which may take a read to find out.
    if (ownRows.keys.areOfUse) {
      ownRows.keys.add(withNumber(key, ownCounts.numberOf(key)), ownRows.family, time, ahead)
    }
  }

  /** Has the rows of all keys that were followed read. */
  def fetchRows(): Unit = {
    ownRows.keys.fetch()
    otherRows.keys.fetch()
  }
}

object ExpectedJoin {
  private val Most = 1 << 15
  /** Of a key with more rows the later ones are read by the look-ups. */
  private val MostOfKey = 4096L

  /** A table of a side: a store of its own, or a family of the join's only store. */
  private final class Part(store: TailraceStateStore, val family: String) {
    val keys: ExpectedKeys = store.expected

    /** The value of a record with one number; 0: there is none. */
    def numberOf(key: UnsafeRow): Long = keys.numberOf(key, family)
  }

  /** @param sides names of the own side and the other one, as Spark's stores have them */
  def in(
      run: String, root: String, operator: Long, partition: Int, sides: (String, String),
      hasFamilies: Boolean, withNumber: (UnsafeRow, Long) => UnsafeRow): Option[ExpectedJoin] = {
    val id = StateStoreId(root, operator, partition)
    val stores = EngineRuntime.current.openStores
    def part(side: String, kind: String): Option[Part] = {
      val name = s"$side-$kind"
      if (hasFamilies) stores.find(run, id).map(new Part(_, name))
      else stores.sibling(run, id, name).map(new Part(_, StateStore.DEFAULT_COL_FAMILY_NAME))
    }
    for {
      ownCounts <- part(sides._1, Counts)
      ownRows <- part(sides._1, Rows)
      otherCounts <- part(sides._2, Counts)
      otherRows <- part(sides._2, Rows)
    } yield new ExpectedJoin(ownCounts, ownRows, otherCounts, otherRows, withNumber)
  }

  private val Counts = "keyToNumValues"
  private val Rows = "keyWithIndexToValue"
}
