"""Named counters: numbers that many writers add to, made by their first add.

See docs/explanation/counters.md.
"""
