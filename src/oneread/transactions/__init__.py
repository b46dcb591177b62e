"""Many rows change as one: the commit row, the overlay of a unit of work, exact deltas, claims, and the outbox.

Knows rows, stamps and plans. Must not know models or what a derived row is for: decisions come as data. The law is the
commit protocol.
"""
