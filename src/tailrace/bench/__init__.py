"""Measures state stores side by side: events, workloads, and the runs that compare them."""
