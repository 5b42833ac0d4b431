package tailrace.errors

/**
 * Where spilled state is, as an error names it, and the remedy if that place fails.
 *
 * @param name  the folder, or its URI
 * @param check the first part of the remedy: the likely causes
 * @param move  the second: how to put spilled state elsewhere
 */
sealed abstract class SpillPlace(val name: String, val check: String, val move: String)

object SpillPlace {
  private val Prefix = "spark.sql.streaming.stateStore.tailrace."

  final class Local(folder: String) extends SpillPlace(
    folder,
    "Make room on that disk, and check that it works",
    s"set the option local_dir (${Prefix}localDir) to a folder on another one")

  final class Remote(uri: String) extends SpillPlace(
    uri,
    "Check that this place can be reached from the executors, that this user may write to it, and " +
      "that it has room",
    s"set the option cold_dir (${Prefix}coldDir) to another one, or leave it out: spilled state is " +
      "then in files on the executors' machines")
}
