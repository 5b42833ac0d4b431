"""Requests to a remote table, made beside the rows.

Problem: a round trip takes as long as thousands of rows take to be handed on. A server may also be
slow, restarting, or gone.
Answer: a few threads, each with a connection of its own, make requests of many keys. A request
that meets an outage is made again on a new connection, after growing waits, within the timeout.
Invariant: a fetch ends: with its records, or with an error that names the server. A row that waits
for it gets an error even if the connection ignores its own time limit and never comes back.

One fetch:
1. It is queued by `submit`, and a thread is started if all are busy and there may be more.
2. A thread takes it, sets its deadline and makes the request, again and again if need be.
3. `deliver` turns the answer into entries of the cache.
4. `settle` is told that the fetch is over, with or without an answer, and then it is done.
"""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tailrace.enrich.cache import Entry
from tailrace.enrich.settings import Settings
from tailrace.enrich.source import OUTAGES, Key, Record, Source, Table, Wanted
from tailrace.errors import EnrichmentError, SourceUnavailableError, TailraceError
from tailrace.supervise import Backoff


class Fetch:
    """Some keys that are read with one request. Its `entries` stay, whatever the cache drops."""

    def __init__(self, times: dict[Key, int]) -> None:
        self.times = times
        """The keys, each with the latest event time that it is expected for."""
        self.entries: dict[Key, Entry] = {}
        self.error: TailraceError | None = None
        self.done = threading.Event()
        self.hung_at: float | None = None
        """When it is given up. None until a thread has taken it."""


Deliver = Callable[[Fetch, Mapping[Any, Record | None]], None]
Settle = Callable[[Fetch], None]


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Clock and waits of the fetcher, which tests replace."""

    now: Callable[[], float] = time.monotonic
    backoff: Backoff = dataclasses.field(
        default_factory=lambda: Backoff(first=0.05, factor=2, cap=2, random=random.Random())
    )
    on_retry: Callable[[BaseException], None] = lambda _: None
    grace: float = 1.0
    """Seconds beyond the last attempt's limit: from here on a connection counts as hung."""


class Fetcher:
    """The threads and connections of one table in one Python worker."""

    def __init__(
        self,
        source: Source,
        wanted: Wanted,
        settings: Settings,
        deliver: Deliver,
        settle: Settle,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._source = source
        self._wanted = wanted
        self._settings = settings
        self._deliver = deliver
        self._settle = settle
        self._around = surroundings or Surroundings()
        self._queue: queue.SimpleQueue[Fetch | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: set[Fetch] = set()
        self._outstanding = 0
        self._threads = 0
        self._closed = threading.Event()
        self.retries = 0
        self.broken = False
        """Whether a thread hangs. The fetcher should not be used any more."""

    # 1.
    def submit(self, fetch: Fetch) -> None:
        with self._lock:
            self._outstanding += 1
            start = self._outstanding > self._threads < self._settings.connections
            self._threads += start
            number = self._threads
        self._queue.put(fetch)
        if start:
            name = f"tailrace-enrich-{number}"
            # A daemon: a request that hangs must not keep the worker from ending.
            threading.Thread(target=self._serve, name=name, daemon=True).start()

    def wait(self, fetch: Fetch) -> None:
        """Waits until a fetch is done, and raises its error if it has one."""
        while not fetch.done.wait(self._patience()):
            now = self._around.now()
            with self._lock:
                hung = {it for it in self._running if it.hung_at is not None and it.hung_at <= now}
                no_thread = fetch.hung_at is None and len(hung) == self._threads
            if fetch in hung or no_thread:
                self.broken = True
                raise self._unavailable("It did not answer, and its connection hangs.")
        if fetch.error is not None:
            raise fetch.error

    def close(self) -> None:
        """Lets the threads end. Nothing waits for them."""
        self._closed.set()
        with self._lock:
            threads = self._threads
        for _ in range(threads):
            self._queue.put(None)

    def _patience(self) -> float:
        """How long until the next look at the threads, in seconds."""
        now = self._around.now()
        with self._lock:
            ends = [it.hung_at - now for it in self._running if it.hung_at is not None]
        return min((left for left in ends if left > 0), default=self._around.grace)

    # 2.
    def _serve(self) -> None:
        table: Table | None = None
        while (fetch := self._queue.get()) is not None:
            with self._lock:
                deadline = self._around.now() + self._settings.timeout_seconds
                fetch.hung_at = deadline + self._settings.attempt_seconds + self._around.grace
                self._running.add(fetch)
            try:
                table = self._fetch(fetch, table, deadline)
            finally:
                with self._lock:
                    self._running.discard(fetch)
                    self._outstanding -= 1
                try:
                    self._settle(fetch)  # 4.
                finally:
                    fetch.done.set()
        _close(table)

    def _fetch(self, fetch: Fetch, table: Table | None, deadline: float) -> Table | None:
        """Makes the request until it succeeds. Gives the connection that is to be used next."""
        failures = 0
        while not self._closed.is_set():
            try:
                if table is None:
                    table = self._source.connect(self._wanted)
                answer = table.get_many(list(fetch.times))
                self._deliver(fetch, answer)  # 3.
            except OUTAGES as error:
                _close(table)
                table = None
                failures += 1
                pause = self._around.backoff.seconds(failures)
                if self._around.now() + pause >= deadline:
                    fetch.error = self._unavailable(_told(error))
                    return None
                with self._lock:
                    self.retries += 1
                self._around.on_retry(error)
                self._closed.wait(pause)
            except TailraceError as error:
                fetch.error = error
                return table
            except BaseException as error:  # a thread that ended would leave its rows waiting
                _close(table)
                fetch.error = EnrichmentError(
                    f"{self._source.name} refused a request for {len(fetch.times)} keys.",
                    _told(error),
                    "Correct the cause. It is not an outage, so it was not tried again.",
                )
                return None
            else:
                return table
        fetch.error = self._unavailable("The connection was closed while it was asked.")
        return table

    def _unavailable(self, cause: str) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"{self._source.name} gave no answer within {self._settings.timeout}.",
            cause,
            "See whether the server is up and can be reached from the executors, then start the "
            "query again: it goes on with this batch. For a server that is slow, or away for "
            "longer, give enrich a longer timeout.",
        )


def _close(table: Table | None) -> None:
    if table is not None:
        with contextlib.suppress(Exception):  # it is of no use any more, whatever it says
            table.close()


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
