"""Views: what is derived from entities, what each entity contributes, and which changes follow from a change.

Knows models, and the operations a commit may carry. Must not know engines or the public verbs. The law is the decisions
page.
"""
