package tailrace.spark

import java.util.Locale

import org.apache.hadoop.fs.Path
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.unsafe.types.UTF8String

import tailrace.cache.PrefetchMode
import tailrace.cold.{ColdIo, ColdStorage, EvictionPolicy, SpillMode}
import tailrace.errors.{ContradictingOptions, InvalidOption, UnknownOption}
import tailrace.format.Codec
import tailrace.prefetch.{CountMinSketch, HintMode}
import tailrace.recovery.RestartMode

/** The options of `tailrace.Options` (Python), as they arrive through the session's settings. */
final case class StoreOptions(
    codec: Codec,
    snapshotRatio: Double,
    maxChanges: Int,
    memoryLimit: Option[Long],
    lockTimeoutMillis: Long,
    asynchronous: Boolean,
    gateAtRead: Boolean,
    pendingLimit: Long,
    retryTimeoutMillis: Long,
    localDir: Option[String],
    holisticAsRows: Boolean,
    cache: EvictionPolicy,
    prefetch: PrefetchMode,
    hints: HintMode,
    hintThreshold: Int,
    coldIo: ColdIo,
    coldDir: Option[String],
    spill: SpillMode,
    readBatchRatio: Double,
    maxAmplification: Double,
    restart: RestartMode,
    ioThreads: Option[Int],
    ioBandwidth: Option[Long]) {

  /** Itself, if no option contradicts another. */
  private def verified: StoreOptions = {
    coldDir.filter(_ => coldIo == ColdIo.Direct).foreach { uri =>
      contradict("cold_io", "coldIo", "cold_dir", "coldDir",
        s"cold_dir is $uri; direct is a way to use files on the executor's own machine.")
    }
    if (!mayTakeHints && hints == HintMode.On) {
      contradict("hints", "hints", "prefetch", "prefetch",
        s"prefetch is ${prefetch.name}; hints say which records are read before the task begins.")
    }
    this
  }

  private def contradict(
      one: String, key: String, other: String, otherKey: String, cause: String): Nothing =
    throw new ContradictingOptions(s"The options $one and $other contradict each other.", cause,
      s"Leave $one (${StoreOptions.Prefix}$key) out, or $other (${StoreOptions.Prefix}$otherKey).")

  /** Whether operators far from a store tell it the keys of rows to come. */
  def takesHints: Boolean = mayTakeHints && hints != HintMode.Off

  private def mayTakeHints: Boolean =
    prefetch != PrefetchMode.Off && prefetch != PrefetchMode.Demand
}

object StoreOptions {
  val Prefix = "spark.sql.streaming.stateStore.tailrace."
  val DefaultRetryTimeout = "60s"

  /** Every option, as it is spelled behind the prefix. A key that is not here is refused. */
  val names: Seq[String] = Seq("compression", "snapshotRatio", "maxDeltas", "memoryLimit", "spill",
    "ioThreads", "ioBandwidth", "readBatchRatio", "maxSpaceAmplification", "lockTimeout", "commit",
    "gate", "pendingLimit", "retryTimeout", "localDir", "holistic", "cache", "prefetch", "hints",
    "hintThreshold", "coldIo", "coldDir", "restart")

