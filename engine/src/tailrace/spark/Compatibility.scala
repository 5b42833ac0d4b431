package tailrace.spark

import java.nio.ByteOrder
import java.util.Properties

import tailrace.errors.{WrongByteOrder, WrongSpark}

/** Refuses a Spark that the engine was not built for, and a machine whose bytes it cannot read. */
object Compatibility {
  private val Resource = "/tailrace/build.properties"

  /** Version of tailrace, version of Spark and fingerprint of the sources, from the jar. */
  lazy val build: Properties = {
    val properties = new Properties
    val stream = getClass.getResourceAsStream(Resource)
    if (stream != null) try properties.load(stream) finally stream.close()
    properties
  }

  private lazy val verified: Unit = {
    val running = org.apache.spark.SPARK_VERSION
    val built = build.getProperty("spark.version", running)
    if (minor(running) != minor(built)) throw new WrongSpark(running, built)
    if (ByteOrder.nativeOrder() != ByteOrder.LITTLE_ENDIAN) throw new WrongByteOrder
  }

  def verify(): Unit = verified

  private def minor(version: String): String = version.split('.').take(2).mkString(".")
}
