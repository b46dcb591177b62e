"""The rows of indexes and feeds: each holds a whole instance of the view's class, so a page is one range read."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oneread.derivations.derivation import Compiling, LocalFind, RowDecoder
from oneread.derivations.rules import rules_of
from oneread.derivations.views import View
from oneread.models.expiry import EXPIRY_BYTES
from oneread.models.json_form import form
from oneread.models.json_table import json_table
from oneread.models.layout import Layout
from oneread.models.references import Copy
from oneread.models.types import Names, types_of
from oneread.plans.plan import Plan
from oneread.store.engine import LocalReads
from oneread.store.json_writers import JSON_WRITERS, JsonWriter
from oneread.store.requests import Found
from oneread.store.rows import VALUE, Table


class ShownRows:
    """What the views have in common whose rows are shown as they are stored.

    Copies in the fields `only_refer` hold no values. `has_expiries` says that rows end in their expiry.
    """

    table: Table = "views"
    is_seen_as_json = False

    def __init__(
        self, cls: type[View[Any]], only_refer: Iterable[str], compiling: Compiling, *, has_expiries: bool
    ) -> None:
        names = compiling.accesses.names
        self.cls = cls
        self.has_expiries = has_expiries
        copies = {field: copy_shown(cls, field, names) for field in only_refer}
        referring = {field: copy for field, copy in copies.items() if copy is not None}
        self.referring = frozenset(referring)
        by_key = {name for name, rule in rules_of(cls).items() if rule.kind == "key"}
        self.is_json_of_parsed = self.referring <= by_key  # the JSON form leaves out what is emptied in these
        self.layout: Layout[Any] = Layout(cls, None, nullable=compiling.nullable | set(referring.values()), names=names)
        self._settle = self.layout.settler(self.referring)

    @property
    def row_decoder(self) -> RowDecoder | None:
        return self

    def decode_rows(self, docs: list[bytes]) -> list[Any]:
        """Rows as users see them; a copy that only refers has no copied fields."""
        found = self.parse_rows(docs)
        self.settle_rows(found)
        return found

    def parse_rows(self, docs: list[bytes]) -> list[Any]:
        return self.layout.parse_many(self._documents(docs))

    def _documents(self, docs: list[bytes]) -> list[bytes]:
        """The values of rows as the layout knows them."""
        return self.whole_values([doc[:-EXPIRY_BYTES] for doc in docs] if self.has_expiries else docs)

    @functools.cached_property
    def _json_writer(self) -> tuple[JsonWriter, bool] | None:
        """The writer, and whether what it writes can be parsed; None where the JSON of rows is Python's to write."""
        found = json_table(form(self.cls), self.layout.fields) if JSON_WRITERS and self.is_json_of_parsed else None
        if found is None:
            return None
        try:
            return JSON_WRITERS[0](found.table), found.checks
        except ValueError:  # it is larger than tables may be
            return None

    def write_json(self, docs: list[bytes]) -> bytes | None:
        found = self._json_writer
        return None if found is None else found[0].write_all(self._documents(docs))

    def write_checked(self, docs: list[bytes]) -> bytes | None:
        found = self._json_writer
        return None if found is None or not found[1] else self.write_json(docs)

    def settle_rows(self, rows: list[Any]) -> None:
        self._settle(rows)

    def whole_values(self, docs: list[bytes]) -> list[bytes]:
        """Values of rows, without expiries, as the layout knows them."""
        return docs

    def named_values(self, doc: bytes) -> Mapping[str, Any]:
        """A row's values by field, for people."""
        (row,) = self.decode_rows([doc])
        return {name: getattr(row, name) for name in self.cls.__struct_fields__}

    def local_find(self, engine: LocalReads) -> LocalFind | None:  # noqa: ARG002 - part of the contract
        """None: a row is found by a plan, if at all."""
        return None

    def show(self, found: Sequence[Found]) -> Plan[list[Any]]:
        """Rows of a page as users see them."""
        yield from ()
        return self.decode_rows([row[VALUE].value for _key, row in found])


def copy_shown(view: type[View[Any]], field: str, names: Names) -> type[Copy[Any]] | None:
    """The copy class that a field of a view is declared as; None for other types."""
    present = types_of(view, names)[field].present
    copy: type[Copy[Any]] | None = present.cls if present.kind == "copy" else None
    return copy
