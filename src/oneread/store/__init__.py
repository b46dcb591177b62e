"""The store contract: ordered rows of stamped cells, and the few requests that every engine answers.

See "The store contract" of the architecture page.
"""
