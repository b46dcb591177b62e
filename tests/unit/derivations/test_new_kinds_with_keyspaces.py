"""Two more kinds of view from outside: one has a hidden index of its own, one claims unique values."""

from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import given, settings

from oneread import Index, Key, Model, Ref, Schema, ascending, by, connect
from oneread.costs.declared import of as costs_of
from oneread.derivations.derivation import VIEW_KINDS, Keyspace, RowForm, ViewKind, key_paths, key_values, owner_offset
from oneread.derivations.emitted_record import ROWS, SUMS, UNIQUE, view_token
from oneread.derivations.keyed import ViewKey
from oneread.derivations.operations import Statements
from oneread.derivations.rules import Rule, rules_of
from oneread.derivations.views import View
from oneread.encoding.codec import Codec, KeyElement
from oneread.errors import AlreadyExists, InvalidDeclaration, NotReady
from oneread.models.paths import path_of
from oneread.plans.plan import Plan
from oneread.store.keys import row_part
from oneread.store.requests import Read, Scan
from oneread.store.rows import VALUE, Cell, RowRange
from oneread.testing import oracle as naive
from oneread.testing.proof import prove
from oneread.testing.strategies import histories

T = TypeVar("T")


class Peak(View[T], frozen=True):
    """One row a group, with the largest value of one field divided by `unit`."""

    unit: ClassVar[int] = 1
    reserved_names: ClassVar[frozenset[str]] = View.reserved_names | {"unit"}


class Owner(View[T], frozen=True):
    """The entity that has a value, which no other may have."""

    unique: ClassVar[bool] = True
    reserved_names: ClassVar[frozenset[str]] = View.reserved_names | {"source"}
    source: Ref[T]


def peak(field) -> Any:
    return Rule("fold", field, fold="peak")


def peak_fields(view):
    return [name for name, rule in rules_of(view).items() if rule.kind == "fold"]


def check_peak(view, _names):
    if len(peak_fields(view)) != 1:
        raise InvalidDeclaration("a Peak has one peak(...)", view=view)


def keyed(cls, compiling):
    rules = {name: rule for name, rule in rules_of(cls).items() if rule.kind == "key"}
    return ViewKey(cls, compiling.model, rules, compiling.accesses, compiling.kinds)


class ToyView:
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
        self.key = keyed(cls, compiling)

    def fields(self, values):
        return dict(zip([part.field for part in self.key.parts], values, strict=True))

    def probed_values(self):
        return [(part.field, part.access, part.check()) for part in self.key.parts]

    def local_find(self, _engine):
        return None

    def explain_find(self, place):
        return [f"read counts {place.hex()}"]


class PeakView(ToyView):
    def __init__(self, cls, compiling):
        super().__init__(cls, compiling)
        (self.field,) = peak_fields(cls)
        self.path = path_of(rules_of(cls)[self.field].field)
        self.hidden = compiling.prefixes[self.field]
        self.codec = Codec((KeyElement(self.field, int, descending=True),))
        self.tokens = (view_token(SUMS, self.prefix), view_token(ROWS, self.hidden))
        self.value = compiling.accesses.of_path(cls, self.field, self.path, self.model).code

    def program(self):
        once = Statements(lambda _code: [f"value = {self.value} // {self.cls.unit}"])
        return self.key.program(None, [once], [Statements(self._row_statements)])

    def _row_statements(self, code):
        sums, peaks = map(code.contributions, self.tokens)
        encode, text = code.name("element", self.codec.encode), code.name("text", lambda value: str(value).encode())
        return [
            f"{sums} += found, [1]",
            f"deltas.append(({self.prefix!r} + found, (1,), 1))",
            f"place, doc = found + {encode}((value,)), {text}(value)",
            f"{peaks} += place, hashed(doc)",
            f"shown[{self.hidden!r} + place + suffix] = doc",
        ]

    def keyspaces(self, kind):
        name, values = self.cls.__name__, key_values(self.key)
        return (
            Keyspace(self.prefix, "counts", name, kind, values, width=1),
            Keyspace(
                self.hidden, "views", f"{name}.{self.field}", kind, values,
                owner_offset(self.key, self.codec),
            ),
        )  # fmt: skip

    def find_many(self, wanted) -> Plan[list[Any]]:
        found = []
        for values in wanted:
            rows = yield from Scan("views", RowRange.under(self.hidden + self.key.codec.encode(values)), 1)
            value = int(rows[0][1][VALUE].value) if rows else None
            found.append(self.cls(**self.fields(values), **{self.field: value}))
        return found

    def show(self, found) -> Plan[list[Any]]:
        return (yield from self.find_many([self.key.codec.decode(row_part(key)) for key, _row in found]))

    def forms(self):
        name, place, none = self.cls.__name__, key_paths(self.key), frozenset()
        return (
            RowForm(name, "group", "group", "groups", "counts", place, none, "numbers", paged="rows"),
            RowForm(
                f"{name}.{self.field}", "peak rows", "peak", "peaks", "views", place | {self.path.names}, none, "value",
                found="scan", paged="each", ends=(int, self.path),
            ),
        )  # fmt: skip


