"""Reads everything that a store shows in every way: pages both ways and within bounds, gets, and what each may cost.

What a list has was compared with the oracle before; here each other way to read it must show the same rows.
"""

from datetime import date, datetime, timedelta
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne

from oneread import Aggregate, Feed, Index, any_of, field
from oneread.costs.budgets import budget
from oneread.derivations.rules import rules_of
from oneread.errors import MissingReference
from oneread.models.model import Model, key_of
from oneread.models.references import Copy, Ref
from oneread.store.limits import BUDGET
from oneread.testing.comparison import Disagreement, check_same
from oneread.testing.naive import comparable, listed, look

BOUNDS = {"since": ge, "after": gt, "through": le, "until": lt}
RELATIONS = (eq, ne, ge, gt, le, lt)
ORDERED = {int, float, str, Decimal, datetime, date, timedelta}
"""Types of values of which one is before another."""
COSTS = ("requests", "rows", "bytes", "rounds")


def read_everything(proof, chance):
    """Raises Disagreement for the first answer, or cost, that is not as it should be."""
    reader = Reader(proof, chance)
    for view in (*proof.oracle.models, *proof.oracle.views):
        for equal in proof.oracle.lists(view):
            reader.read(view, equal)


class Reader:
    """Reads one database."""

    def __init__(self, proof, chance):
        self.db = proof.database
        self.oracle = proof.oracle
        self.chance = chance
        self.costs = self.db.explain.costs

    def read(self, view, equal):
        """Reads one list in every way."""
        rows = [row for page in self.db.scan(view, *equal) for row in page]
        limit = self.chance.randint(1, 3)
        self.check(view, "pages forwards", rows, self.pages(view, equal, limit))
        self.check(view, "pages backwards", rows, self.pages(view, equal, limit, backward=True))
        self.filter(view, equal, rows)
        if not issubclass(view, Feed):
            self.narrow(view, rows)
            self.get(view, rows)
        elif view.marks:
            self.mark(view, equal, rows)

    def check(self, view, what, rows, found):
        check_same(f"{view.__name__}: {what}", listed_as(view, rows), listed_as(view, found))

    def spent(self, what, bound, call):
        """What a call returns; it costs no more than its bound."""
        with budget() as spent:
            found = call()
        for name in COSTS:
            if getattr(spent, name) > getattr(bound, name):
                raise Disagreement(f"{what} costs more {name} than {bound}: {spent.cost}")
        return found

    def pages(self, view, equal, limit, *, backward=False, any_of=1, **options):
        """All rows of a list, a page at a time."""
        found, cursor = [], None
        while True:
            given = {"cursor": cursor} if cursor else {"backward": backward}
            bound = self.costs.page(
                view, limit=limit, any_of=any_of, where="where" in options, budget=options.get("budget", BUDGET)
            )
            page = self.spent(
                f"a page of {view.__name__}",
                bound,
                lambda given=given: self.db.page(view, *equal, limit=limit, **given, **options),
            )
            if len(page) > limit:
                raise Disagreement(f"a page of {view.__name__} has more than {limit} rows")
            found = [*page.rows, *found] if backward else [*found, *page.rows]
            cursor = page.previous if backward else page.next
            if cursor is None:
                return found

    def mark(self, view, member, rows):
        """Marks an entry of a member's feed: it and all behind it are seen then, and the others are counted."""
        marked = self.db.operations.marking.feed(view)
        before = first_seen(self.db.marks(view, *member), rows)
        wanted = self.chance.choice([*rows, True])
        try:
            self.db.mark(view, *member, seen=wanted)
        except MissingReference:
            parts = self.db.operations.catalog.entity_types[marked.kind.cls].references
            refs = [each for each in member if isinstance(each, Ref)]
            absent = [
                self.oracle.get(part.access.target, *ref.key) is None for part, ref in zip(parts, refs, strict=True)
            ]
            check_same(f"{view.__name__}: marks are of a member who exists", True, any(absent))
            return
        kept = self.db.find(marked.kind.cls, *marked.values(member))
        if kept is not None:
            self.oracle.save(kept)
        place = 0 if wanted is True else rows.index(wanted)
        expected = min(before, place)
        check_same(f"{view.__name__}: the first seen", expected, first_seen(self.db.marks(view, *member), rows))
        found = self.db.unread(view, *member, limit=len(rows) + 1)
        check_same(f"{view.__name__}: unseen", expected, found.unseen)

    def narrow(self, view, rows):
        """Pages of the first key fields of a row, and within bounds of the next one."""
        if not rows:
            return
        keys = self.key_rules(view)
        if not keys:
            return
        row = self.chance.choice(rows)
        size = self.chance.randint(0, len(keys))
        names = list(keys)[:size]
        equal = [given(getattr(row, name)) for name in names]
        wanted = [each for each in rows if all(key(each, name) == key(row, name) for name in names)]
        self.check(view, f"page of {equal}", wanted, self.pages(view, equal, 2))
        if size == len(keys):
            return
        name, rule = list(keys.items())[size]
        self.merge(view, equal, name, wanted)
        value = getattr(row, name)
        if (rule is not None and rule.hashed) or value is None or isinstance(value, (Ref, Copy)):
            return
        option = self.chance.choice(list(BOUNDS))
        within = [
            each
            for each in wanted
            if getattr(each, name) is not None and BOUNDS[option](comparable(getattr(each, name)), comparable(value))
        ]
        self.check(view, f"page of {equal} {option} {value!r}", within, self.pages(view, equal, 2, **{option: value}))

    def merge(self, view, equal, name, rows):
        """Pages of several values of a key field, which show the rows of each value in their order."""
        values = list({repr(key(each, name)): key(each, name) for each in rows}.values())[:3]
        found = self.pages(view, [*equal, any_of(*values)], self.chance.choice([1, 2, 50]), any_of=len(values))
        for value in values:
            self.check(
                view, f"page of {equal} any of {values!r}: {value!r}", of(rows, name, value), of(found, name, value)
            )

    def filter(self, view, equal, rows):
        """Pages of the rows for which a condition on one of their values holds."""
        row = self.chance.choice(rows) if rows else None
        fields = getattr(row, "__struct_fields__", ())  # of a variant, perhaps more than those of the model
        names = [name for name in fields if type(getattr(row, name)) in ORDERED and hasattr(view, name)]
        if not names:
            return
        name = self.chance.choice(names)
        value, relation = getattr(row, name), self.chance.choice(RELATIONS)
        wanted = [
            each
            for each in rows
            if getattr(each, name, None) is not None and relation(comparable(getattr(each, name)), comparable(value))
        ]
        where = relation(field(getattr(view, name)), value)
        limit, budget = self.chance.choice([1, 2, 50]), self.chance.choice([1, 100])
        found = self.pages(view, equal, limit, where=where, budget=budget)
        self.check(view, f"page where {name} {relation.__name__} {value!r}", wanted, found)

    def key_rules(self, view):
        if issubclass(view, Model):
            return dict.fromkeys(each.name for each in self.db.operations.catalog.kinds[view].fields)
        return {name: rule for name, rule in rules_of(view).items() if rule.kind == "key"}

    def get(self, view, rows):
        """Gets each row by its key, alone and together."""
        if issubclass(view, Index) and not view.unique:
            return
        keys = [self.key_of(view, row) for row in rows]
        here = [
            (each, row) for each, row in zip(keys, rows, strict=True) if None not in each or issubclass(view, Aggregate)
        ]
        for each, row in here:
            found = self.spent(
                f"get of {view.__name__}", self.costs.get(view), lambda each=each: self.db.get(view, *each)
            )
            self.check(view, f"get {each}", [row], [found])
        if here and (len(here[0][0]) or not issubclass(view, Aggregate)):
            several = [each for each, _row in here]
            found = self.spent(
                f"get_many of {view.__name__}", self.costs.get_many(view, len(several)),
                lambda: self.db.get_many(view, several),
            )  # fmt: skip
            self.check(view, "get_many", [row for _each, row in here], found)

    def key_of(self, view, row):
        if issubclass(view, Model):
            return key_of(row)
        return tuple(given(getattr(row, name)) for name in self.key_rules(view))


def first_seen(marks, rows):
    """The place of the first entry that is seen; all behind it are."""
    seen = [marks.has_seen(row) for row in rows]
    first = seen.index(True) if True in seen else len(rows)
    if not all(seen[first:]):
        raise Disagreement(f"an entry is not seen, and a newer one is: {seen}")
    return first


def given(value):
    """A value of a key, as a page takes it."""
    return value.ref if isinstance(value, Copy) else value


def of(rows, name, value):
    """The rows with a value."""
    return [each for each in rows if key(each, name) == value]


def key(row, name):
    return given(getattr(row, name))


def listed_as(view, rows):
    return [look(row) for row in rows] if issubclass(view, Model) else listed(view, rows)
