package tailrace.spark

import java.io.IOException

import scala.io.Source

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

import tailrace.errors.MissingFile
import tailrace.files.FileNames
import tailrace.format.LineageName
import tailrace.recovery.Loader

/**
 * Whether a version of a query's state can be loaded: a program of its own, which `tailrace
 * rollback` runs before it changes a file (src/tailrace/rollback/state.py). It plans with the
 * planner that a restart will use, and reads every file to its end.
 *
 * {{{
 *   arguments := state folder, version
 *   input     := "-"                                    as the files say
 *              | "published"                            the version after it is published, too, and
 *                                                       says which run of this one it continues
 *              | (operator "/" partition "=" lineage),*  as Spark's commit log says
 *   output    := "stores" TAB count, or
 *                ("problem" TAB store TAB error's class TAB text with \\n for each line break)*
 * }}}
 */
object StateCheck {

  def main(arguments: Array[String]): Unit = {
    val (root, version) = (arguments(0), arguments(1))
    val counts = Source.fromInputStream(System.in, "UTF-8").mkString.trim
    val check = new StateCheck(new Path(root), new Configuration(false))
    val stores = check.stores
    val problems = stores.flatMap(store => check.problemOf(store, version.toLong, counts))
    if (problems.isEmpty) println(s"stores\t${stores.size}") else problems.foreach(println)
  }

  final case class Store(operator: String, partition: String, name: String) {
    override def toString: String = s"$operator/$partition/$name"
  }

  private val DefaultStore = "default"
}

private final class StateCheck(root: Path, conf: Configuration) {
  import StateCheck._

  conf.addResource("core-default.xml")
  private val system: FileSystem = root.getFileSystem(conf)

  /** Every store has a folder from its first version on; a partition with named stores has no other. */
  def stores: Seq[Store] = for {
    operator <- numbersIn(root)
    partition <- numbersIn(new Path(root, operator))
    name <- storesIn(new Path(root, s"$operator/$partition"))
  } yield Store(operator, partition, name)

  private def storesIn(partition: Path): Seq[String] = {
    val inside = system.listStatus(partition).toSeq
    val named = inside.filter(_.isDirectory).map(_.getPath.getName).filterNot(isSparks).sorted
    val hasOwn = inside.exists(status => FileNames.parse(status.getPath.getName).nonEmpty)
    if (named.isEmpty || hasOwn) DefaultStore +: named else named
  }

  private def isSparks(folder: String): Boolean = folder.startsWith("_") || folder.startsWith(".")

  private def numbersIn(folder: Path): Seq[String] =
    system.listStatus(folder).toSeq.filter(_.isDirectory).map(_.getPath.getName)
      .filter(name => name.nonEmpty && name.forall(_.isDigit)).sortBy(_.toLong)

  def problemOf(store: Store, version: Long, counts: String): Option[String] =
    try {
      val named = counts != "-" && counts != "published"
      val loader = loaderOf(store, named)
      counts match {
        case "-" => loader.verify(version, None)
        case "published" => loader.verify(version, loader.continuedBy(version + 1))
        case _ => verifyNamed(loader, store, version, counts)
      }
      None
    } catch {
      case error: IOException =>
        val text = String.valueOf(error.getMessage).replace("\t", " ").replace("\n", "\\n")
        Some(s"problem\t$store\t${error.getClass.getName}\t$text")
    }

  private def loaderOf(store: Store, named: Boolean): Loader = {
    val partition = new Path(root, s"${store.operator}/${store.partition}")
    val location =
      if (store.name == DefaultStore) partition else new Path(partition, store.name)
    new Loader(
      new CheckpointFolder(location, conf, copies = None),
      new CheckpointPacks(root.toString, conf, copies = None, keepLocal = 0),
      new FileNames(named), named, store.toString)
  }

  /** One of the partition's lineages is this store's: that of its own changes. */
  private def verifyNamed(loader: Loader, store: Store, version: Long, counts: String): Unit = {
    val prefix = s"${store.operator}/${store.partition}="
    val lineages = counts.split(',').filter(_.startsWith(prefix)).map(_.stripPrefix(prefix)).toSeq
    val failures = lineages.map { lineage =>
      try {
        loader.verify(version, Some(LineageName.parse(lineage)))
        None
      } catch {
        case error: IOException => Some(error)
      }
    }
    if (failures.forall(_.nonEmpty)) {
      throw failures.flatten.headOption.getOrElse(new MissingFile(
        s"$root/${store.operator}/${store.partition}",
        s"Spark's commit log names no state of $store at version $version."))
    }
  }
}
