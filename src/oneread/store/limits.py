"""Limits of sizes and numbers: one name each, for the code that enforces them and for costs, which predict by them."""

from __future__ import annotations

from typing import Final

KEY_BYTES: Final = 200
"""Bytes of an entity's key, and of each element of a view's key."""

VALUES_BYTES: Final = 300
"""Bytes of the values in the key of a view's row: with its prefix and the entity's key they fit LMDB's 511 bytes."""

NEWEST_BYTES: Final = 1_000
"""Bytes of each value that an aggregate keeps with `newest_values`: an index row shows a list of them."""

MOST_NEWEST: Final = 100
"""Values that `newest_values` shows of a group, at most."""

BODY_BYTES: Final = 1_000_000
"""Bytes of an entity's document, on every engine."""

JOB_BYTES: Final = 100_000
"""Bytes of the fields of one job, at most."""

MOST_SPREAD: Final = 100
"""Ranges that the rows of a model or index are spread over, at most."""

MOST_RANGES: Final = 300
"""Ranges that one page merges, at most: the values of `any_of`, each in as many ranges as its list is spread over."""

LAST_NUMBER: Final = 0x7FFF
"""The last number of a model, view or layout: two bytes, of which the top bit marks wide layouts."""

INLINE_HOLDERS: Final = 1000
"""Holders that change within the commit of their source, unless the schema says otherwise."""

ROW_HOLDERS: Final = 100
"""Holders that follow within the save of their source, at most, on a store that changes one row at a time."""

PROBES: Final = 4
"""Times the inline bound of back-references that a commit reads of sources with too many holders, before it stops.

The last scan may begin one row below and reads one more than the bound: such scans return `(PROBES + 1)` times the
bound at most.
"""

DEFAULT_LIMIT: Final = 50
"""Rows of a page."""

MAX_LIMIT: Final = 1000
"""Rows of a page at most, unless the model or view says otherwise."""

BUDGET: Final = 100
"""Rows that a page with a condition reads beyond its limit."""

CHANGES: Final = 100
"""Changes of one batch, and entries of a change log that are read for it, unless a call says otherwise."""

LONGEST_SECONDS: Final = 10**9
"""The longest time that a system call can wait for."""

FOLLOWED_TASKS: Final = 2
"""Tasks of a deleted item of feeds whose entries are looked for, at most."""

GRACE: Final = 86_400
"""Seconds that removed rows stay in a store in memory that changes one row at a time, where its URL names no others."""
