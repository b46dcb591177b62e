"""Maintenance: long plans over a whole store that can be stopped and gone on with.

Knows the catalog, commits and rows. Must not know faces or engines.
"""
