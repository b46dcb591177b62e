"""The tables of a store, made when it is first opened.

Several processes may open a new store at once: each makes what is missing, and takes what another one made meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final
from urllib.parse import quote

from grpc import StatusCode

from oneread.engines.bigtable import calls, wire
from oneread.engines.bigtable.calls import Attempts, Call, CallPlace, Method, Steps
from oneread.engines.bigtable.messages import MESSAGES
from oneread.engines.bigtable.options import BigtableOptions
from oneread.engines.embedded import NO_STORE
from oneread.errors import InvalidUrl, StoreReplaced, Unavailable
from oneread.store.rows import TABLES

_ROUNDS: Final = 10
_SCHEMA_VIEW: Final = 2
_FAMILY: Final = MESSAGES["ColumnFamily"](gc_rule=MESSAGES["GcRule"](max_num_versions=1))
"""One version of each cell is kept; older ones are garbage, which Bigtable collects within days."""
_MISSING: Final = frozenset({StatusCode.NOT_FOUND})
_TAKEN: Final = frozenset({StatusCode.ALREADY_EXISTS})


def make_tables(options: BigtableOptions) -> Steps[None]:
    """Makes the tables and families that are missing.

    Raises:
        InvalidUrl: the project or instance does not exist, these credentials may not make tables there, or the store is
            to be read only.
        Unavailable: it did not work in time.
    """
    for table in TABLES:
        yield from _make_table(options, options.prefix + table, options.splits.get(table, ()))


def _make_table(options: BigtableOptions, table: str, splits: Collection[bytes]) -> Steps[None]:
    asked = _Administration(options, table)
    for _ in range(_ROUNDS):
        families = yield from asked.families()
        missing = [each for each in wire.ALL_FAMILIES if each not in (families or ())]
        if not missing:
            return
        if options.read_only:
            raise InvalidUrl(NO_STORE, store=options.parent, table=table)
        yield from asked.create(splits) if families is None else asked.add(missing)
    raise Unavailable("other programs change the tables of this store; open it again", table=table)


class _Administration:
    """What is asked about one table. All may be asked twice."""

    def __init__(self, options: BigtableOptions, table: str) -> None:
        self._parent, self._table = options.parent, table
        self._name = f"{options.parent}/tables/{table}"
        self._seconds = options.timeout

    def families(self) -> Steps[Collection[str] | None]:
        """The families of the table; None where it does not exist."""
        message = calls.GET_TABLE.asked(name=self._name, view=_SCHEMA_VIEW)
        found = yield from self._ask(calls.GET_TABLE, message, self._of_table(), _MISSING)
        return None if found is None else {each.key for each in found.column_families}

    def create(self, splits: Collection[bytes]) -> Steps[None]:
        families = [MESSAGES["FamilyEntry"](key=each, value=_FAMILY) for each in wire.ALL_FAMILIES]
        message = calls.CREATE_TABLE.asked(
            parent=self._parent,
            table_id=self._table,
            table=MESSAGES["Table"](column_families=families),
            initial_splits=[MESSAGES["Split"](key=key) for key in splits],
        )
        try:
            yield from self._change(calls.CREATE_TABLE, message, f"parent={quote(self._parent, safe='')}")
        except StoreReplaced as error:
            raise InvalidUrl("this project or instance of Bigtable does not exist", **error.facts) from error

    def add(self, families: Collection[str]) -> Steps[None]:
        added = [MESSAGES["FamilyModification"](id=each, create=_FAMILY) for each in families]
        message = calls.MODIFY_COLUMN_FAMILIES.asked(name=self._name, modifications=added)
        yield from self._change(calls.MODIFY_COLUMN_FAMILIES, message, self._of_table())

    def _of_table(self) -> str:
        return f"name={quote(self._name, safe='')}"

    def _change(self, method: Method, message: Any, routing: str) -> Steps[None]:
        try:
            yield from self._ask(method, message, routing, _TAKEN)
        except InvalidUrl as error:
            raise InvalidUrl(
                "cannot make a table of the store: grant roles/bigtable.admin, or have it made with these families",
                families=wire.ALL_FAMILIES, **error.facts,
            ) from error  # fmt: skip

    def _ask(self, method: Method, message: Any, routing: str, expected: frozenset[StatusCode]) -> Steps[Any]:
        """The answer; None where the status is an expected one."""
        place = CallPlace(routing, {"store": self._parent, "table": self._table})
        attempts = Attempts(place, calls.deadline(self._seconds))
        return (yield from attempts.make(lambda seconds: Call(method, message, routing, seconds), expected))
