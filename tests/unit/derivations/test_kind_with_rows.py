"""A kind of view with rows of its own is one file: this one lists entities by the length of a text, longest first.

It is declared, committed, followed, paged, costed, verified, repaired, backfilled, dumped and loaded on every kind of
store, and nothing of the library knows it.
"""

from typing import Any, TypeVar

import pytest
from hypothesis import given, settings

from oneread import Copy, Index, Key, Model, Ref, Schema, ascending, by, connect, within
from oneread.costs.declared import of as costs_of
from oneread.derivations.derivation import VIEW_KINDS, Keyspace, RowForm, ViewKind, key_paths, key_values, owner_offset
from oneread.derivations.emitted_record import ROWS, view_token
from oneread.derivations.keyed import ViewKey
from oneread.derivations.operations import Statements
from oneread.derivations.rules import Rule, rules_of
from oneread.derivations.views import View
from oneread.encoding.codec import Codec, KeyElement
from oneread.errors import InvalidDeclaration, NotReady
from oneread.models.paths import path_of
from oneread.plans.plan import Plan
from oneread.store.requests import Mutate, Read
from oneread.store.rows import REMOVED, VALUE, Cell, RowMutation
from oneread.testing import oracle as naive
from oneread.testing.proof import prove
from oneread.testing.strategies import histories
from oneread.transfer.load import DumpReader, parse_head

T = TypeVar("T")


# The kind.


class Longest(View[T], frozen=True):
    """The entities of a group, by the length of one text, longest first."""

    reserved_names = View.reserved_names | {"source"}
    source: Ref[T]


def length_of(field) -> Any:
    return Rule("fold", field, fold="length")


def length_field(view):
    fields = [name for name, rule in rules_of(view).items() if rule.kind == "fold"]
    return fields[0] if len(fields) == 1 else None


def check_longest(view, _names):
    if length_field(view) is None:
        raise InvalidDeclaration("a Longest has one length_of(...)", view=view)


class LongestView:
    table = "views"
    can_find = False
    groups = None
    parts = ()
    merged = ()
    has_expiries = False
    referring = frozenset()
    row_decoder = None

    def __init__(self, cls, compiling):
        self.cls, self.model, self.prefix = cls, compiling.model, compiling.prefix
        self.kind = compiling.kinds[self.model]
        self.field = length_field(cls)
        self.path = path_of(rules_of(cls)[self.field].field)
        keys = {name: rule for name, rule in rules_of(cls).items() if rule.kind == "key"}
        self.key = ViewKey(cls, self.model, keys, compiling.accesses, compiling.kinds)
        self.length = Codec((KeyElement(self.field, int, descending=True),))
        self.tokens = (view_token(ROWS, self.prefix),)
        self.access = compiling.accesses.of_path(cls, self.field, self.path, self.model)

    def program(self):
        return self.key.program(None, [Statements(self._statements)], [Statements(self._row_statements)])

    def _statements(self, code):
        return [f"length = {code.name('length', self.length.encode)}((len({self.access.code}),))"]

    def _row_statements(self, code):
        return [
            "place = found + length",
            code.adds(self.tokens[0], "place, hashed(b'')"),
            f"shown[{self.prefix!r} + place + suffix] = b''",
        ]

    def keyspaces(self, kind):
        offset = owner_offset(self.key, self.length)
        return (
            Keyspace(
                self.prefix, "views", self.cls.__name__, kind, key_values(self.key), offset, fields=lambda _value: {}
            ),
        )

    def probed_values(self):
        return [(part.field, part.access, part.check()) for part in self.key.parts]

    def find_many(self, wanted) -> Plan[list[Any]]:
        raise NotImplementedError(wanted)

    def local_find(self, _engine):
        return None

    def show(self, found) -> Plan[list[Any]]:
        yield from ()
        return [self._row(key) for key, _row in found]

    def _row(self, key):
        values, end = self.key.codec.decode_prefix(key, self.key.start)
        (length,), end = self.length.decode_prefix(key, end)
        fields = dict(zip([part.field for part in self.key.parts], values, strict=True))
        source = self.kind.parts_of(self.kind.root_of(key[end:]))
        return self.cls(source=Ref(source), **fields, **{self.field: length})

    def explain_find(self, place):
        raise NotImplementedError(place)

    def forms(self):
        name, place = self.cls.__name__, key_paths(self.key)
        return (
            RowForm(name, "row", "row", "rows", "views", place | {self.path.names}, frozenset(), "value", paged="rows"),
        )


