package tailrace.spark

import tailrace.cold.{ColdFolders, RemoteFolders}
import tailrace.faults.{Failpoints, Rules}
import tailrace.io.{Clock, IoScheduler, Threads}
import tailrace.memory.Budget

/**
 * The parts that a process has once, whatever the number of its stores and sessions.
 *
 * Problem: parts that find each other through globals cannot be tested apart, and a global that can
 * be changed is a switch that any code may turn.
 *
 * Answer: one object, made once per process, whose parts are handed down through constructors. Code
 * of this package, where Spark makes the objects, asks `EngineRuntime.current`; the packages below
 * it cannot.
 *
 * @param rules      the rules of the commit protocol in force
 * @param failpoints where a test stops, delays or fails the engine
 * @param poisonsMemory freed memory is overwritten, so that a test sees code that still reads it
 */
final class EngineRuntime(
    val rules: Rules = Rules.All, val failpoints: Failpoints = new Failpoints,
    val clock: Clock = Clock.system, val threads: Threads = Threads.Daemons,
    poisonsMemory: Boolean = false) {

  /** The memory that all stores share. */
  val budget: Budget = new Budget(Budget.defaultLimit, poisonsMemory)

  /** All that is read and written beside the batches. */
  val io: IoScheduler = new IoScheduler(
    IoScheduler.DefaultPermits, IoScheduler.DefaultQueueLimit, clock, threads.named("tailrace-io"),
    failpoints)

  // Options of the process, which every session may set.
  val memoryLimit: SharedSetting[Long] =
    new SharedSetting("memory_limit", Budget.defaultLimit)(budget.limit = _)
  val ioThreads: SharedSetting[Int] =
    new SharedSetting("io_threads", IoScheduler.DefaultPermits)(io.permits = _)
  val ioBandwidth: SharedSetting[Long] =
    new SharedSetting("io_bandwidth", IoScheduler.NoLimit)(io.bytesPerSecond = _)

  /** The folders on this machine in which spilled state is. */
  val coldFolders: ColdFolders = new ColdFolders

  /** The same on other file systems. */
  val remoteFolders: RemoteFolders = new RemoteFolders(threads, () => budget.limit)

  /** The stores that tasks read or update now. */
  private[spark] val openStores: OpenStores = new OpenStores

  /** The ledger, the pipeline and the way from one to the other. */
  val services: CommitServices = new CommitServices(this)

  /** Keyed prefetching: the controller, the stores that take hints, the ways between them. */
  val hints: HintServices = new HintServices(this)
}

object EngineRuntime {
  @volatile private var installed = new EngineRuntime

  def current: EngineRuntime = installed

  /** Only for tests, before the first session of the process starts. */
  private[tailrace] def install(runtime: EngineRuntime): Unit = installed = runtime
}
