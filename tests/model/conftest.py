"""The seed of the generated histories: printed after every run, and taken from TAILRACE_SEED."""

from __future__ import annotations

import pytest
from support.seeds import SEED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"model tests: seed {SEED}; replay with TAILRACE_SEED={SEED}")
