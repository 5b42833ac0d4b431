package tailrace.semantics

import tailrace.layout.time.TimeColumn

/**
 * What a query's plan says about one column family of one stateful operator.
 *
 * @param store    the store's name within the operator ("default", or one of a join's four)
 * @param family   the column family in it
 * @param pattern  how it is used, and `reason` says how that is known
 * @param time     where a row tells when it falls due, if the operator evicts by time alone
 * @param scan     what the operator is looking for when it scans the family in this batch
 */
final case class StoreUse(
    store: String,
    family: String,
    pattern: Pattern,
    reason: String,
    time: Option[TimeColumn],
    scan: Scan)

/** What a scan may leave out, because the operator would pass it over. */
sealed trait Scan

object Scan {
  /** Nothing. */
  case object All extends Scan
  /** Rows whose time is after this. */
  final case class DueUpTo(time: Long) extends Scan
  /** Keys that do not begin the key of a row that is due in another family of the operator. */
  final case class KeysDueIn(store: String, family: String) extends Scan
}

/** All stores of one stateful operator, in one batch of one run of a query. */
final case class OperatorUse(
    run: String, operator: Long, version: Long, name: String, stores: Seq[StoreUse])

/**
 * Problem: the plan is known on the driver, the store works in a task.
 *
 * Answer: what a store needs to know travels as a local property of the job, one per operator. It
 * names the run and the version it was made for; a store of another run or version (properties are
 * inherited by threads) takes no notice of it.
 */
object StoreUse {
  def property(operator: Long): String = s"tailrace.operator.$operator"

  def encode(use: OperatorUse): String = {
    val families = use.stores.map { store =>
      val known = if (store.pattern == Pattern.Unknown) "unknown" else "known"
      Seq(store.store, store.family, known, encode(store.time), encode(store.scan)).mkString(",")
    }
    (Seq(use.run, use.version.toString) ++ families).mkString(";")
  }

  /** The families of one store. None: nothing is known, or it was said of another run. */
  def decode(text: String, run: String, store: String): Option[Known] =
    Option(text).map(_.split(';').toList).collect {
      case said :: version :: families if said == run =>
        Known(version.toLong, families.map(_.split(',')).collect {
          case Array(`store`, family, known, time, scan) =>
            family -> KnownFamily(known == "known", decodeTime(time), decodeScan(scan))
        }.toMap)
    }

  /** What a store knows of its families in one batch. */
  final case class Known(version: Long, families: Map[String, KnownFamily])

  final case class KnownFamily(isKnown: Boolean, time: Option[TimeColumn], scan: Scan)

  private def encode(time: Option[TimeColumn]): String = time.fold("-") { column =>
    Seq(if (column.inKey) "key" else "value", column.columns, column.ordinal, column.fields,
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
    case Scan.KeysDueIn(store, family) => s"keys $store $family"
  }

  private def decodeScan(text: String): Scan = text.split(' ') match {
    case Array("due", time) => Scan.DueUpTo(time.toLong)
    case Array("keys", store, family) => Scan.KeysDueIn(store, family)
    case _ => Scan.All
  }
}
