"""The second process of test_latecomer_does_no_harm: runs the query on a checkpoint that is in use.

Argument: the folder of the first process's query. It writes its output elsewhere, and lingers
over its first batch until a file "go on" appears in the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame

from support.counting import Counting, eventually
from support.processes import say, session


def main(folder: Path) -> None:
    counting = Counting(
        folder / "latecomer", events=folder / "events", checkpoint=folder / "checkpoint"
    )

    def lingering(batch: DataFrame, number: int) -> None:
        counting.keep(batch, number)
        say("shows a batch", number=number)
        eventually((folder / "go on").exists, "the sign to go on")

    query = counting.start(session(), sink=lingering)
    eventually(lambda: query.exception(), "the query to fail")
    say("ended", error=str(query.exception()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
