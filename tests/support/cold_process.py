"""The program of test_remote_tier.py: ends while a query has spilled state in a remote folder.

Arguments: a folder for the query, and one for spilled state.
"""

from __future__ import annotations

import sys
from pathlib import Path

from support.counting import Counting
from support.processes import say, session


def main(folder: Path, cold: Path) -> None:
    spark = session(spill="always", cold_dir=cold.as_uri())
    counting = Counting(folder)
    query = counting.start(spark)
    for batch in range(3):
        words = " ".join(f"word{batch * 300 + number}" for number in range(600))
        counting.await_published(counting.run_batch(query, words))
    say("spilled", files=len(list(cold.rglob("*.cold"))))
    # Not stopped: the JVM ends with the program.


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
