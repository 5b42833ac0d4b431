package tailrace.bench

import java.lang.management.{BufferPoolMXBean, ManagementFactory, MemoryPoolMXBean, MemoryType}

import scala.jdk.CollectionConverters._

/**
 * The JVM's own costs, in one call: the driver asks between two batches, and one answer of a few
 * numbers disturbs a measurement less than a dozen questions.
 */
object Meters {
  private def heapPools: Seq[MemoryPoolMXBean] =
    ManagementFactory.getMemoryPoolMXBeans.asScala.toSeq.filter(_.getType == MemoryType.HEAP)

  /** `name=value` pairs. CPU in nanoseconds, GC in milliseconds, since the JVM's start. */
  def sample(): String = {
    val cpu = ManagementFactory.getOperatingSystemMXBean match {
      case system: com.sun.management.OperatingSystemMXBean => system.getProcessCpuTime
      case _ => -1L
    }
    val collectors = ManagementFactory.getGarbageCollectorMXBeans.asScala
    val memory = ManagementFactory.getMemoryMXBean
    val buffers = ManagementFactory.getPlatformMXBeans(classOf[BufferPoolMXBean]).asScala
    Seq(
      "cpu_nanos" -> cpu,
      "gc_count" -> collectors.map(_.getCollectionCount).sum,
      "gc_millis" -> collectors.map(_.getCollectionTime).sum,
      "heap_bytes" -> memory.getHeapMemoryUsage.getUsed,
      "heap_peak_bytes" -> heapPools.map(_.getPeakUsage.getUsed).sum,
      "non_heap_bytes" -> memory.getNonHeapMemoryUsage.getUsed,
      "direct_bytes" -> buffers.map(_.getMemoryUsed).sum
    ).map { case (name, value) => s"$name=$value" }.mkString(" ")
  }

  /** Peaks count from here. */
  def resetPeaks(): Unit = heapPools.foreach(_.resetPeakUsage())

  def processId(): Long = ProcessHandle.current().pid()
}
