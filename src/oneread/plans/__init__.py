"""Plans: what to ask of a store and when, as generators that do no I/O; and the drivers that perform them.

Knows requests and time. Must not know models or any engine. The law is "Plans" of the architecture page.
"""
