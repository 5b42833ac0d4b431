package tailrace.semantics

/** A source that can give a batch again even after the batch was committed to it. */
trait ReplayableSource
