package tailrace.semantics

import org.apache.spark.sql.catalyst.expressions.Attribute

import tailrace.errors.InvalidHint

/**
 * A user's description of the operators that read a DataFrame (`tailrace.hint`), where the plan does
 * not have it. It travels in the metadata of the DataFrame's columns.
 *
 * @param pattern     how the state is used
 * @param triggerTime when the rows of a list are expected to be read: an expression in SQL
 */
final case class Hint(pattern: Option[Pattern], triggerTime: Option[String])

object Hint {
  /** The keys in a column's metadata; `tailrace/hints.py` writes them. */
  private val PatternKey = "tailrace.pattern"
  private val TriggerTimeKey = "tailrace.triggerTime"

  /** Of an operator that reads these columns. One that reads no hinted column has no hint. */
  def in(columns: Seq[Attribute]): Hint = {
    def first(key: String): Option[String] = columns.iterator.map(_.metadata)
      .collectFirst { case metadata if metadata.contains(key) => metadata.getString(key) }

    Hint(first(PatternKey).map(patternNamed), first(TriggerTimeKey))
  }

  private def patternNamed(name: String): Pattern = Pattern.all.find(_.name == name)
    .getOrElse(throw new InvalidHint(s"there is no pattern '$name'",
      s"Use one of: ${Pattern.all.map(_.name).mkString(", ")}."))
}
