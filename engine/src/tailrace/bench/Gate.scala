package tailrace.bench

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

import scala.collection.mutable

/**
 * Problem: stores are compared in turns, in one JVM. A query that is not its store's turn must cost
 * nothing, yet must not be stopped, or it would have to load its state again; and the driver must
 * know exactly which events are in a batch, and when that batch was over.
 *
 * Answer: the source of a query stands at a gate. The driver admits a number of rows, and that is
 * the next batch; without a permit, the query's thread sleeps inside its question for the latest
 * offset. When it asks again from the end of a batch, that batch is committed and reported.
 *
 * Invariant: `done` <= `offered` <= `admitted`, in rows since the stream's start; none ever goes
 * back. All sources of a query behind one gate (a self-join has two) get the same batches.
 */
final class Gate private (val name: String) {
  private val lock = new ReentrantLock
  private val changed = lock.newCondition()
  private var admitted = 0L
  private var offered = 0L
  private var done = 0L
  private var open = true
  private var askedAt = 0L
  private val turns = mutable.ArrayBuffer.empty[Gate.Turn]

  /** One batch of this many rows, from where the last one ended. Returns where it ends. */
  def admit(rows: Long): Long = locked {
    require(rows > 0, s"a batch has at least one row, not $rows")
    admitted += rows
    changed.signalAll()
    admitted
  }

  /** Waits until the batch that ends there is committed; false if the time was over before. */
  def awaitDone(end: Long, millis: Long): Boolean = locked {
    var left = TimeUnit.MILLISECONDS.toNanos(millis)
    while (done < end && left > 0) left = changed.awaitNanos(left)
    done >= end
  }

  /** The batch that ends there: nanoseconds it waited at the gate, and nanoseconds it then took. */
  def turn(end: Long): String = locked {
    turns.find(_.end == end).map(t => s"${t.waited} ${t.doneAt - t.offeredAt}").orNull
  }

  /** No more batches: a waiting query goes on with the rows it has. */
  def close(): Unit = locked {
    open = false
    changed.signalAll()
  }

  /** Up to which offset a source that has read up to `start` may read. Waits until it is admitted. */
  private[bench] def latest(start: Long): Long = locked {
    // The other source of the same query took this batch before, or the query runs it again.
    if (start < offered) {
      offered
    } else {
      val now = System.nanoTime()
      if (start > done) finish(start, now)
      askedAt = now
      while (open && admitted <= start) changed.await()
      if (admitted > start) {
        offered = admitted
        val offeredAt = System.nanoTime()
        turns += new Gate.Turn(offered, offeredAt - askedAt, offeredAt)
      }
      math.max(offered, start)
    }
  }

  private def finish(end: Long, now: Long): Unit = {
    done = end
    turns.lastOption.foreach(_.doneAt = now)
    changed.signalAll()
  }

  private def locked[T](body: => T): T = {
    lock.lockInterruptibly()
    try body finally lock.unlock()
  }
}

object Gate {
  private final class Turn(val end: Long, val waited: Long, val offeredAt: Long) {
    var doneAt: Long = offeredAt
  }

  private val gates = new ConcurrentHashMap[String, Gate]

  /** A new gate, shut. One that had the name before is no more. */
  def create(name: String): Gate = {
    val gate = new Gate(name)
    gates.put(name, gate)
    gate
  }

  def remove(name: String): Unit = Option(gates.remove(name)).foreach(_.close())

  private[bench] def named(name: String): Gate = {
    val gate = gates.get(name)
    if (gate == null) throw new IllegalStateException(s"There is no gate '$name'.")
    gate
  }
}
