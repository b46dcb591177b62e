"""Copying: one store into an empty one of any kind, at rest or while it is in use, and comparing both.

See docs/how-to/copy-a-store.md and docs/how-to/move-a-live-store.md.
"""
