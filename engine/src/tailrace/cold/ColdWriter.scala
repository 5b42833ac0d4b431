package tailrace.cold

import scala.collection.mutable

/**
 * Appends entries to a log. A lane is a chain of segments of its own: entries that expire together
 * are written together, and deleted together, with no copying (FlowKV's file per window).
 *
 * A log has one writer for spilling and one for cleaning, so that each has segments of its own:
 * entries that were cleaned have lived for long, and are not mixed with new ones. Used by I/O threads,
 * by any number of them, one at a time.
 *
 * Invariant: the owner calls `installed` only, which never waits for a file: what was written since has
 * a lock of its own. An I/O thread may hold the writer for as long as an upload takes.
 */
final class ColdWriter private[cold] (log: ColdLog) {
  import ColdWriter._

  private val open = mutable.LongMap.empty[ColdSegment] // by lane
  // Since the last step was installed. Guarded by itself.
  private val written = mutable.Set.empty[ColdSegment]

  /** Writes an entry; it can be read after the next `flush`. */
  def append(lane: Long, bytes: Array[Byte], start: Int, size: Int): ColdRef = {
    var ref = ColdRef.None
    writing {
      val segment = segmentFor(lane, size)
      ref = log.entryAdded(segment, size)
      written.synchronized(written += segment)
      segment.file.write(bytes, start, size)
    }
    ref
  }

  def flush(): Unit = writing(open.foreachValue(_.file.flush()))

  /** The table refers to all that was written so far. For the store's owner, between two steps. */
  def installed(): Unit = written.synchronized {
    written.foreach(log.installed)
    written.clear()
  }

  /** Nothing more is written to the segment, if it is one of this writer's. */
  def seal(segment: ColdSegment): Unit = writing {
    open.find(_._2 eq segment).foreach { case (lane, _) => close(lane, segment) }
  }

  private[cold] def forget(): Unit = synchronized {
    open.clear()
    written.synchronized(written.clear())
  }

  private def segmentFor(lane: Long, size: Int): ColdSegment = {
    val current = open.getOrNull(lane)
    if (current != null && !current.file.isTooLarge && log.hasRoom(current, size)) return current
    if (current != null) close(lane, current)
    if (open.size >= MostLanes) {
      val (oldest, segment) = open.minBy(_._2.id)
      close(oldest, segment)
    }
    val segment = log.newSegment()
    open(lane) = segment
    segment
  }

  private def close(lane: Long, segment: ColdSegment): Unit = {
    open -= lane
    segment.file.finish()
    log.sealedNow(segment)
  }

  private def writing(body: => Unit): Unit = synchronized(log.writing(body))
}

private object ColdWriter {
  val MostLanes = 64
}
