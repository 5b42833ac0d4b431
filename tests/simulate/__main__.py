"""Simulates histories of the commit protocol and reports those that break it.

    make simulate SEEDS=100000     that many histories, from a seed that is printed
    make simulate REPLAY=4711      one history, event by event

Exit code 1: a history broke a rule. Exit code 2: the simulation itself failed, which says nothing
about the rules.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from support.seeds import SEED
from support.simulation import RULES, SimulationError, replay, simulate


def main() -> int:
    parser = argparse.ArgumentParser(description="simulated histories of the commit protocol")
    parser.add_argument("--seeds", type=int, default=100_000, help="how many histories")
    parser.add_argument("--first", type=int, default=SEED, help="the first seed")
    parser.add_argument("--replay", type=int, help="show the history of this seed and end")
    parser.add_argument("--rules-off", default="", help="numbers of rules, separated by commas")
    parser.add_argument("--defective", type=int, help="the simulation fails at this seed: a test")
    given = parser.parse_args()
    if given.seeds < 1:
        parser.error("--seeds takes a number from 1 on")
    if given.replay is not None:
        history = replay(given.replay, given.rules_off, given.defective)
        print("\n".join(history.lines))
        return int(history.violation is not None)
    began = time.monotonic()

    def progress(done: int) -> None:
        print(
            f"{done:,} of {given.seeds:,} histories, {time.monotonic() - began:.0f} s", flush=True
        )

    print(f"{given.seeds:,} histories from seed {given.first}", flush=True)
    threads = os.cpu_count() or 1
    found = simulate(
        given.first,
        given.seeds,
        rules_off=given.rules_off,
        threads=threads,
        defective=given.defective,
        progress=progress,
    )
    for violation in found:
        print(f"seed {violation.seed}: {violation.harm}: {violation.text}")
        print(f"    make simulate REPLAY={violation.seed}")
    seconds = time.monotonic() - began
    print(f"{len(found)} violations in {seconds:.0f} s; the rules are {min(RULES)} to {max(RULES)}")
    return int(bool(found))


if __name__ == "__main__":
    try:
        code = main()
    except SimulationError as defect:
        print(f"DEFECT OF THE SIMULATION, not of the protocol: {defect}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
