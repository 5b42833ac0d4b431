"""The version of tailrace, and the Spark it belongs to. pyproject.toml repeats the first one."""

__version__ = "0.1.0"

SPARK_SERIES = "4.3"
"""The state store interface differs between minor versions of Spark, so exactly one is served."""
