"""Builds the wheel with the engine inside.

Problem: the engine is Scala, and a user should need nothing but `pip install`.
Answer: while a wheel is built, compile engine/src with the compiler that PySpark ships and put
the jar into the package. An editable install skips this: a checkout compiles on first use.
Invariant: a wheel holds exactly one engine jar, compiled from the sources beside this file.
"""

import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class BuildWithEngine(build_py):
    """Adds tailrace/_jars/ to what setuptools collects."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        sys.path.insert(0, str(ROOT / "src"))
        from tailrace import _build

        directory = Path(self.build_lib) / "tailrace" / "_jars"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        shutil.copy2(_build.Checkout(ROOT).jar(), directory)


setup(cmdclass={"build_py": BuildWithEngine})
