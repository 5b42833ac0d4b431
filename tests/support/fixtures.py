"""Fixtures for every test that opens stores.

Problem: a provider left open by a failed test would hold memory and files until the JVM ends.
Answer: tests open providers through a factory that closes what it opened.
Invariant: after a test no provider of it is open, whatever happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.compilation import harness_jar
from support.harness import Harness, HarnessJar, Provider, Shape
from support.stores import StoreKind


def wait_for(path: Path) -> None:
    """Waits for a file that is written in the background, and fails if it does not come."""
    wait_until(path.exists, f"{path.name} was not written")


def wait_until(reached: Callable[[], bool], otherwise: str = "it did not happen") -> None:
    """Waits for something that happens in the background, and fails if it does not."""
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
