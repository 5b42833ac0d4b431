"""Kills by the hundred; run by `make chaos`, not by pytest."""
