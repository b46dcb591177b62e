"""A new kind of view is one module: this one adds a bitmap of each group, and everything works with it unchanged."""

from typing import Any, TypeVar

import pytest
from hypothesis import given, settings

from oneread import Index, Key, Model, Schema, ascending, by, connect
from oneread.costs.declared import of as costs_of
from oneread.derivations.derivation import (
    VIEW_KINDS,
    Keyspace,
    RowForm,
    ViewKind,
    key_paths,
    key_values,
)
from oneread.derivations.emitted_record import SUMS, view_token
from oneread.derivations.keyed import ViewKey
from oneread.derivations.operations import Statements
from oneread.derivations.rules import Rule, rules_of
from oneread.derivations.views import View
from oneread.errors import InvalidDeclaration, NotReady
from oneread.models.paths import path_of
from oneread.plans.plan import Plan
from oneread.store.keys import row_part
from oneread.store.requests import Read
from oneread.store.rows import VALUE, Cell
from oneread.testing import oracle as naive
from oneread.testing.proof import prove
from oneread.testing.strategies import histories
from oneread.transactions.deltas import decode_amounts, encode_amounts

BITS = 8


T = TypeVar("T")


class Bitmap(View[T], frozen=True):
    """One row a group; bit n of its number is set when the values of an entity of the group leave n as remainder."""


def bits(field) -> Any:
    return Rule("fold", field, fold="bits")


class BitmapView:
    table = "counts"
    can_find = True
    groups = None
    parts = ()
    merged = ()
    has_expiries = False
    referring = frozenset()
    row_decoder = None

    def __init__(self, cls, compiling):
        self.cls, self.model, self.prefix = cls, compiling.model, compiling.prefix
        self._rules = rules_of(cls)
        keys = {name: rule for name, rule in self._rules.items() if rule.kind == "key"}
        self._field = next(name for name, rule in self._rules.items() if rule.kind == "fold")
        self._path = path_of(self._rules[self._field].field)
        self.key = ViewKey(cls, self.model, keys, compiling.accesses, compiling.kinds)
        self.tokens = (view_token(SUMS, self.prefix),)
        access = compiling.accesses.of_path(cls, self._field, self._path, self.model)
        self._bit = f"bit = {access.code} % {BITS}"

    def program(self):
        once = Statements(lambda _code: [self._bit, f"amounts = (1, *(int(n == bit) for n in range({BITS})))"])
        return self.key.program(None, [once], [Statements(self._row_statements)])

    def _row_statements(self, code):
        sums = code.contributions(self.tokens[0])
        return [f"{sums} += found, list(amounts)", f"deltas.append(({self.prefix!r} + found, amounts, 1))"]

    def _row(self, values, amounts):
        fields = dict(zip([part.field for part in self.key.parts], values, strict=True))
        fields[self._field] = sum(1 << place for place, count in enumerate(amounts[1:]) if count)
        return self.cls(**fields)

    def keyspaces(self, kind):
        return (Keyspace(self.prefix, "counts", self.cls.__name__, kind, key_values(self.key), width=BITS + 1),)

    def probed_values(self):
        return [(part.field, part.access, part.check()) for part in self.key.parts]

    def find_many(self, wanted) -> Plan[list[Any]]:
        rows = yield from Read("counts", [self.prefix + self.key.codec.encode(values) for values in wanted])
        amounts = [[] if row is None else decode_amounts(row[VALUE].value) for row in rows]
        return [self._row(*each) for each in zip(wanted, amounts, strict=True)]

    def local_find(self, _engine):
        return None

    def show(self, found) -> Plan[list[Any]]:
        yield from ()
        decode = self.key.codec.decode
        return [self._row(decode(row_part(key)), decode_amounts(row[VALUE].value)) for key, row in found]

    def explain_find(self, place):
        return [f"read counts {place.hex()}"]

    def forms(self):
        form = RowForm(
            self.cls.__name__, "group", "group", "groups", "counts", key_paths(self.key), frozenset({self._path.names}),
            "numbers", found="read", paged="rows", numbers=(None,) * BITS,
        )  # fmt: skip
        return (form,)


def naive_rows(oracle, view):
    field = next(name for name, rule in rules_of(view).items() if rule.kind == "fold")
    keys = [name for name, rule in rules_of(view).items() if rule.kind == "key"]
    route = path_of(rules_of(view)[field].field).names
    return [
        view(**dict(zip(keys, values, strict=True)), **{field: _union(oracle.value(held, route) for held in members)})
        for values, members in oracle.members(view)
    ]


