package tailrace.store

import tailrace.cold.EvictionPolicy
import tailrace.layout.{Epoch, Record, Spillable, UseClock}

/**
 * Which records of a store leave memory first (see [[tailrace.cold.EvictionPolicy]]): those that
 * `takes` lets go as the clock hand comes by. No record that the running batch uses does.
 */
private[store] trait EvictionOrder {
  def takes(record: Record, stamp: Int): Boolean

  /** The latest stamp of a record that may leave now; one that got a later one meanwhile stays. */
  def latest: Int

  /**
   * The hand has gone round the table for the `rounds`th time, and has found so many records in all,
   * which are not enough. Whether it may find more in another round.
   */
  def widens(found: Int, rounds: Int): Boolean

  /** A batch begins: what was in use is not any more. */
  def restart(): Unit = {}
}

private[store] object EvictionOrder {
  def of(policy: EvictionPolicy, epoch: Epoch, tables: () => Iterator[Spillable]): EvictionOrder =
    if (policy == EvictionPolicy.Clock) new ByReference(epoch) else new ByStamp(epoch, tables)

  /** All that no batch uses. */
  final class Any(epoch: Epoch) extends EvictionOrder {
    override def takes(record: Record, stamp: Int): Boolean = !epoch.isInUse(record)
    override def latest: Int = UseClock.Largest
    override def widens(found: Int, rounds: Int): Boolean = false
  }

  /**
   * Those that were not used since the hand came by last. A round that finds nothing has taken the
   * second chance from those that had one.
   */
  final class ByReference(epoch: Epoch) extends EvictionOrder {
    override def takes(record: Record, stamp: Int): Boolean = !epoch.isInUse(record) && {
      val isOld = record.epoch == 0
      if (!isOld) record.setEpoch(0)
      isOld
    }
    override def latest: Int = UseClock.Largest
    override def widens(found: Int, rounds: Int): Boolean = found == 0 && rounds == 1
  }

  /**
   * Those with the oldest stamps. To keep all records in order would cost a list entry each, and a
   * change of the list with every use. So the stamps are counted now and then; a 32nd of the records
   * has stamps up to a bound, and these leave as the hand comes to them. When it finds no more, the
   * bound moves on.
   */
  final class ByStamp(epoch: Epoch, tables: () => Iterator[Spillable]) extends EvictionOrder {
    private var bound = -1

    override def takes(record: Record, stamp: Int): Boolean = stamp <= bound && !epoch.isInUse(record)

    override def latest: Int = bound

    override def restart(): Unit = bound = -1

    override def widens(found: Int, rounds: Int): Boolean = {
      val counts = new Array[Int](UseClock.Largest + 1)
      tables().foreach(_.countStamps(counts))
      var wanted = math.max(Fewest, counts.sum / Part)
      val before = bound
      while (wanted > 0 && bound < UseClock.Largest) {
        bound += 1
        wanted -= counts(bound)
      }
      bound > before
    }
  }

  /** Of the records in memory: how exactly the order is kept. */
  private val Part = 32
  /** A bound for fewer would cost more than it is worth. */
  private val Fewest = 256
}
