"""Threads, polls and counters of a community, each page of it a read: `python -m examples.community --help`."""
