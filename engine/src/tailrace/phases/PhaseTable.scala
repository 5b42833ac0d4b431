package tailrace.phases

/** How far a batch, a pack or a store has come; `name` is for errors. */
trait Phase {
  def name: String
}

/**
 * Problem: a protocol is right only if no phase is skipped, and none comes twice.
 *
 * Answer: a table says which phases may follow which, and `move` looks into it.
 *
 * Invariant: `move` returns `to` if the table has the step, and throws otherwise.
 */
trait PhaseTable[P <: Phase] {
  /** Every phase, with those that may follow it. */
  protected def allowed: Map[P, Set[P]]

  protected def illegalMove(from: P, to: P): RuntimeException

  final def move(from: P, to: P): P = if (allowed(from)(to)) to else throw illegalMove(from, to)
}
