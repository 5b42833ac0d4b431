"""A state store for PySpark Structured Streaming that takes state off the critical path.

    spark = tailrace.configure(SparkSession.builder.appName("orders")).getOrCreate()

Every stateful query of this session then runs on tailrace.
"""

from tailrace._version import __version__
from tailrace.enrich import enrich
from tailrace.errors import TailraceError
from tailrace.explain import classify, explain
from tailrace.hints import hint
from tailrace.options import Options
from tailrace.session import configure, confs, drain, jar
from tailrace.supervise import supervise
from tailrace.windows import window_apply

__all__ = [
    "Options",
    "TailraceError",
    "__version__",
    "classify",
    "configure",
    "confs",
    "drain",
    "enrich",
    "explain",
    "hint",
    "jar",
    "supervise",
    "window_apply",
]
