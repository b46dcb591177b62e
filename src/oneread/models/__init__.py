"""Typed declarations and their rows: models, copies, views' shape, and how each is laid out as bytes.

See docs/design/api.md and docs/formats/rows.md.
"""
