package tailrace.files

import tailrace.format.{FileKind, LineageName, PackHeader}

/**
 * {{{
 *   name := version [ "_" lineage (16 hexadecimal digits) ] ( ".changes.tr" | ".snapshot.tr" )
 *   pack := version "-" digest (16 hexadecimal digits) ".pack.tr"
 * }}}
 * The lineage is part of the name where Spark says to the store which run of a batch it took
 * (checkpoint format version 2); otherwise a later run of a batch replaces the earlier one's file.
 * A pack's digest stands for its content.
 */
final class FileNames(withLineage: Boolean) {
  def apply(kind: FileKind, version: Long, lineage: Long): String =
    if (withLineage) s"${version}_${LineageName(lineage)}${kind.suffix}"
    else s"$version${kind.suffix}"
}

object FileNames {
  final case class Parsed(kind: FileKind, version: Long, lineage: Option[Long])

  private val Pattern = """(\d{1,18})(?:_([0-9a-f]{16}))?(\.changes\.tr|\.snapshot\.tr)""".r
  private val PackSuffix = ".pack.tr"
  private val Pack = """(\d{1,18})-[0-9a-f]{16}\.pack\.tr""".r

  def parse(name: String): Option[Parsed] = name match {
    case Pattern(version, lineage, suffix) =>
      FileKind.all.find(_.suffix == suffix).map(
        Parsed(_, version.toLong, Option(lineage).map(LineageName.parse)))
    case _ => None
  }

  def pack(header: PackHeader): String = f"${header.version}-${header.digest}%016x.pack.tr"

  /** The version of a pack, if this is the name of one. */
  def packVersion(name: String): Option[Long] = name match {
    case Pack(version) => Some(version.toLong)
    case _ => None
  }

  /** Whether we give files this name. */
  def isOwn(name: String): Boolean = parse(name).nonEmpty || packVersion(name).nonEmpty

  /** Whether it is a temporary file of one of our writes; an old one is of an interrupted write. */
  def isAbandoned(name: String): Boolean =
    name.startsWith(".") && name.endsWith(".tmp") &&
      (FileKind.all.map(_.suffix) :+ PackSuffix).exists(suffix => name.contains(suffix + "."))

  /** Which other store's file this is, if we know it. */
  def otherStore(name: String): Option[String] = name match {
    case other if other.endsWith(".zip") || other.endsWith(".changelog") =>
      Some("Spark's RocksDB state store")
    case other if other.endsWith(".delta") || other.endsWith(".snapshot") =>
      Some("Spark's HDFS-backed state store")
    case _ => None
  }
}
