package tailrace.cold

import java.io.File
import java.nio.file.Files

/**
 * Where and how a store keeps what does not fit into memory.
 *
 * @param isAllowed        no: a state that outgrows memory is an error, as it says
 * @param newFolder        makes an empty folder on this machine
 * @param readRatio        the part of all lists that one read takes along (FlowKV: 0.02)
 * @param maxAmplification how many times larger than its living part the log may be (FlowKV: 1.5)
 */
final case class ColdStorage(
    isAllowed: Boolean, newFolder: () => File, readRatio: Double, maxAmplification: Double)

object ColdStorage {
  val DefaultReadRatio = 0.02
  val DefaultMaxAmplification = 1.5

  def default: ColdStorage = in(new File(System.getProperty("java.io.tmpdir")))

  def in(base: File): ColdStorage = ColdStorage(isAllowed = true, () => {
    base.mkdirs()
    val folder = Files.createTempDirectory(base.toPath, "tailrace-cold-").toFile
    folder.deleteOnExit()
    folder
  }, DefaultReadRatio, DefaultMaxAmplification)
}