class OwnerView(ToyView):
    def __init__(self, cls, compiling):
        super().__init__(cls, compiling)
        self.kind = compiling.kinds[self.model]
        self.tokens = (view_token(UNIQUE, self.prefix),)

    def program(self):
        return self.key.program(None, [], [Statements(self._row_statements)])

    def _row_statements(self, code):
        claimed = code.contributions(self.tokens[0])
        return [f"{claimed}.append(found)", f"claims.append({self.prefix!r} + found)"]

    def keyspaces(self, kind):
        return (Keyspace(self.prefix, "counts", self.cls.__name__, kind, key_values(self.key)),)

    def row(self, values, cells):
        return self.cls(source=Ref(self.kind.parts_of(cells[VALUE].value)), **self.fields(values))

    def find_many(self, wanted) -> Plan[list[Any]]:
        rows = yield from Read("counts", [self.prefix + self.key.codec.encode(values) for values in wanted])
        return [None if row is None else self.row(values, row) for values, row in zip(wanted, rows, strict=True)]

    def show(self, found) -> Plan[list[Any]]:
        yield from ()
        return [self.row(self.key.codec.decode(row_part(key)), row) for key, row in found]

    def forms(self):
        name, place = self.cls.__name__, key_paths(self.key)
        return (
            RowForm(
                name, "claim", "claim", "claims", "counts", place, frozenset(), "owner", found="read", paged="rows"
            ),
        )


def naive_peaks(oracle, view):
    (field,) = peak_fields(view)
    route = path_of(rules_of(view)[field].field).names
    names = [name for name, rule in rules_of(view).items() if rule.kind == "key"]
    return [
        view(**dict(zip(names, values, strict=True)), **{field: max(oracle.value(each, route) for each in members)})
        for values, members in oracle.members(view)
    ]


def count_peaks(oracle, view):
    members = oracle.members(view)
    entries = sum(len(several) for _values, several in members)
    return {("counts", view.__name__): len(members), ("views", f"{view.__name__}.{peak_fields(view)[0]}"): entries}


def naive_owners(oracle, view):
    names = list(rules_of(view))
    entries = sorted(oracle.entries(view), key=lambda entry: entry[0])
    return [view(source=Ref(place[1]), **dict(zip(names, values, strict=True))) for values, place, _held in entries]


class Ticket(Model[int]):
    number: Key[int]
    desk: str
    score: int
    code: int


class BestOfDesk(Peak[Ticket]):
    desk: str = by(Ticket.desk)
    best: int | None = peak(Ticket.score)


class TicketByCode(Owner[Ticket]):
    code: int = by(Ticket.code)


class TicketsByScore(Index[Ticket]):
    score: int = ascending(Ticket.score)


WITHOUT = Schema(Ticket, TicketsByScore)


@pytest.fixture(autouse=True, scope="module")
def registered():
    VIEW_KINDS[Peak] = ViewKind(PeakView, check_peak, peak_fields, lambda view: (("unit", str(view.unit)),))
    VIEW_KINDS[Owner] = ViewKind(OwnerView)
    naive.NAIVE_VIEWS[Peak] = naive.NaiveView(naive_peaks, count_peaks)
    naive.NAIVE_VIEWS[Owner] = naive.NaiveView(
        naive_owners, lambda oracle, view: {("counts", view.__name__): len(oracle.entries(view))}
    )
    yield
    for kind in (Peak, Owner):
        del VIEW_KINDS[kind], naive.NAIVE_VIEWS[kind]


@pytest.fixture
def schema():
    return Schema(Ticket, BestOfDesk, TicketByCode, TicketsByScore)


def ticket(number, **changes):
    return Ticket(**{"number": number, "desk": "ab"[number % 2], "score": number * 10, "code": 100 + number} | changes)


@pytest.fixture
def db(url, schema):
    with connect(url, schema, workers=0) as opened:
        opened.save_all([ticket(n) for n in range(4)])
        yield opened


