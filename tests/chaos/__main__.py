"""`make chaos`: kills queries two hundred times, and looks for a row too many or too few.

Problem: the tests in tests/faults kill at chosen points; faults hide at points that no test chose.
Answer: chains of kills (support/chaos.py) over all kinds of queries, sinks and sources, half of the
kills at failpoints, half at random moments, all drawn from one seed, two chains at a time.
Invariant: it ends with 0 only when all kills were done and no chain's result differed. The first
difference ends it with 1, keeps that chain's folder and says how to run that chain again.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from itertools import product
from pathlib import Path
from typing import Any

from support.chaos import (
    COLD,
    COLD_POINTS,
    POINTS,
    Chain,
    ChaosError,
    Failpoint,
    Kill,
    Moment,
    Setting,
    points_of,
    random_moment,
)
from support.chaos_archive import FOLDER, class_archive
from support.chaos_input import KINDS
from support.chaos_life import Life
from support.chaos_query import SINKS, session
from support.chaos_referee import Referee
from support.seeds import SEED

KILLS_A_CHAIN = 6
FAILPOINTS_A_CHAIN = 3
# Of the chains over plain files. Their lives start two executors each.
SPECULATIVE = 0.5
# Queries whose records are found by their hash: all of them can be in files.
HASHED = ("window", "join", "dedup", "unique")
CACHES = ("timestamp", "timestamp", "lru", "clock")
# Of the chains with all state in files: their tasks read on demand.
DEMANDING = 0.2
DIFFERENT, NOT_ALL, INTERRUPTED = 1, 2, 130


def plan(given: argparse.Namespace, number: int, kills: int) -> tuple[Setting, list[Kill]]:
    """The query and the kills of one chain: a matter of seed, number and --only alone."""
    seed: int = given.seed
    shuffler = random.Random(seed)
    settings = list(product(KINDS, SINKS, ("files", "cleaned")))
    # Less often than the others: its lives start a dozen Python processes each.
    settings += [(kind, shuffler.choice(SINKS), "python") for kind in KINDS]
    settings = [names for names in settings if given.only in "/".join(names)]
    shuffler.shuffle(settings)
    chooser = random.Random(f"{seed} {number}")
    kind, sink, source = settings[number % len(settings)]
    points = list(points_of(source))
    random.Random(seed).shuffle(points)
    first = number * FAILPOINTS_A_CHAIN
    chosen: list[Kill] = [
        Failpoint(points[(first + index) % len(points)], chooser.choice((1, 1, 2, 3)))
        for index in range(FAILPOINTS_A_CHAIN)
    ]
    chosen += [random_moment(chooser) for _ in range(KILLS_A_CHAIN - len(chosen))]
    chooser.shuffle(chosen)
    # A failpoint that kills would kill an executor here, and not the query.
    speculates = source == "files" and chooser.random() < given.speculative
    if speculates:
        chosen = [random_moment(chooser) for _ in range(KILLS_A_CHAIN)]
    # A snapshot every other batch in half of the chains, where the default waits for many.
    snapshots = chooser.choice(({}, {"max_deltas": "2"}))
    delays = chooser.choice(({}, {"upload.before": 400}, {"publish.before": 400}))
    cold = chooser.choice(({}, COLD | {"cold_io": chooser.choice(("buffered", "direct"))}))
    if cold and kind in HASHED and not speculates:
        moment = next(place for place, kill in enumerate(chosen) if isinstance(kill, Moment))
        chosen[moment] = Failpoint(chooser.choice(COLD_POINTS), chooser.randrange(1, 6))
    # Restarts that leave the state in small blocks of the snapshot, in half of the chains.
    restart = chooser.choice(({}, {"max_deltas": "2", "restart": "always"}))
    cache = {"cache": chooser.choice(CACHES)}
    if cold and chooser.random() < DEMANDING:
        cold |= {"prefetch": "demand", "hints": "off"}
    setting = Setting(
        kind,
        sink,
        source,
        options={**snapshots, **cold, **cache, **restart, **dict(given.option)},
        delays=delays,
        local_copies=chooser.random() < 0.5,
        speculates=speculates,
    )
    return setting, chosen[:kills]


class Tournament:
    """Chain after chain until enough were killed, time is up or a result differs."""

    def __init__(self, given: argparse.Namespace, folder: Path, referee: Referee) -> None:
        self.given = given
        self.folder = folder
        self.referee = referee
        self.began = time.monotonic()
        self.chains: list[Chain] = []
        self._planned = 0
        self._next = 0
        self._guard = threading.Lock()
        self._court = threading.Lock()
        self._over = threading.Event()

    def run(self) -> None:
        """As many chains at once as asked for. The first error ends all of them."""
        with ThreadPoolExecutor(self.given.at_once) as pool:
            workers: list[Future[None]] = [
                pool.submit(self._work) for _ in range(self.given.at_once)
            ]
            try:
                done, _ = wait(workers, return_when=FIRST_EXCEPTION)
                for worker in done:
                    worker.result()
            finally:
                self._over.set()
                if any(worker.running() for worker in workers):
                    Life.end_all()

    @property
    def killed(self) -> list[Kill]:
        return [kill for chain in self.chains for kill in chain.killed]

    def time_is_up(self) -> bool:
        limit: float = self.given.minutes
        return time.monotonic() > self.began + 60 * limit

    def _work(self) -> None:
        while not self._over.is_set() and not self.time_is_up():
            with self._guard:
                kills = min(self.given.kills - self._planned, KILLS_A_CHAIN)
                number = self._next
                self._planned += kills
                self._next += 1
            if self.given.chain is not None:
                if number:
                    return
                number, kills = self.given.chain, KILLS_A_CHAIN
            if kills <= 0:
                return
            self._run(number, kills)

    def _arguments(self) -> str:
        """The given arguments that take part in the plan."""
        options = [f"--option {key}={value}" for key, value in self.given.option]
        return " ".join(
            [f"--only '{self.given.only}' --speculative {self.given.speculative:g}", *options]
        )

    def _run(self, number: int, kills: int) -> None:
        setting, chosen = plan(self.given, number, kills)
        folder = self.folder / f"chain-{number}"

        def say(line: str) -> None:
            passed = (time.monotonic() - self.began) / 60
            print(f"[{passed:5.1f} min, {len(self.killed):3d} kills] {number}: {line}", flush=True)

        chain = Chain(folder, setting, self.given.seed + number, chosen, say=say)
        self.chains.append(chain)
        try:
            chain.run()
            with self._court:
                self.referee.judge(chain)
        except ChaosError:
            if not self._over.is_set():
                print(
                    f"\nRun this chain again, with these kills in this order:\n"
                    f"  TAILRACE_SEED={self.given.seed} make chaos "
                    f'CHAOS_ARGUMENTS="{self._arguments()} --chain {number}"',
                    flush=True,
                )
            raise
        with self._guard:
            self._planned -= kills - len(chain.killed)
        shutil.rmtree(folder)


def arguments() -> argparse.Namespace:
    environment = os.environ
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=int(environment.get("CHAOS_KILLS") or 200))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--chain", type=int, help="only the chain of this number")
    parser.add_argument("--only", default="", help="part of kind/sink/source")
    parser.add_argument(
        "--speculative",
        type=float,
        default=SPECULATIVE,
        help="share of the chains over plain files in which Spark speculates",
    )
    parser.add_argument("--at-once", type=int, default=2, help="chains at a time")
    parser.add_argument("--minutes", type=float, default=60, help="start no chain after so long")
    parser.add_argument("--option", type=_pair, action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


def _stop(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def main() -> int:
    given = arguments()
    signal.signal(signal.SIGTERM, _stop)
    print(f"seed {given.seed}: TAILRACE_SEED={given.seed} draws the same kills", flush=True)
    class_archive()
    FOLDER.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{given.seed}-", dir=FOLDER))
    spark = session("local[2]", 2, {}, {"spark.local.dir": str(folder / "local")}, ())
    tournament = Tournament(given, folder, Referee(spark, folder / "undisturbed"))
    try:
        tournament.run()
    except ChaosError as error:
        print(f"\nDIFFERENT: {error}", flush=True)
        return DIFFERENT
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        return INTERRUPTED
    finally:
        Life.end_all()
        spark.stop()
    shutil.rmtree(folder)
    points = Counter(kill.name for kill in tournament.killed if isinstance(kill, Failpoint))
    moments = len(tournament.killed) - sum(points.values())
    minutes = (time.monotonic() - tournament.began) / 60
    twice = sum(chain.speculated for chain in tournament.chains)
    print(
        f"\n{len(tournament.killed)} kills in {len(tournament.chains)} chains, {minutes:.1f} min: "
        f"{moments} at random moments, {sum(points.values())} at failpoints\n"
        + "".join(f"  {point:20} {points[point]}\n" for point in POINTS + COLD_POINTS)
        + f"  {'tasks run twice at a time':20} {twice}\n"
        f"No output and no state differed. Seed {given.seed}."
    )
    if twice == 0 and any(chain.setting.speculates for chain in tournament.chains):
        print("But Spark ran no task twice at a time: speculation was not tried.")
        return NOT_ALL
    if given.chain is None and len(tournament.killed) < given.kills:
        print(f"But time was up: {given.kills} kills were asked for.")
        return NOT_ALL
    return 0


if __name__ == "__main__":
    sys.exit(main())