  def apply(conf: StateStoreConf): StoreOptions = {
    val settings = conf.sqlConfs
    verifyNames(settings.keySet)

    def read[T](name: String, default: String, allowed: String)(parse: String => T): T = {
      require(names.contains(name), s"$name is not in the list of names")
      val value = settings.getOrElse(Prefix + name, default)
      try parse(value) catch {
        case _: RuntimeException => throw new InvalidOption(Prefix + name, value, allowed)
      }
    }

    def choice(name: String, default: String, other: String): String =
      read(name, default, s"$default, $other") { text =>
        require(text == default || text == other)
        text
      }

    /** The first is the default. */
    def oneOf[T](name: String, all: Seq[T])(nameOf: T => String): T =
      read(name, nameOf(all.head), all.map(nameOf).mkString(", ")) { text =>
        all.find(nameOf(_) == text).get
      }

    def number(name: String, default: Double, allowed: String)(accepts: Double => Boolean): Double =
      read(name, default.toString, allowed) { text =>
        val value = text.toDouble
        require(accepts(value))
        value
      }

    def millis(text: String): Long =
      JavaUtils.timeStringAs(text, java.util.concurrent.TimeUnit.MILLISECONDS)

    StoreOptions(
      codec = read("compression", Codec.Lz4.name, Codec.all.map(_.name).mkString(", ")) { text =>
        Codec.byName(text).get
      },
      snapshotRatio = number("snapshotRatio", 1.0, "a number above 0")(_ > 0),
      maxChanges = read("maxDeltas", "100", "a whole number above 0") { text =>
        val count = text.toInt
        require(count > 0)
        count
      },
      memoryLimit = settings.get(Prefix + "memoryLimit").map { _ =>
        read("memoryLimit", "", "a size such as 8g")(JavaUtils.byteStringAsBytes)
      },
      lockTimeoutMillis = read("lockTimeout", "60s", "a duration such as 60s")(millis),
      asynchronous = choice("commit", "async", "sync") == "async",
      gateAtRead = choice("gate", "commit", "read") == "read",
      pendingLimit = read("pendingLimit", "256m", "a size such as 256m")(
        JavaUtils.byteStringAsBytes),
      retryTimeoutMillis = read("retryTimeout", DefaultRetryTimeout, "a duration such as 60s")(
        millis),
      localDir = settings.get(Prefix + "localDir"),
      holisticAsRows = choice("holistic", "rows", "buffers") == "rows",
      cache = oneOf("cache", EvictionPolicy.all)(_.name),
      prefetch = oneOf("prefetch", PrefetchMode.all)(_.name),
      hints = oneOf("hints", HintMode.all)(_.name),
      hintThreshold = read("hintThreshold", CountMinSketch.DefaultThreshold.toString,
        s"a whole number from 1 to ${CountMinSketch.Largest}") { text =>
        val count = text.toInt
        require(count >= 1 && count <= CountMinSketch.Largest)
        count
      },
      coldIo = oneOf("coldIo", ColdIo.all)(_.name),
      coldDir = settings.get(Prefix + "coldDir").map { _ =>
        read("coldDir", "", "a URI with a scheme, such as hdfs://host/folder") { text =>
          val uri = new Path(text).toUri
          require(uri.getScheme != null && uri.getPath.startsWith("/"))
          text
        }
      },
      spill = oneOf("spill", SpillMode.all)(_.name),
      readBatchRatio = number("readBatchRatio", ColdStorage.DefaultReadRatio, "from 0 to 1")(
        ratio => ratio >= 0 && ratio <= 1),
      maxAmplification = number("maxSpaceAmplification", ColdStorage.DefaultMaxAmplification,
        "a number above 1")(_ > 1),
      restart = oneOf("restart", RestartMode.all)(_.name),
      ioThreads = settings.get(Prefix + "ioThreads").map { _ =>
        read("ioThreads", "", "a whole number from 1 to 64") { text =>
          val count = text.toInt
          require(count >= 1 && count <= 64)
          count
        }
      },
      ioBandwidth = settings.get(Prefix + "ioBandwidth").map { _ =>
        read("ioBandwidth", "", "a size such as 100m, per second")(JavaUtils.byteStringAsBytes)
      }).verified
  }

  /** A misspelt option would otherwise be passed over, and its default count. */
  private def verifyNames(keys: Iterable[String]): Unit =
    keys.toSeq.sorted.filter(_.startsWith(Prefix)).map(_.stripPrefix(Prefix))
      .find(!names.contains(_)).foreach { name =>
        throw new UnknownOption(Prefix + name, Prefix + closestTo(name), names.map(Prefix + _))
      }

  private def closestTo(name: String): String = {
    val asked = UTF8String.fromString(name.toLowerCase(Locale.ROOT))
    names.minBy(known => asked.levenshteinDistance(
      UTF8String.fromString(known.toLowerCase(Locale.ROOT))))
  }
}