def test_pages_and_get_show_them(db):
    assert [(row.desk, row.best) for row in db.page(BestOfDesk)] == [("a", 20), ("b", 30)]
    assert db.get(BestOfDesk, "none").best is None
    assert [(row.code, row.source.key) for row in db.page(TicketByCode, limit=2)] == [(100, (0,)), (101, (1,))]
    assert db.get(TicketByCode, 103).source.key == (3,)
    assert db.find(TicketByCode, 999) is None


def test_they_follow_changes_and_deletes(db):
    db.delete(Ticket, 2)
    db.patch(Ticket, 0, desk="b", score=31, code=102)
    assert [(row.desk, row.best) for row in db.page(BestOfDesk)] == [("b", 31)]
    assert db.get(TicketByCode, 102).source.key == (0,)
    assert db.find(TicketByCode, 100) is None


def test_a_value_that_is_taken_is_refused(db):
    with pytest.raises(AlreadyExists, match=r"Ticket\(1\)"):
        db.save(ticket(9, code=101))


@settings(max_examples=25, deadline=None)
@given(history=histories(WITHOUT))
def test_the_oracle_agrees_after_any_history(history):
    prove(Schema(Ticket, BestOfDesk, TicketByCode, TicketsByScore), history)


def test_verify_and_repair_know_every_keyspace(db):
    peaks, owners = (db.operations.catalog.views[view] for view in (BestOfDesk, TicketByCode))
    group = peaks.key.codec.encode(("a",))
    stray = peaks.hidden + group + peaks.codec.encode((99,)) + peaks_suffix(db, 1)
    claim = owners.prefix + owners.key.codec.encode((100,))
    broken = {
        "views": {stray: {VALUE: Cell(b"99", 1)}},
        "counts": {claim: None, peaks.prefix + group: None},
    }
    for table, rows in broken.items():
        db._driver.engine.transaction(lambda inside, table=table, rows=rows: inside.replace(table, rows), 5)
    assert sorted((fault.view, fault.kind) for fault in db.verify().faults) == [
        ("BestOfDesk", "missing"), ("BestOfDesk.best", "dangling"), ("TicketByCode", "missing"),
    ]  # fmt: skip
    assert db.repair().clean
    assert db.verify().clean
    assert db.get(BestOfDesk, "a").best == 20


def peaks_suffix(db, number):
    return db.operations.catalog.kinds[Ticket].suffix((number,))


def test_a_backfill_builds_them_and_an_option_that_changes_builds_again(url, schema):
    with connect(url, WITHOUT, workers=0) as old:
        old.save_all([ticket(n) for n in range(5)])
    with connect(url, schema, workers=0) as new:
        for view in (BestOfDesk, TicketByCode):
            with pytest.raises(NotReady):
                new.page(view)
        new.backfill(quiet=0)
        assert [row.best for row in new.page(BestOfDesk)] == [40, 30]
        assert new.get(TicketByCode, 104).source.key == (4,)
        assert new.verify().clean

    class Tens(Peak[Ticket]):
        unit: ClassVar[int] = 10
        stored_as: ClassVar[str] = "BestOfDesk"
        desk: str = by(Ticket.desk)
        best: int | None = peak(Ticket.score)

    with connect(url, Schema(Ticket, Tens, TicketByCode, TicketsByScore), workers=0) as changed:
        changed.backfill(quiet=0)
        assert [row.best for row in changed.page(Tens)] == [4, 3]
        assert changed.verify().clean


def test_costs_explain_and_survey_know_them(db, schema):
    costs = costs_of(schema)
    assert costs.get(BestOfDesk).requests == costs.get(TicketByCode).requests == 1
    assert costs.page(BestOfDesk, limit=10).requests >= db.page(BestOfDesk, limit=10).cost.requests
    assert db.explain.get(TicketByCode, 100).plan[0].startswith("read counts ")
    changed = ticket(1, desk="c", score=5, code=50)
    bound = db.explain.save(changed).bound
    cost = db.cost(db.save(changed))
    assert (cost.requests, cost.rows) <= (bound.requests, bound.rows)
    counted = {(part.table, part.name): part.rows for part in db.survey(exact=True).parts}
    assert counted["views", "BestOfDesk.best"] == counted["counts", "TicketByCode"] == 4


def test_a_kind_checks_its_declarations():
    class Peakless(Peak[Ticket]):
        desk: str = by(Ticket.desk)

    with pytest.raises(InvalidDeclaration, match="one peak"):
        Schema(Ticket, Peakless)
