"""`make simulate`: many simulated histories of the commit protocol."""
