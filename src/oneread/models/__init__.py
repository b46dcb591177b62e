"""Typed declarations and their rows: models, copies, views' shape, and how each is laid out as bytes.

Knows types and values. Must not know stores, plans, or how derived data is kept right. The law is the API page and
docs/formats/rows.md.
"""
