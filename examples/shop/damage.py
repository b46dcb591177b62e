"""Spoils a store on purpose, row by row behind its back, so that `oneread verify` has something to find.

Every fault lies in an entity or a group of its own, so that one fault planted is one fault found; none takes away what
only a person would know, so that `oneread repair` can mend them all. The same seed plants the same faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from examples.shop.mistakes import Mistake
from examples.shop.schema import BuyerTotals, Customer, ProductSales, Purchase, PurchasesOfBuyer, PurchasesOfProduct
from oneread import Database
from oneread.derivations import emitted_record
from oneread.derivations.catalog import Catalog
from oneread.encoding.ranges import prefix_range
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Atomically, Separately
from oneread.plans.plan import Plan
from oneread.store.engine import RowTransaction
from oneread.store.requests import Found, Mutate, Scan
from oneread.store.rows import REMOVED, VALUE, Cell, Families, Row, RowMutation, RowRange, Table
from oneread.transactions import outbox
from oneread.transactions.deltas import decode_amounts, encode_amounts
from oneread.transactions.root import BODY, EMITTED, VERSION, parse_root

PAGE: Final = 10_000
NOWHERE: Final = b"\x7f\x00\x00\x01"
"""A view's id that no schema has: ids are given from 1 upwards."""


class Planted(msgspec.Struct, frozen=True):
    """What a verification must find: the fault, whose it is, and where the row lies."""

    kind: str
    view: str
    entity: str
    table: str
    key: bytes


class Purchased(msgspec.Struct):
    """One purchase, and what the store has of it."""

    key: bytes
    row: Row
    entity: Purchase
    puts: dict[bytes, bytes]


def damage(db: Database, faults: int, seed: int) -> list[Planted]:
    """Plants that many faults, in one transaction where the store has such."""
    spans_rows = db.operations.spans_rows
    planting = _Planting(db.operations.catalog, Random(seed), spans_rows=spans_rows)
    db.run(planting.choose(faults))
    if spans_rows:
        plan: Plan[list[Planted]] = Atomically(lambda store: planting.plant(store, faults)).__iter__()
    else:
        plan = Separately(lambda store: planting.plant(store.over(_Rows(store, db)), faults)).__iter__()
    return db.run(plan)


