"""Views: what is derived from entities, what each entity contributes, and which changes follow from a change.

See docs/design/decisions.md.
"""
