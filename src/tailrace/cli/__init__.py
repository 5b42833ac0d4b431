"""The `tailrace` command.

Problem: a user wants to see that tailrace works here before reading its documents.
Answer: a few subcommands, each in its own module with `add_arguments` and `run`.
Invariant: every listed subcommand works; an error that tailrace foresees ends with its three
lines and exit code 1, wrong usage with exit code 2, never with a stack trace.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Protocol

from tailrace._version import __version__
from tailrace.cli import bench, demo, doctor, option_table, report, rollback
from tailrace.errors import TailraceError


class Command(Protocol):
    """The interface of a subcommand's module."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


COMMANDS: dict[str, Command] = {
    "demo": demo,
    "bench": bench,
    "report": report,
    "doctor": doctor,
    "options": option_table,
    "rollback": rollback,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="tailrace", description="A state store for PySpark Structured Streaming."
    )
    parser.add_argument("--version", action="version", version=f"tailrace {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").partition("\n")[0]
        module.add_arguments(subparsers.add_parser(name, help=summary, description=summary))
    parsed = parser.parse_args(arguments)
    try:
        return COMMANDS[parsed.command].run(parsed)
    except TailraceError as error:
        print(f"tailrace {parsed.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130
