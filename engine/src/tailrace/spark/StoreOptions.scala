package tailrace.spark

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.execution.streaming.state.StateStoreConf

import tailrace.cold.{ColdStorage, Leaves}
import tailrace.errors.InvalidOption
import tailrace.format.Codec

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
    spill: Leaves,
    readBatchRatio: Double,
    maxAmplification: Double)

object StoreOptions {
  val Prefix = "spark.sql.streaming.stateStore.tailrace."
  val DefaultRetryTimeout = "60s"

  def apply(conf: StateStoreConf): StoreOptions = {
    val settings = conf.sqlConfs

    def read[T](name: String, default: String, allowed: String)(parse: String => T): T = {
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

    def number(name: String, default: Double, allowed: String)(accepts: Double => Boolean): Double =
      read(name, default.toString, allowed) { text =>
        val value = text.toDouble
        require(accepts(value))
        value
      }

    def millis(text: String): Long =
      JavaUtils.timeStringAs(text, java.util.concurrent.TimeUnit.MILLISECONDS)

    StoreOptions(
      codec = Codec.byName(settings.getOrElse(Prefix + "compression", Codec.Lz4.name)),
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
      spill = read("spill", Leaves.WhenTight.name, Leaves.all.map(_.name).mkString(", ")) { text =>
        Leaves.all.find(_.name == text).get
      },
      readBatchRatio = number("readBatchRatio", ColdStorage.DefaultReadRatio, "from 0 to 1")(
        ratio => ratio >= 0 && ratio <= 1),
      maxAmplification = number("maxSpaceAmplification", ColdStorage.DefaultMaxAmplification,
        "a number above 1")(_ > 1))
  }
}