def _union(values):
    number = 0
    for value in values:
        number |= 1 << value % BITS
    return number


class Visit(Model[int]):
    number: Key[int]
    page: str
    visitor: int


class VisitorsOfPage(Bitmap[Visit]):
    page: str = by(Visit.page)
    visitors: int = bits(Visit.visitor)


class VisitsByVisitor(Index[Visit]):
    visitor: int = ascending(Visit.visitor)


@pytest.fixture(autouse=True, scope="module")
def registered():
    VIEW_KINDS[Bitmap] = ViewKind(BitmapView)
    naive.NAIVE_VIEWS[Bitmap] = naive.NaiveView(
        naive_rows, lambda oracle, view: {("counts", view.__name__): len(oracle.members(view))}
    )
    yield
    del VIEW_KINDS[Bitmap], naive.NAIVE_VIEWS[Bitmap]


@pytest.fixture
def schema():
    return Schema(Visit, VisitorsOfPage, VisitsByVisitor)


@pytest.fixture
def db(url, schema):
    with connect(url, schema, workers=0) as opened:
        opened.save_all([Visit(number=n, page="ab"[n % 2], visitor=n) for n in range(4)])
        yield opened


def test_pages_and_get_show_it(db):
    assert [(row.page, row.visitors) for row in db.page(VisitorsOfPage)] == [("a", 0b0101), ("b", 0b1010)]
    assert db.get(VisitorsOfPage, "a").visitors == 0b0101
    assert db.get(VisitorsOfPage, "none").visitors == 0


def test_it_follows_changes_and_deletes(db):
    db.patch(Visit, 0, visitor=7)
    db.delete(Visit, 2)
    assert db.get(VisitorsOfPage, "a").visitors == 0b1000_0000


@settings(max_examples=25, deadline=None)
@given(history=histories(Schema(Visit, VisitsByVisitor)))
def test_the_oracle_agrees_after_any_history(history):
    prove(Schema(Visit, VisitorsOfPage, VisitsByVisitor), history)


def test_verify_finds_a_wrong_row_and_repair_mends_it(db):
    view = db.operations.catalog.views[VisitorsOfPage]
    key = view.prefix + view.key.codec.encode(("a",))
    wrong = {VALUE: Cell(encode_amounts([2, 1, 1, 0, 0, 0, 0, 0, 0]), 1)}
    db._driver.engine.transaction(lambda inside: inside.replace("counts", {key: wrong}), 5)
    (fault,) = db.verify().faults
    assert (fault.view, fault.kind) == ("VisitorsOfPage", "different")
    assert db.repair().clean
    assert db.verify().clean
    assert db.get(VisitorsOfPage, "a").visitors == 0b0101


def test_a_backfill_builds_it_on_live_data(url):
    with connect(url, Schema(Visit, VisitsByVisitor), workers=0) as old:
        old.save_all([Visit(number=n, page="p", visitor=n) for n in range(5)])
    with connect(url, Schema(Visit, VisitorsOfPage, VisitsByVisitor), workers=0) as new:
        with pytest.raises(NotReady):
            new.page(VisitorsOfPage)
        new.backfill(quiet=0)
        assert [row.visitors for row in new.page(VisitorsOfPage)] == [0b11111]
        assert new.verify().clean


def test_costs_and_explain_know_it(db, schema):
    assert costs_of(schema).get(VisitorsOfPage).requests == 1
    assert costs_of(schema).page(VisitorsOfPage, limit=10).rows == 11
    assert db.page(VisitorsOfPage, limit=10).cost.rows <= 11
    explained = db.explain.get(VisitorsOfPage, "a")
    assert explained.plan[0].startswith("read counts ")
    saved = db.cost(db.save(Visit(number=9, page="c", visitor=1)))
    bound = db.explain.save(Visit(number=9, page="c", visitor=1)).bound
    assert (saved.requests, saved.rows) <= (bound.requests, bound.rows)


def test_a_dump_holds_its_entities_and_a_survey_its_rows(db):
    lines = []
    db.dump(lines.append)
    assert sum(b'"Visit"' in line.encode() if isinstance(line, str) else b'"Visit"' in line for line in lines) >= 4
    assert any(part.name == "VisitorsOfPage" for part in db.survey(exact=True).parts)


def test_a_view_of_no_kind_is_refused():
    class Shapeless(View[Visit], frozen=True):
        page: str = by(Visit.page)

    with pytest.raises(InvalidDeclaration, match="a view is"):
        Schema(Visit, Shapeless)
