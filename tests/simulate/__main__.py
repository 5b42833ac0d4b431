"""Simulates histories of the commit protocol and reports those that break it.

    make simulate SEEDS=100000     that many histories, from a seed that is printed
    make simulate REPLAY=4711      one history, event by event

Exit code 1: a history broke a rule, or with `--each-rule` a rule was not missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from support.seeds import SEED
from support.simulation import RULES, replay, simulate


def main() -> int:
    parser = argparse.ArgumentParser(description="simulated histories of the commit protocol")
    parser.add_argument("--seeds", type=int, default=100_000, help="how many histories")
    parser.add_argument("--first", type=int, default=SEED, help="the first seed")
    parser.add_argument("--replay", type=int, help="show the history of this seed and end")
    parser.add_argument("--rules-off", default="", help="numbers of rules, separated by commas")
    given = parser.parse_args()
    if given.seeds < 1:
        parser.error("--seeds takes a number from 1 on")
    if given.replay is not None:
        history = replay(given.replay, given.rules_off)
        print("\n".join(history))
        return int(history[-1].startswith("violation"))
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
        progress=progress,
    )
    for violation in found:
        print(f"seed {violation.seed}: {violation.text}")
        print(f"    make simulate REPLAY={violation.seed}")
    seconds = time.monotonic() - began
    print(f"{len(found)} violations in {seconds:.0f} s; the rules are {min(RULES)} to {max(RULES)}")
    return int(bool(found))


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
