"""Moves many entities in or out: bulk writes with checkpoints, dumps, CSV, loads."""
