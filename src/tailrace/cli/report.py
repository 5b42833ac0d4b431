"""Turn result files of `tailrace bench` into a page with charts, and a table for a README."""

# Problem: a result should be seen, and shown, without knowing how it is made.
# Answer: one command that makes a folder with a page, its charts and its table.
# Invariant: files that are not results are refused before the first file is written.

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a result (JSON)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where to (default: beside the first file)"
    )


def run(arguments: argparse.Namespace) -> int:
    from tailrace.bench.report import write

    folder = arguments.out or arguments.files[0].with_suffix("")
    for path in write(arguments.files, folder):
        print(path)
    return 0
