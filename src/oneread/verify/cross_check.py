"""Whether scans and reads by key say the same where digests differ, and whether each difference has a fault.

Inside one snapshot both can only disagree when a page of the file is damaged; then nothing that a scan says is a ground
for mending. See docs/decisions/0013-verify-by-digests.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set as AbstractSet
from typing import Final, NoReturn

from oneread.errors import Corrupt
from oneread.store.rows import Table
from oneread.verify.digests import bucket_of
from oneread.verify.scanner import DISAGREE

_UNEXPLAINED: Final = (
    "rows are not what the entities say, and reading them again shows no fault: the file is damaged; restore a backup"
)


class CrossCheck:
    """The second look at the rows of one kind: what its faults explain, and what reads and scans have shown."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._balance: defaultdict[int, int] = defaultdict(int)
        self._explained: set[int] = set()

    def read(self, key: bytes, shown: bytes | None) -> None:
        """An expected row was found by its key."""
        self._balance[bucket_of(key)] += hash((key, shown))

    def scanned(self, key: bytes, shown: bytes | None) -> None:
        """A scan has shown a row that its entity expects."""
        self._balance[bucket_of(key)] -= hash((key, shown))

    def explain(self, key: bytes) -> None:
        """A fault of this row is reported, or it may belong to an entity that cannot be read."""
        self._explained.add(bucket_of(key))

    def refuse(self, table: Table, key: bytes) -> NoReturn:
        """Raises Corrupt for a row that a read by key has shown, and no scan."""
        raise Corrupt(DISAGREE, model=self._model, table=table, key=key.hex())

    def check_reads(self) -> None:
        """Raises Corrupt unless scans have shown the rows that were found by their keys, each once."""
        if any(self._balance.values()):
            raise Corrupt(DISAGREE, model=self._model)

    def check_explained(self, differing: AbstractSet[int]) -> None:
        """Raises Corrupt unless there is a fault in each bucket whose digests differ."""
        if not differing <= self._explained:
            raise Corrupt(_UNEXPLAINED, model=self._model)
