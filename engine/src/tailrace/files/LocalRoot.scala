package tailrace.files

import java.nio.file.{Path, Paths}
import java.util.concurrent.ConcurrentHashMap

import org.slf4j.LoggerFactory

/**
 * The folder on this machine below which a process keeps copies of files that it wrote, and spilled
 * state.
 *
 * The user may name one (`local_dir`), and then it may be shared: a sticky temporary folder, a
 * mounted disk. Each folder made in it is a [[PrivateFolder]]. Without a name it is one of this
 * user's own in the temporary folder.
 */
final class LocalRoot(named: Option[String]) {
  import LocalRoot._

  /** The folder, made if it is missing; an error if it cannot be used. */
  def path: Path = {
    val above = PrivateFolder.shared(Paths.get(named.getOrElse(temporary)))
    if (PrivateFolder.letsOthersExchange(above) && warned.add(above)) {
      log.warn(s"Other users can write to $above, which is not sticky: they could exchange what " +
        "is made in it. Set its sticky bit (chmod +t), or the option local_dir to another folder.")
    }
    if (named.nonEmpty) above else PrivateFolder.make(above, s"tailrace-$userName").path
  }

  override def toString: String = named.getOrElse(s"$temporary/tailrace-$userName")
}

object LocalRoot {
  private val log = LoggerFactory.getLogger(classOf[LocalRoot])
  private val warned = ConcurrentHashMap.newKeySet[Path]()

  private def temporary: String = System.getProperty("java.io.tmpdir")

  private def userName: String = System.getProperty("user.name")
}
