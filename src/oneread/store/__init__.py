"""The store contract: ordered rows of stamped cells, and the few requests that every engine answers.

Knows rows. Must not know models, plans or any engine. The law is "The store contract" of the architecture page.
"""
