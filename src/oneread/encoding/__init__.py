"""Encoding: values to bytes that sort as the values do, and back.

Knows values and bytes. Must not know rows, models, engines, clocks; performs no I/O.
The law is docs/formats/keys.md.
"""
