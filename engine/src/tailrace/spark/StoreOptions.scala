package tailrace.spark

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.execution.streaming.state.StateStoreConf

import tailrace.errors.InvalidOption
import tailrace.format.Codec

/** The options of `tailrace.Options` (Python), as they arrive through the session's settings. */
final case class StoreOptions(
    codec: Codec,
    snapshotRatio: Double,
    maxChanges: Int,
    memoryLimit: Option[Long],
    lockTimeoutMillis: Long)

object StoreOptions {
  val Prefix = "spark.sql.streaming.stateStore.tailrace."

  def apply(conf: StateStoreConf): StoreOptions = {
    val settings = conf.sqlConfs

    def read[T](name: String, default: String, allowed: String)(parse: String => T): T = {
      val value = settings.getOrElse(Prefix + name, default)
      try parse(value) catch {
        case _: RuntimeException => throw new InvalidOption(Prefix + name, value, allowed)
      }
    }

    StoreOptions(
      codec = Codec.byName(settings.getOrElse(Prefix + "compression", Codec.Lz4.name)),
      snapshotRatio = read("snapshotRatio", "1.0", "a number above 0") { text =>
        val ratio = text.toDouble
        require(ratio > 0)
        ratio
      },
      maxChanges = read("maxDeltas", "100", "a whole number above 0") { text =>
        val count = text.toInt
        require(count > 0)
        count
      },
      memoryLimit = settings.get(Prefix + "memoryLimit").map { _ =>
        read("memoryLimit", "", "a size such as 8g")(JavaUtils.byteStringAsBytes)
      },
      lockTimeoutMillis = read("lockTimeout", "60s", "a duration such as 60s") { text =>
        JavaUtils.timeStringAs(text, java.util.concurrent.TimeUnit.MILLISECONDS)
      })
  }
}
