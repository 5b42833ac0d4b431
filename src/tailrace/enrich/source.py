"""A remote table, as the enrichment sees it: two small classes to implement.

Problem: Redis is one table of many, and a connection cannot travel from the driver to the Python
workers that read with it.
Answer: a `Source` is the description, which travels. It makes a `Table`, the connection, where the
reads are done.
Invariant: a `Table` is used by one thread, so that an implementation needs no locks.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

Key = Hashable
"""The value of the column of `on`; with several columns, a tuple of their values."""
Record = Mapping[str, Any]
"""Values by the names of columns. A name that is not there is a null."""

OUTAGES = (ConnectionError, TimeoutError)
"""Errors of a table that may pass. A request that ends with one is tried again."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The key columns and the columns that a table is asked for."""

    on: tuple[str, ...]
    columns: tuple[str, ...]
    seconds: float
    """A request that takes longer should end with a TimeoutError."""


class Table(ABC):
    """A connection. It is closed after an error, and another one is made."""

    @abstractmethod
    def get_many(self, keys: Sequence[Key]) -> Mapping[Any, Record | None]:
        """The records of these keys. Keys that are missing in the table are None, or left out.

        An error that may pass is a ConnectionError or a TimeoutError: the request is made again,
        on a new connection. Any other error ends the batch at once.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Lets go of the connection. Also called after an error."""


class Source(ABC):
    """Where a table is and how it is read. Spark pickles it and sends it to the Python workers."""

    @property
    def name(self) -> str:
        """The name of this source in errors, without a password."""
        return type(self).__name__

    def check(self, wanted: Wanted) -> None:  # noqa: B027 - most have nothing to check
        """Raises an error if this can never work. Called on the driver, before anything runs."""

    @abstractmethod
    def connect(self, wanted: Wanted) -> Table:
        """Makes a connection, in a Python worker. The rules for errors are those of `get_many`."""
