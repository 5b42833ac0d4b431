package tailrace.faults

import java.io.IOException
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

/**
 * Problem: a crash between two given steps of the commit protocol cannot be tested by chance.
 *
 * Answer: every durability boundary is a named point. A test says through `arm` what happens at
 * which passage:
 *
 * {{{
 *   spec   := point ("," point)*
 *   point  := name "@" passage "=" action     (passages count from 1, per process)
 *   action := "kill" | "fail" [":" times] | ("delay:" | "pause:") milliseconds | "die"
 * }}}
 * `kill` ends the JVM as SIGKILL would; `fail` throws an IOException, at this passage and the
 * following ones if `times` says so; `delay` waits, from this passage on, `pause` at this one
 * only; `die` ends the thread.
 *
 * Invariant: a point that is not armed costs one read of a field. Production code never arms one.
 */
final class Failpoints {
  import Failpoints._

  @volatile private var armed = Map.empty[String, Seq[Armed]]
  private val passages = new ConcurrentHashMap[String, AtomicInteger]

  /** Replaces all points; an empty text disarms them. */
  def arm(specification: String): Unit = {
    val points = parse(specification)
    passages.clear()
    armed = points
  }

  def pass(name: String): Unit = if (armed.nonEmpty) {
    val points = armed.getOrElse(name, Nil)
    if (points.nonEmpty) {
      val passage = passages.computeIfAbsent(name, _ => new AtomicInteger).incrementAndGet()
      points.foreach(_.act(name, passage))
    }
  }
}

object Failpoints {
  private val Point = """([a-z.]+)@([1-9]\d{0,8})=(kill|fail|delay|pause|die)(?::(\d{1,9}))?""".r

  private val Waits = Set("delay", "pause")

  private final case class Armed(first: Int, action: String, number: Int) {
    def act(name: String, passage: Int): Unit = action match {
      case "kill" if passage == first =>
        System.err.println(s"failpoint $name@$passage: killed")
        System.err.flush()
        Runtime.getRuntime.halt(137)
      case "fail" if passage >= first && passage < first + number =>
        throw new IOException(s"failpoint $name@$passage")
      case "delay" if passage >= first => Thread.sleep(number.toLong)
      case "pause" if passage == first => Thread.sleep(number.toLong)
      case "die" if passage == first => throw new ThreadDies(s"failpoint $name@$passage")
      case _ =>
    }
  }

  final class ThreadDies(message: String) extends Error(message)

  private def parse(specification: String): Map[String, Seq[Armed]] =
    specification.split(',').map(_.trim).filter(_.nonEmpty).toSeq.map {
      case Point(name, passage, action, number)
          if Waits(action) == (number != null) || action == "fail" =>
        name -> Armed(passage.toInt, action, Option(number).fold(1)(_.toInt))
      case other => throw new IllegalArgumentException(
        s"'$other' is not a failpoint: name@passage=kill|fail[:times]|delay:milliseconds|" +
          "pause:milliseconds|die, passages from 1")
    }.groupMap(_._1)(_._2)
}
