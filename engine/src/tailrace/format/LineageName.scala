package tailrace.format

/** A lineage as text, 16 hexadecimal digits: in file names, and as Spark knows a version by. */
object LineageName {
  def apply(lineage: Long): String = f"$lineage%016x"

  def parse(name: String): Long = java.lang.Long.parseUnsignedLong(name, 16)
}