class _Rows(RowTransaction):
    """The rows of a store that changes one row at a time, each replaced by a request of its own.

    Only what writers keep in a row stays, and cells that are not newer than what they replace are stamped anew.
    """

    def __init__(self, store: CountedStore, db: Database) -> None:
        self._store = store
        self._run = db.run

    def read(self, table: Table, keys: list[bytes], families: Families = "d") -> list[Row | None]:
        return self._store.read(table, keys, families)

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        return self._store.scan(table, within, limit, reverse=reverse, families=families)

    def replace(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        for key, row in rows.items():
            before = self._store.read(table, [key], "dm")[0] or {}
            gone = {each: cell.stamp for each, cell in before.items() if row is None or not _stays(each, row)}
            puts = {each: _newer(cell, before.get(each)) for each, cell in (row or {}).items()}
            self._run(Mutate(table, [RowMutation(key, puts, gone)]).__iter__())


def _stays(column: bytes, row: Row) -> bool:
    return column in row or (column.startswith(b"m:") and column != EMITTED)


def _newer(cell: Cell, before: Cell | None) -> Cell:
    return cell if before is None or cell.stamp >= before.stamp else Cell(cell.value, before.stamp)


def summary(planted: list[Planted]) -> list[tuple[str, str, int]]:
    """(view, kind, count), as `oneread verify` counts them."""
    counted = Counter((each.view, each.kind) for each in planted)
    return [(view, kind, count) for (view, kind), count in sorted(counted.items())]


def write(planted: list[Planted], file: Path) -> None:
    """One JSON object a line."""
    encode = msgspec.json.Encoder().encode
    file.write_bytes(b"".join(encode(each) + b"\n" for each in planted))


Way = Callable[["_Planting"], Planted]


class _Planting:
    """Chooses entities and groups, each for one fault only, and spoils them."""

    _store: CountedStore

    def __init__(self, catalog: Catalog, chance: Random, *, spans_rows: bool) -> None:
        self.catalog = catalog
        self._spans_rows = spans_rows
        self.chance = chance
        self._purchases: Iterator[bytes] = iter(())
        self._groups: Iterator[bytes] = iter(())
        self._others: list[bytes] = []
        self._number = 0

    def choose(self, faults: int) -> Plan[None]:
        """Draws what is spoiled: one pass over the keys of purchases and of the groups of two aggregates."""
        purchases = yield from _keys("roots", self.catalog.kinds[Purchase].prefix)
        groups: list[bytes] = []
        for view in (ProductSales, BuyerTotals):
            groups += yield from _keys("counts", self.catalog.views[view].prefix)
        if len(purchases) < 2 * faults or len(groups) < faults // 4:
            raise Mistake(f"{len(purchases)} purchases and {len(groups)} groups are too few for {faults} faults")
        drawn = self.chance.sample(purchases, 2 * faults)
        self._purchases, self._others = iter(drawn[:faults]), drawn[faults:]
        self._groups = iter(self.chance.sample(groups, len(groups)))

    def plant(self, store: CountedStore, faults: int) -> list[Planted]:
        """Goes round the ways to spoil something until there are enough faults."""
        self._store = store
        return [WAYS[place % len(WAYS)](self) for place in range(faults)]

    def put(self, table: Table, key: bytes, row: Row | None) -> None:
        """Stores a row past the library."""
        self._store.replace(table, {key: row})

    def show(self, table: Table, key: bytes, shown: bytes) -> None:
        """Stores a row of one cell past the library."""
        self.put(table, key, {VALUE: Cell(shown, 1)})

    def purchase(self) -> Purchased:
        """The next purchase that nothing was done to."""
        while (found := self._read(next(self._purchases, None) or self._others.pop())) is None:
            pass
        return found

    def another(self) -> Purchased:
        """A purchase that is only looked at."""
        while (found := self._read(self.chance.choice(self._others))) is None:
            pass
        return found

    def _read(self, key: bytes) -> Purchased | None:
        """A purchase; None for one that a program has deleted meanwhile."""
        (row,) = self._store.read("roots", [key], "dm")
        if row is None or row[BODY].value == REMOVED:
            return None
        entity: Any = self.catalog.state(key, parse_root(row)).entity
        entity_type = self.catalog.type_of(entity)
        puts = emitted_record.first_writes(key, entity_type.emission(entity, {}, key, entity_type.refs(entity))).puts
        return Purchased(key, row, entity, puts)

    def group(self) -> tuple[str, bytes, bytes]:
        """The next group: its view, its key, what its row shows."""
        key = next(self._groups)
        (row,) = self._store.read("counts", [key])
        assert row is not None
        return (
            ("ProductSales" if key.startswith(self.catalog.views[ProductSales].prefix) else "BuyerTotals"),
            key,
            (row[VALUE].value),
        )

    def task_key(self, source: bytes) -> bytes:
        """The key of a task of a source; where each change leaves one of its own, of the first one."""
        return outbox.task_key(source) if self._spans_rows else outbox.version_key(source, 1)

    def list_of(self, purchase: Purchased) -> tuple[str, bytes]:
        """One of the lists that a purchase stands in: the view and the row's key."""
        views = (PurchasesOfBuyer, PurchasesOfProduct) if purchase.entity.buyer is not None else (PurchasesOfProduct,)
        view = self.chance.choice(views)
        prefix = self.catalog.views[view].prefix
        return view.__name__, next(place for place in purchase.puts if place.startswith(prefix))

    def number(self) -> int:
        """A number that nothing in the data has."""
        self._number += 1
        return 10**6 + self._number

    def found(self, kind: str, view: str, table: Table, key: bytes, entity: bytes = b"") -> Planted:
        return Planted(kind, view, self.catalog.name_of(entity) if entity else "", table, key)


def _keys(table: Table, prefix: bytes) -> Plan[list[bytes]]:
    start, stop = prefix_range(prefix)
    keys: list[bytes] = []
    while True:
        rows = yield from Scan(table, RowRange(start, stop or b""), PAGE)
        keys += [key for key, _row in rows]
        if len(rows) < PAGE:
            return keys
        start = keys[-1] + b"\x00"


# Lists.


def _row_missing(at: _Planting) -> Planted:
    purchase = at.purchase()
    view, key = at.list_of(purchase)
    at.put("views", key, None)
    return at.found("missing", view, "views", key, purchase.key)


def _row_different(at: _Planting) -> Planted:
    purchase, other = at.purchase(), at.another()
    view, key = at.list_of(purchase)
    prefix = at.catalog.views[PurchasesOfProduct].prefix
    at.show("views", key, next(shown for place, shown in other.puts.items() if place.startswith(prefix)))
    return at.found("different", view, "views", key, purchase.key)


def _row_without_cell(at: _Planting) -> Planted:
    purchase = at.purchase()
    view, key = at.list_of(purchase)
    at.put("views", key, {b"d:x": Cell(purchase.puts[key], 1)})
    return at.found("unreadable", view, "views", key, purchase.key)


def _row_without_source(at: _Planting) -> Planted:
    other = at.another()
    view, key = at.list_of(other)
    missing = at.catalog.kinds[Purchase].key((f"missing{at.number()}", 1))
    stray = key[: len(key) - len(other.key) + 2] + missing[2:]
    at.show("views", stray, other.puts[key])
    return at.found("dangling", view, "views", stray, missing)


def _greatest_missing(at: _Planting) -> Planted:
    purchase = at.purchase()
    key = next(place for place in purchase.puts if place.startswith(_dearest(at)))
    at.put("views", key, None)
    return at.found("missing", "ProductSales.dearest", "views", key, purchase.key)


def _greatest_without_source(at: _Planting) -> Planted:
    other = at.another()
    key = next(place for place in other.puts if place.startswith(_dearest(at)))
    missing = at.catalog.kinds[Purchase].key((f"missing{at.number()}", 1))
    stray = key[: len(key) - len(other.key) + 2] + missing[2:]
    at.show("views", stray, other.puts[key])
    return at.found("dangling", "ProductSales.dearest", "views", stray, missing)


def _dearest(at: _Planting) -> bytes:
    return at.catalog.views[ProductSales].extrema[0].prefix


# Back-references.


def _pointer(purchase: Purchased) -> bytes:
    return next(place for place in purchase.puts if place.startswith(outbox.BACK_REFERENCES))


def _pointer_missing(at: _Planting) -> Planted:
    purchase = at.purchase()
    key = _pointer(purchase)
    at.put("views", key, None)
    return at.found("missing", "back-reference", "views", key, purchase.key)


def _pointer_different(at: _Planting) -> Planted:
    purchase = at.purchase()
    key = _pointer(purchase)
    at.show("views", key, b"\xc3")
    return at.found("different", "back-reference", "views", key, purchase.key)


def _pointer_of_another(at: _Planting) -> Planted:
    purchase = at.purchase()
    source = at.catalog.kinds[Customer].key((at.number(),))
    key = outbox.back_reference_key(source, purchase.key)
    at.show("views", key, b"\xc0")
    return at.found("dangling", "back-reference", "views", key, purchase.key)


# Groups.


def _group_different(at: _Planting) -> Planted:
    view, key, shown = at.group()
    numbers = decode_amounts(shown)
    place = at.chance.randrange(len(numbers))
    numbers[place] += at.chance.randint(1, 9)
    at.show("counts", key, encode_amounts(numbers))
    return at.found("different", view, "counts", key)


def _group_missing(at: _Planting) -> Planted:
    view, key, _shown = at.group()
    at.put("counts", key, None)
    return at.found("missing", view, "counts", key)


def _group_unreadable(at: _Planting) -> Planted:
    view, key, shown = at.group()
    at.show("counts", key, b"\xc1" + shown[1:])
    return at.found("unreadable", view, "counts", key)


def _group_without_source(at: _Planting) -> Planted:
    view = at.catalog.views[BuyerTotals]
    key = view.prefix + view.key.codec.encode((at.number(),))
    at.show("counts", key, encode_amounts([1, 2, 3]))
    return at.found("dangling", "BuyerTotals", "counts", key)


# Root rows.


def _record(at: _Planting, kind: str, change: Callable[[bytes], bytes | None]) -> Planted:
    purchase = at.purchase()
    cell = purchase.row.pop(EMITTED)
    record = change(cell.value)
    if record is not None:
        purchase.row[EMITTED] = Cell(record, cell.stamp)
    at.put("roots", purchase.key, purchase.row)
    return at.found(kind, "record", "roots", purchase.key, purchase.key)


def _record_missing(at: _Planting) -> Planted:
    return _record(at, "missing", lambda _record: None)


def _record_unreadable(at: _Planting) -> Planted:
    return _record(at, "unreadable", lambda record: record[:-1])


def _record_different(at: _Planting) -> Planted:
    def forgetful(record: bytes) -> bytes:
        remembered = emitted_record.decode_record(record)
        return emitted_record.encode_record(
            {
                token: [] if emitted_record.form_of(token) == emitted_record.ROWS else each
                for token, each in remembered.items()
            }
        )

    return _record(at, "different", forgetful)


def _version_missing(at: _Planting) -> Planted:
    purchase = at.purchase()
    del purchase.row[VERSION]
    at.put("roots", purchase.key, purchase.row)
    return at.found("missing", "version", "roots", purchase.key, purchase.key)


def _version_different(at: _Planting) -> Planted:
    purchase = at.purchase()
    purchase.row[VERSION] = Cell(bytes(8), purchase.row[VERSION].stamp)
    at.put("roots", purchase.key, purchase.row)
    return at.found("different", "version", "roots", purchase.key, purchase.key)


def _copy_different(at: _Planting) -> Planted:
    """A purchase that missed a rename: its row, its record and its rows in the lists agree, all with an old name."""
    purchase = at.purchase()
    entity = purchase.entity
    product = msgspec.structs.replace(entity.product, name=f"{entity.product.name} (old)")
    entity_type = at.catalog.type_of(entity)
    body, late = entity_type.layout.validated(msgspec.structs.replace(entity, product=product))
    emission = entity_type.emission(late, {}, purchase.key, entity_type.refs(late))
    for place, shown in emission.shown.items():
        if purchase.puts[place] != shown:
            at.show("views", place, shown)
    stamp = purchase.row[VERSION].stamp
    row = {BODY: Cell(body, stamp), EMITTED: Cell(emitted_record.encode_record(emission.record), stamp)}
    at.put("roots", purchase.key, purchase.row | row)
    return at.found("different", "copy", "roots", purchase.key, purchase.key)


# The outbox, and rows without a source.


def _task_unreadable(at: _Planting) -> Planted:
    source = at.catalog.kinds[Customer].key((at.number(),))
    key = at.task_key(source)
    at.show("system", key, b"\xc0")
    return at.found("unreadable", "task", "system", key, source)


def _task_without_source(at: _Planting) -> Planted:
    source = at.catalog.kinds[Customer].key((at.number(),))
    key = at.task_key(source)
    at.show("system", key, msgspec.msgpack.encode(outbox.Task(source)))
    return at.found("dangling", "task", "system", key, source)


def _stray(at: _Planting, table: Table) -> Planted:
    key = NOWHERE + at.number().to_bytes(4, "big")
    at.show(table, key, b"\xc0")
    return at.found("dangling", "stray", table, key)


def _stray_in_views(at: _Planting) -> Planted:
    return _stray(at, "views")


def _stray_in_counts(at: _Planting) -> Planted:
    return _stray(at, "counts")


WAYS: Final[tuple[Way, ...]] = (
    _row_missing,
    _row_different,
    _row_without_cell,
    _row_without_source,
    _greatest_missing,
    _greatest_without_source,
    _pointer_missing,
    _pointer_different,
    _pointer_of_another,
    _group_different,
    _group_missing,
    _group_unreadable,
    _group_without_source,
    _record_missing,
    _record_unreadable,
    _record_different,
    _version_missing,
    _version_different,
    _copy_different,
    _task_unreadable,
    _task_without_source,
    _stray_in_views,
    _stray_in_counts,
)
