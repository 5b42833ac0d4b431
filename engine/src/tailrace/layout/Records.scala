package tailrace.layout

/** Some records, as an array of their addresses: an `Array[Record]` would have an object of each. */
final class Records(val raw: Array[Long]) extends AnyVal {
  def length: Int = raw.length

  def apply(index: Int): Record = new Record(raw(index))

  def foreach(visit: RecordVisitor): Unit = {
    var index = 0
    while (index < raw.length) {
      visit(new Record(raw(index)))
      index += 1
    }
  }
}

object Records {
  val Empty: Records = new Records(Array.emptyLongArray)
}