# What the oracle of the tests knows of it.


def naive_longest(oracle, view):
    field = length_field(view)
    route = path_of(rules_of(view)[field].field).names
    names = [name for name, rule in rules_of(view).items() if rule.kind == "key"]
    found = [(values, -len(oracle.value(held, route)), place) for values, place, held in oracle.entries(view)]
    return [
        view(source=Ref(key), **dict(zip(names, values, strict=True)), **{field: -length})
        for values, length, (_model, key) in sorted(found, key=lambda each: (each[0], each[1], each[2][1]))
    ]


def count_longest(oracle, view):
    return {("views", view.__name__): len(oracle.entries(view))}


class Maker(Model[int]):
    number: Key[int]
    name: str


class MadeBy(Copy[Maker]):
    name: str


class Thing(Model[int]):
    number: Key[int]
    shelf: str
    maker: MadeBy


class ThingsByMaker(Longest[Thing]):
    shelf: str = by(Thing.shelf)
    length: int = length_of(within(Thing.maker, MadeBy.name))


class ThingsOfShelf(Index[Thing]):
    shelf: str = ascending(Thing.shelf)


WITHOUT = Schema(Maker, Thing, ThingsOfShelf, inline=3)


@pytest.fixture(autouse=True, scope="module")
def registered():
    VIEW_KINDS[Longest] = ViewKind(LongestView, check_longest)
    naive.NAIVE_VIEWS[Longest] = naive.NaiveView(naive_longest, count_longest)
    yield
    del VIEW_KINDS[Longest], naive.NAIVE_VIEWS[Longest]


@pytest.fixture
def schema():
    return Schema(Maker, Thing, ThingsByMaker, ThingsOfShelf, inline=3)


@pytest.fixture
def db(url, schema):
    with connect(url, schema, workers=0) as opened:
        fill(opened)
        yield opened


def fill(db, things=5):
    db.save_all([Maker(number=1, name="ann"), Maker(number=2, name="barbara")])
    db.save_all([Thing(number=n, shelf="ab"[n % 2], maker=MadeBy.of(1 + n % 3 % 2)) for n in range(things)])


def rows(db, *group, **options):
    return [(row.length, row.source.key[0]) for row in db.page(ThingsByMaker, *group, **options)]


def test_a_commit_writes_its_rows_and_a_page_shows_them(db):
    assert rows(db, "a") == [(7, 4), (3, 0), (3, 2)]
    assert rows(db, "b") == [(7, 1), (3, 3)]
    page = db.page(ThingsByMaker, "a", limit=2)
    assert page.cost.requests == 1
    assert rows(db, "a", limit=2, cursor=page.next) == [(3, 2)]


@settings(max_examples=25, deadline=None)
@given(history=histories(WITHOUT))
def test_the_oracle_agrees_after_any_history(new_url, history):
    prove(Schema(Maker, Thing, ThingsByMaker, ThingsOfShelf), history, new_url())


def test_changes_and_deletes_move_and_remove_its_rows(db):
    db.patch(Thing, 4, shelf="b")
    db.delete(Thing, 3)
    assert rows(db, "a") == [(3, 0), (3, 2)]
    assert rows(db, "b") == [(7, 1), (7, 4)]


