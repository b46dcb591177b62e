"""Jobs: what programs do once a commit was made, stored in the commit; which worker runs which, and what becomes of it.

See docs/decisions/0155-jobs-in-the-commit.md.
"""
