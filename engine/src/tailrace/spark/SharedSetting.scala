package tailrace.spark

import scala.collection.mutable

import org.slf4j.LoggerFactory

/**
 * Problem: some options are of the process (its memory, its I/O threads), and every session may set
 * them. With the last store to open as the one that decides, a query that runs would lose memory that
 * it was promised, without a word.
 *
 * Answer: the first value that was asked for counts until no store is open that asked for it. A store
 * that asks for another is named in the log, once for each value; one that asks for none follows.
 *
 * @param use puts a value into force
 */
final class SharedSetting[T](option: String, default: T)(use: T => Unit) {
  import SharedSetting.log

  private val askedFor = mutable.LinkedHashMap.empty[T, Int] // values, and how many stores ask
  private val refused = mutable.Set.empty[T] // and logged
  private var inForce = default

  /** A store opens whose session asks for this value. */
  def ask(value: T): Unit = synchronized {
    askedFor(value) = askedFor.getOrElse(value, 0) + 1
    choose()
    if (value != inForce && refused.add(value)) {
      log.warn(s"The option $option is $inForce in this process, not $value: all its stores share " +
        s"one value, and stores are open that asked for $inForce first.")
    }
  }

  /** Such a store has closed. */
  def withdraw(value: T): Unit = synchronized {
    val left = askedFor.getOrElse(value, 0) - 1
    if (left > 0) askedFor(value) = left else askedFor -= value
    choose()
  }

  private def choose(): Unit = {
    val chosen = askedFor.headOption.fold(default)(_._1)
    if (chosen != inForce) {
      inForce = chosen
      refused -= chosen
      use(chosen)
    }
  }
}

private object SharedSetting {
  private val log = LoggerFactory.getLogger(classOf[SharedSetting[_]])
}