@pytest.mark.parametrize("things", [5, 9])
def test_its_rows_follow_a_source_of_copies(url, schema, things):
    """Few in the commit of the source, more by a task."""
    with connect(url, schema, workers=0) as db:
        fill(db, things)
        before = rows(db, "a")
        db.patch(Maker, 1, name="al")
        db.drain()
        assert rows(db, "a") == [(2 if length == 3 else length, number) for length, number in before]
        assert db.verify().clean


def test_verify_finds_what_is_wrong_with_them_and_repair_mends_it(db):
    view = db.operations.catalog.views[ThingsByMaker]
    found = {row.source.key[0]: place(view, row) for row in db.page(ThingsByMaker, "a")}
    stray = place(view, ThingsByMaker(source=Ref((0,)), shelf="a", length=99))
    plant(db, {found[2]: None, stray: b""})
    assert rows(db, "a") == [(99, 0), (7, 4), (3, 0)]
    faults = sorted((fault.view, fault.kind) for fault in db.verify().faults)
    assert faults == [("ThingsByMaker", "dangling"), ("ThingsByMaker", "missing")]
    assert db.repair().clean
    assert rows(db, "a") == [(7, 4), (3, 0), (3, 2)]


def place(view, row):
    """The key of a row."""
    group = view.prefix + view.key.codec.encode((row.shelf,))
    return group + view.length.encode((row.length,)) + view.kind.suffix(row.source.key)


def plant(db, rows):
    """Puts and removes rows behind the library's back."""
    engine = db._driver.engine
    if engine.capabilities.spans_rows:
        cells = {key: None if value is None else {VALUE: Cell(value, 1)} for key, value in rows.items()}
        engine.transaction(lambda inside: inside.replace("views", cells), 5)
        return
    for key, value in rows.items():
        (stored,) = engine.answer(Read("views", [key], "dm"))
        stamp = 1 if stored is None else stored[VALUE].stamp + 1
        cell = Cell(REMOVED if value is None else value, stamp)
        engine.answer(Mutate("views", [RowMutation(key, {VALUE: cell})]))


def test_a_backfill_builds_it_on_live_data(url, schema):
    with connect(url, WITHOUT, workers=0) as old:
        fill(old)
    with connect(url, schema, workers=0) as new:
        with pytest.raises(NotReady):
            new.page(ThingsByMaker, "a")
        new.patch(Thing, 3, shelf="a")
        new.backfill(quiet=0)
        assert rows(new, "a") == [(7, 4), (3, 0), (3, 2), (3, 3)]
        assert new.verify().clean


def test_a_load_makes_its_rows_from_a_dump(db, new_url, schema):
    lines = []
    db.dump(lines.append)
    with connect(new_url(), schema, workers=0) as other:
        with other.bulk() as bulk:
            reader = DumpReader(other.operations.catalog, parse_head(lines[0]))
            for line in lines[1:-1]:
                bulk.apply(reader.change(line), 0)
        assert rows(other, "a") == rows(db, "a")
        assert other.verify().clean


def test_its_bounds_hold(db, schema):
    costs = costs_of(schema)
    bound = costs.page(ThingsByMaker, limit=10)
    cost = db.page(ThingsByMaker, "a", limit=10).cost
    assert (cost.requests, cost.rows) <= (bound.requests, bound.rows)
    changed = Thing(number=0, shelf="c", maker=MadeBy.of(2))
    bound = db.explain.save(changed).bound
    cost = db.cost(db.save(changed))
    assert (cost.requests, cost.rows) <= (bound.requests, bound.rows)
    counted = {(part.table, part.name): part.rows for part in db.survey(exact=True).parts}
    assert counted["views", "ThingsByMaker"] >= 5


def test_a_kind_checks_its_declarations():
    class NoLength(Longest[Thing]):
        shelf: str = by(Thing.shelf)

    with pytest.raises(InvalidDeclaration, match="one length_of"):
        Schema(Maker, Thing, NoLength)
