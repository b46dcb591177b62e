"""The root row of an entity: its cells, and how its versions grow.

It has two. The row's version grows with every commit of the row, and commits compare it. The own version is the row's
version at the last change of the entity's own fields: what users see, and the stamp of the body. A deleted entity keeps
v and e, so that its version never goes back. See "Root row" of the commit protocol, docs/formats/rows.md and
docs/decisions/0045-the-own-version.md.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from oneread.errors import Corrupt
from oneread.store.rows import EMITTED as ROW_EMITTED
from oneread.store.rows import MAX_STAMP, VALUE, EntityRow, Row, cells_of_entity
from oneread.store.rows import VERSION as ROW_VERSION

VERSION: Final = ROW_VERSION
BODY: Final = VALUE
EMITTED: Final = ROW_EMITTED

AHEAD_MILLISECONDS: Final = 60_000
"""`verify` reports a version further ahead of the clock than this: it was written under a wrong clock."""

LAST_VERSION: Final = MAX_STAMP
"""The greatest stamp of a row. No clock that a driver accepts comes near it."""


Root: TypeAlias = EntityRow

NO_ROOT: Final = Root()


def parse_root(row: Row | None) -> Root:
    """Decodes a root row; for `emitted` it must have been read with both families."""
    if row is None:
        return NO_ROOT
    version = row.get(VERSION)
    if version is None:
        raise Corrupt("this root row has no version; repair the store", columns=sorted(row))
    body, emitted = row.get(BODY), row.get(EMITTED)
    return Root(
        int.from_bytes(version.value, "big"),
        None if body is None else body.value,
        None if emitted is None else emitted.value,
        0 if body is None else body.stamp,
    )


encode_root: Final = cells_of_entity
"""The cells of a root row."""


def root_at(root: Root, version: int) -> Root:
    """A root row at another version, with everything else as it is."""
    return Root(version, root.body, root.emitted, root.own)


def next_version(now: int, seen: int, key: bytes = b"") -> int:
    """The version of the commit of a root row that follows `seen`: v' = max(now, v + 1), milliseconds (rule 1).

    However far `seen` is ahead of this clock: else one write under a wrong clock would refuse all later ones until the
    clock has caught up.
    """
    if seen >= LAST_VERSION:
        named = {"table": "roots", "key": key} if key else {}
        raise Corrupt("the version of this row cannot grow any more; no correct clock gives it", **named, version=seen)
    return max(now, seen + 1)
