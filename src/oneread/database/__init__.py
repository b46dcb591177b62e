"""The public verbs as plans and their two faces.

See docs/design/api.md.
"""
