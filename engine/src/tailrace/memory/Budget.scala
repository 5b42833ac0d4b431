package tailrace.memory

import java.lang.management.ManagementFactory
import java.util.concurrent.atomic.AtomicLong

import tailrace.errors.MemoryExhausted

/**
 * Problem: off-heap memory has no limit of its own; a state that outgrows the machine would bring
 * in the kernel's out-of-memory killer, which tells nobody why.
 *
 * Answer: every chunk of every arena of this process is booked here before it is allocated. What
 * does not fit is refused with an error that says what to change.
 *
 * Invariant: `used` is the sum of all live reservations, and never above the limit after
 * `reserve` has returned.
 */
final class Budget(initialLimit: Long) {
  private val booked = new AtomicLong(0L)
  private val refused = new AtomicLong(0L)
  @volatile private var limitBytes: Long = initialLimit

  def used: Long = booked.get()

  /** How often memory was refused: whoever was in the middle of something may have done it by half. */
  def refusals: Long = refused.get()

  def limit: Long = limitBytes

  def limit_=(bytes: Long): Unit = limitBytes = bytes

  private val expected = new AtomicLong(0L)

  /** What all stores together expect to ask for in their next batches has changed by this. */
  def expect(change: Long): Unit = expected.addAndGet(change)

  /** Whether state should leave memory, so that the next batches have room. */
  def isTight: Boolean =
    used > limitBytes * Budget.TightAt || used + expected.get() > limitBytes * Budget.FullAt

  def reserve(bytes: Long): Unit = {
    val total = booked.addAndGet(bytes)
    if (total > limitBytes) {
      booked.addAndGet(-bytes)
      refused.incrementAndGet()
      throw new MemoryExhausted(bytes, total - bytes, limitBytes)
    }
  }

  def release(bytes: Long): Unit = booked.addAndGet(-bytes)
}

object Budget {
  private val TightAt = 0.75
  private val FullAt = 0.9

  /** The one budget of this process: all stores of an executor share it. */
  val process: Budget = new Budget(defaultLimit)

  /** 70 % of the machine's memory: the rest is for the heap, Python workers and page cache. */
  def defaultLimit: Long = ManagementFactory.getOperatingSystemMXBean match {
    case os: com.sun.management.OperatingSystemMXBean => (os.getTotalMemorySize * 0.7).toLong
    case _ => Long.MaxValue
  }
}
