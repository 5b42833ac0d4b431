package tailrace.semantics

import java.net.{URLDecoder, URLEncoder}
import java.nio.charset.StandardCharsets.UTF_8

import tailrace.layout.time.TimeColumn

/**
 * The use of one column family by one stateful operator, as the query's plan has it.
 *
 * @param store    the store's name within the operator ("default", or one of a join's four)
 * @param family   the column family in it
 * @param pattern  how it is used, and `reason` says how that is known
 * @param time     where a row says when it expires, if the operator evicts by time alone
 * @param scan     the rows that the operator is looking for when it scans the family in this batch
 */
final case class StoreUse(
    store: String,
    family: String,
    pattern: Pattern,
    reason: String,
    time: Option[TimeColumn],
    scan: Scan)

/** The rows that a scan may leave out, because the operator would pass them over. */
sealed trait Scan

object Scan {
  /** Nothing. */
  case object All extends Scan
  /** Rows whose time is after this. */
  final case class DueUpTo(time: Long) extends Scan
  /** Keys that do not begin the key of a row that is due in another family of the operator. */
  final case class KeysDueIn(store: String, family: String) extends Scan
}

/**
 * All stores of one stateful operator, in one batch of one run of a query.
 *
 * @param looksAhead whether the stores get the keys of rows to come
 */
final case class OperatorUse(
    run: String, operator: Long, version: Long, name: String, stores: Seq[StoreUse],
    looksAhead: Boolean)

/**
 * Problem: the plan is known on the driver, the store works in a task.
 *
 * Answer: an operator's use of its stores travels as a local property of the job. The property
 * names the run and the version it was made for; a store of another run or version (properties are
 * inherited by threads) takes no notice of it.
 *
 * {{{
 *   use    = run ";" version { ";" family }
 *   family = name of the store "," name "," ("known" | "unknown") "," time "," scan
 * }}}
 * Names, which may have any characters, are written as in a form of the web (`URLEncoder`), where
 * neither of the separators nor a blank can stand.
 */
object StoreUse {
  def property(operator: Long): String = s"tailrace.operator.$operator"

  def encode(use: OperatorUse): String = {
    val families = use.stores.map { store =>
      val known = if (store.pattern == Pattern.Unknown) "unknown" else "known"
      Seq(named(store.store), named(store.family), known, encode(store.time), encode(store.scan))
        .mkString(",")
    }
    (Seq(named(use.run), use.version.toString) ++ families).mkString(";")
  }

  /** The families of one store. None: nothing is known, or it was said of another run. */
  def decode(text: String, run: String, store: String): Option[Known] =
    Option(text).map(_.split(';').toList).collect {
      case said :: version :: families if nameIn(said) == run =>
        Known(version.toLong, families.map(_.split(',')).collect {
          case Array(of, family, known, time, scan) if nameIn(of) == store =>
            nameIn(family) -> KnownFamily(known == "known", decodeTime(time), decodeScan(scan))
        }.toMap)
    }

  /** The uses of one store's families in one batch. */
  final case class Known(version: Long, families: Map[String, KnownFamily])

  final case class KnownFamily(isKnown: Boolean, time: Option[TimeColumn], scan: Scan)

  private def named(name: String): String = URLEncoder.encode(name, UTF_8)

  private def nameIn(text: String): String = URLDecoder.decode(text, UTF_8)

  private def encode(time: Option[TimeColumn]): String = time.fold("-") { column =>
    Seq[Any](if (column.inKey) "key" else "value", column.columns, column.ordinal, column.fields,
      column.field, column.never, column.width).mkString(" ")
  }

  private def decodeTime(text: String): Option[TimeColumn] = text.split(' ') match {
    case Array(where, columns, ordinal, fields, field, never, width) =>
      Some(TimeColumn(where == "key", columns.toInt, ordinal.toInt, fields.toInt, field.toInt,
        never.toLong, width.toInt))
    case _ => None
  }

  private def encode(scan: Scan): String = scan match {
    case Scan.All => "all"
    case Scan.DueUpTo(time) => s"due $time"
    case Scan.KeysDueIn(store, family) => s"keys ${named(store)} ${named(family)}"
  }

  private def decodeScan(text: String): Scan = text.split(" ", -1) match {
    case Array("due", time) => Scan.DueUpTo(time.toLong)
    case Array("keys", store, family) => Scan.KeysDueIn(nameIn(store), nameIn(family))
    case _ => Scan.All
  }
}
