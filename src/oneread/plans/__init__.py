"""Plans: what to ask of a store and when, as generators that do no I/O; and the drivers that perform them.

See "Plans" of the architecture page.
"""
