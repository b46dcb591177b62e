"""Heat: which keys programs request and by which verbs, recorded and shown; and what to declare otherwise."""
