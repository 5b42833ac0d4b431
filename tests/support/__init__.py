"""Shared by the tests: the bridge to a store, and each store's capabilities."""
