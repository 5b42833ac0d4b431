"""Fixtures for every test that opens stores.

Problem: a provider that a failed test did not close would hold memory and files until the JVM ends.
Answer: tests open providers through a factory that closes all of them.
Invariant: after a test no provider of it is open, however it ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.compilation import harness_jar
from support.harness import Harness, HarnessJar, Provider, Remote, Shape
from support.stores import StoreKind


def wait_for(path: Path) -> None:
    """Waits for a file that is written in the background, and fails if it does not come."""
    wait_until(path.exists, f"{path.name} was not written")


def wait_until(reached: Callable[[], bool], otherwise: str = "it did not happen") -> None:
    """Waits for an event in the background, and fails if it does not happen."""
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)


class Opener:
    """Opens providers of one kind of store on one directory, and closes them in the end."""

    def __init__(self, harness: Harness, kind: StoreKind, directory: Path) -> None:
        self.harness = harness
        self.kind = kind
        self.directory = directory
        self._opened: list[Provider] = []

    def elsewhere(self, directory: Path, kind: StoreKind | None = None) -> Opener:
        """Opens on another directory. Its providers are closed with those of this one."""
        other = Opener(self.harness, kind or self.kind, directory)
        other._opened = self._opened
        return other

    def __call__(
        self,
        shape: Shape | None = None,
        *,
        column_families: bool = False,
        partition: int = 0,
        store_name: str = "default",
        confs: Mapping[str, str] | None = None,
        run_id: str | None = None,
    ) -> Provider:
        provider = Provider(
            self.harness,
            self.kind.class_name,
            self.directory,
            shape or Shape(),
            column_families=column_families,
            partition=partition,
            store_name=store_name,
            confs={**self.kind.confs, **(confs or {})},
            run_id=run_id,
        )
        self._opened.append(provider)
        return provider

    def wait_for_snapshot(self, path: Path) -> None:
        """Waits for the file, and until its store is ready for another snapshot.

        While one is under way, a wish for another is taken as served.
        """
        wait_for(path)
        io = Remote(self.harness.jar, "IoHarness")
        wait_until(
            lambda: io.call("under_way", kind="snapshot") == 0, f"{path.name} is still under way"
        )

    def close(self) -> None:
        for provider in self._opened:
            provider.close()


@pytest.fixture(scope="session")
def harness_classes(spark: Any) -> HarnessJar:
    return HarnessJar(spark, harness_jar())


@pytest.fixture(scope="session")
def harness(harness_classes: HarnessJar) -> Harness:
    return Harness(harness_classes)


@pytest.fixture
def open_provider(harness: Harness, kind: StoreKind, tmp_path: Path) -> Iterator[Opener]:
    opener = Opener(harness, kind, tmp_path / "state")
    yield opener
    opener.close()
