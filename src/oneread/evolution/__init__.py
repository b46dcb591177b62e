"""The schema and its history: what may change, how a store follows, how new views are built on live data."""
