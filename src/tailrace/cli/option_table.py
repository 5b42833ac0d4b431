"""Print every option: its default, what it allows, what it is for."""

from __future__ import annotations

import argparse
import textwrap

from tailrace.options import describe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""
    del parser


def run(arguments: argparse.Namespace) -> int:
    del arguments
    print(render())
    return 0


def render() -> str:
    """The options as text, generated from their declarations."""
    blocks = []
    for option in describe():
        doc = textwrap.fill(option.doc, 88, initial_indent="    ", subsequent_indent="    ")
        blocks.append(
            f"{option.name} = {option.default!r}\n"
            f"    {option.conf}\n"
            f"    {option.rule.allowed}\n"
            f"{doc}"
        )
    return "\n\n".join(blocks)
