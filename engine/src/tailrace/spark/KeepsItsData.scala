package tailrace.spark

/** A source that can give a batch again even after it was told that the batch is committed. */
trait KeepsItsData
