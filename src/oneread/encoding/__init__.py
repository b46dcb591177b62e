"""Encoding: values to bytes that sort as the values do, and back.

See docs/formats/keys.md.
"""
