"""Kills a query again and again, and lets it go on each time, until its input is used up.

Problem: "exactly once" is only as good as the moments at which a test tried to break it.
Answer: a `Chain` is one checkpoint and its lives. Every life is a process of its own
(chaos_query.py), which ends by SIGKILL at a moment drawn from a seed, or by a failpoint at which
the JVM halts itself; the life after the last kill runs to its end. Output and state are then
compared with an undisturbed run (chaos_referee.py).
Invariant: a chain that returns was halted at every failpoint that was planned: one that no life
came to, a query that failed, or a program that hangs is an error, with the seed and all kills so
far. No process outlives the one that started it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

import pyspark

from support.chaos_archive import class_archive
from support.chaos_input import prepare
from support.chaos_life import Life
from support.chaos_query import FOLDERS, HALTED, TWO_HOSTS

# Every boundary of the commit protocol, in the order in which a batch comes to it.
PLACES = (
    "source",
    "offset.prepare",
    "offset",
    "register",
    "sink",
    "commit.prepare",
    "local",
    "upload",
    "acknowledge",
    "ledger",
    "publish",
)
POINTS = tuple(f"{place}.{side}" for place in PLACES for side in ("before", "after"))

# All state in files, hints, and reads of it in flight.
COLD = {"spill": "always", "prefetch": "on", "hints": "on"}
# Jobs beside the batch that begin when a query so set is killed: records are being written, read
# before they are looked up, or moved to other files. Each batch has several of each.
COLD_POINTS = ("io.spill", "io.read", "io.clean")

# Two executors, processes of their own on hosts of their own. The third registration of each is
# slow, so that Spark starts another attempt of the task on the other executor.
SPECULATION = {
    "spark.executor.memory": "1g",
    "spark.executorEnv.TAILRACE_FAILPOINTS": (
        "register.before@3=pause:1500,register.after@6=pause:900"
    ),
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.minTaskRuntime": "0ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
}
SPECULATED = "speculative attempts: "


def points_of(source: str) -> tuple[str, ...]:
    """Those that a query over this source passes."""
    return tuple(point for point in POINTS if source != "python" or point[:6] != "source")


@dataclass(frozen=True)
class Failpoint:
    """The JVM halts itself when a life passes the point for the hit-th time."""

    name: str
    hit: int = 1

    def __str__(self) -> str:
        return f"{self.name}@{self.hit}"

    @property
    def batches(self) -> int:
        """How many files a life may use up on its way there: the batch that it begins with may have
        its offsets or its output already, and then it does not pass."""
        return 2 if self.name in COLD_POINTS else self.hit + 1


@dataclass(frozen=True)
class Moment:
    """SIGKILL to the whole process group, some time after a number of lines of progress."""

    lines: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:.3f} s after line {self.lines} of progress"

    @property
    def batches(self) -> int:
        """A batch prints two lines; how many follow in the rest of the time is a guess."""
        return self.lines // 2 + 3


Kill = Failpoint | Moment


def random_moment(chooser: random.Random) -> Moment:
    """Anywhere between the query's start and some batches later; a warm batch takes half a second,
    the first one and the start before it a few seconds."""
    lines = chooser.randrange(6)
    return Moment(lines, chooser.uniform(0, 0.4 if lines > 1 else 1.2))


@dataclass(frozen=True)
class Setting:
    """Which query is killed, and how it is set. `delays` names points and milliseconds: a file that
    is written late is one that a kill finds unwritten. `local_copies`: executors keep copies of
    their files, which outlive them. `speculates`: on two executors, with attempts side by side."""

    kind: str
    sink: str
    source: str = "files"
    partitions: int = 2
    options: Mapping[str, str] = field(default_factory=dict)
    confs: Mapping[str, str] = field(default_factory=dict)
    delays: Mapping[str, int] = field(default_factory=dict)
    local_copies: bool = False
    speculates: bool = False

    def __str__(self) -> str:
        words = [self.kind, self.sink, self.source]
        return "/".join([*words, "speculation"] if self.speculates else words)


class Ending(Enum):
    """How a life ended."""

    DONE = auto()
    HALTED = auto()
    KILLED = auto()
    FAILED = auto()


class ChaosError(AssertionError):
    """A violation of the protocol, with all that is needed to reproduce it."""


class Chain:
    """One checkpoint, and the lives that end on it as planned.

    folder/input, closing: the files; checkpoint, output: compared at the end; logs: the output of
    each life; scratch: the files of a machine's local disk, which outlive a process.
    """

    def __init__(
        self,
        folder: Path,
        setting: Setting,
        seed: int,
        kills: Sequence[Kill],
        *,
        environment: Mapping[str, str] | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.folder = folder
        self.setting = setting
        self.seed = seed
        self.kills = kills
        self.files = 2 + sum(kill.batches for kill in kills)
        self.environment = environment or {}
        self.say = say
        self.history: list[str] = []
        self.killed: list[Kill] = []
        self.speculated = 0  # tasks that ran twice at a time, in lives that were not killed

    def run(self) -> None:
        """1. Write the input. 2. A life for every kill. 3. A life that runs to the end."""
        # 1.
        self.say(f"{self.setting}: seed {self.seed}, {self.files} files")
        prepare(self.folder, self.setting.kind, self.seed, self.files)
        for name in ("logs", "scratch"):
            (self.folder / name).mkdir()
        # 2.
        for number, kill in enumerate(self.kills):
            ending = self.live(kill)
            if ending is Ending.DONE:
                missed = [str(it) for it in self.kills[number:] if isinstance(it, Failpoint)]
                if missed:
                    raise self.error(f"used up the input, and no life came to {missed[0]}")
                return  # faster than the moment it was to die at
            if ending is Ending.FAILED:
                raise self.error("failed instead of dying")
        # 3.
        if self.live(None) is not Ending.DONE:
            raise self.error("was left alone and did not come to its end")
        if self.setting.speculates and self.speculated == 0:
            raise self.error(
                "came to its end, and Spark ran no task a second time beside the first"
            )

    def live(self, kill: Kill | None) -> Ending:
        """One life. Its ending is added to the history and said at once."""
        began = time.monotonic()
        life = Life(
            self._arguments(),
            {
                "TMPDIR": str(self.folder / "scratch"),
                "TAILRACE_FAILPOINTS": self._failpoints(kill),
                **self._cluster(),
                **self.environment,
            },
            self._log(len(self.history) + 1),
        )
        try:
            ending = self._await(life, kill)
        finally:
            life.end()
        if kill and ending in (Ending.HALTED, Ending.KILLED):
            self.killed.append(kill)
        self.speculated += sum(
            int(line.rpartition(" ")[2]) for line in life.lines if line.startswith(SPECULATED)
        )
        last = life.progress[-1] if life.progress else "no batch"
        self.history.append(f"{ending.name.lower()}, planned {kill or 'to end'}, after {last}")
        seconds = time.monotonic() - began
        self.say(f"{self.setting} life {len(self.history)}: {self.history[-1]} ({seconds:.1f} s)")
        return ending

    def _cluster(self) -> dict[str, str]:
        """Spark's workers leave a folder `work` where Spark is installed: give them one of ours."""
        if not self.setting.speculates:
            return {}
        home = self.folder / "scratch" / "spark"
        if not home.exists():
            home.mkdir()
            for entry in Path(pyspark.__file__).parent.iterdir():
                if entry.name != "work":
                    (home / entry.name).symlink_to(entry)
        return {"SPARK_HOME": str(home)}

    def _failpoints(self, kill: Kill | None) -> str:
        actions = [f"{name}@1=delay:{ms}" for name, ms in self.setting.delays.items()]
        if isinstance(kill, Failpoint):
            actions.append(f"{kill}=kill")
        return ",".join(actions)

    @staticmethod
    def _await(life: Life, kill: Kill | None) -> Ending:
        if (
            isinstance(kill, Moment)
            and life.await_progress(kill.lines)
            and life.await_end(kill.seconds) is None
        ):
            life.kill()
            return Ending.KILLED
        code = life.await_end()
        if isinstance(kill, Failpoint) and code == HALTED:
            return Ending.HALTED
        return Ending.DONE if code == 0 else Ending.FAILED

    def error(self, problem: str) -> ChaosError:
        """The problem of the last life, or of the whole chain, and how to see it again."""
        lives = "\n".join(f"  life {n}: {text}" for n, text in enumerate(self.history, 1))
        log = self._log(len(self.history))
        tail = log.read_text("utf-8", "replace")[-6000:] if log.exists() else ""
        environment = f", environment {dict(self.environment)}" if self.environment else ""
        return ChaosError(
            f"{self.setting}, life {len(self.history)}: {problem}.\n"
            f"Seed {self.seed}, {self.files} files{environment}, {self.setting!r}.\n"
            f"Input, checkpoint, output and logs are in {self.folder}.\n"
            f"{lives}\nThe last life's log ends:\n{tail}"
        )

    def _log(self, life: int) -> Path:
        return self.folder / "logs" / f"life-{life:02d}.log"

    def _arguments(self) -> list[str]:
        setting, scratch = self.setting, self.folder / "scratch"
        arguments = [f"--{name}={getattr(setting, name)}" for name in ("kind", "sink", "source")]
        arguments += [f"--{name}={self.folder / name}" for name in FOLDERS]
        arguments.append(f"--partitions={setting.partitions}")
        options = {"local_dir": scratch / "copies"} if setting.local_copies else {}
        arguments += [
            f"--option={key}={value}" for key, value in {**options, **setting.options}.items()
        ]
        confs = {"spark.local.dir": str(scratch), **setting.confs}
        if setting.speculates:
            arguments.append(f"--master={TWO_HOSTS}")
            confs = {**SPECULATION, **confs}
        arguments += [f"--conf={key}={value}" for key, value in confs.items()]
        arguments += [f"--java-option=-Djava.io.tmpdir={scratch}"]
        arguments += [f"--java-option=-XX:SharedArchiveFile={class_archive()}"]
        return arguments
