"""Many rows change as one: the root row, the overlay of a unit of work, exact deltas, claims, and the outbox.

See the commit protocol.
"""
