"""Feeds: the rows of items joined with memberships, kept by the commits that change either.

See docs/decisions/0057-feeds.md.
"""
