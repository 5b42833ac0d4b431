"""Differential tests: the same streaming query on RocksDB and on tailrace."""
