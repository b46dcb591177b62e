"""Copying: one store at rest into an empty one of any kind, and comparing both.

See docs/how-to/copy-a-store.md.
"""
