"""Random chains of changed schemas over random data: every row always shows what a naive model says."""

import types
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from oneread import Copy, Index, Key, Model, Schema, by, renamed, retyped, shown, within
from oneread.database._sync.database import Database
from oneread.database.open import opened
from oneread.engines.memory import MemoryEngine
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace

TYPES = {
    int: (lambda seed: seed, 7),
    str: (lambda seed: f"v{seed}", "blank"),
    Decimal: (lambda seed: Decimal(seed) / 4, Decimal("0.5")),
}
CONVERSIONS = {
    (int, str): lambda value: f"n{value}",
    (str, int): lambda value: sum(value.encode()),
    (int, Decimal): lambda value: Decimal(value) / 8,
    (Decimal, str): lambda value: f"d{value}",
    (str, Decimal): lambda value: Decimal(len(value)),
    (Decimal, int): lambda value: int(value * 8),
}


class Naive:
    """A model by name: its fields in order, and its rows as plain dicts; each change is done to each row at once.

    A row that was not written since a field was added lacks it, and shows the default of today. In one version of the
    schema a field gets one other type at most: a type that no store ever had cannot be converted from.
    """

    def __init__(self):
        self.fields = {"f0": int, "f1": str}
        self.steps = []
        self.rows = {}
        self.made = 2
        self.retyped = set()

    def add(self, kind, place):
        name, self.made = f"f{self.made}", self.made + 1
        items = list(self.fields.items())
        items.insert(place % (len(items) + 1), (name, kind))
        self.fields = dict(items)

    def shown(self, number):
        return {name: self.rows[number].get(name, TYPES[kind][1]) for name, kind in self.fields.items()}

    def complete(self):
        self.rows = {number: self.shown(number) for number in self.rows}

    def drop(self, name):
        del self.fields[name]
        for row in self.rows.values():
            row.pop(name, None)

    def rename(self, name):
        new, self.made = f"f{self.made}", self.made + 1
        self.fields = {new if each == name else each: kind for each, kind in self.fields.items()}
        self.retyped = {new if each == name else each for each in self.retyped}
        self.steps = [
            retyped(new, was=step.was, by=step.by) if hasattr(step, "was") and step.name == name else step
            for step in self.steps
        ]
        self.steps.append(renamed(name, to=new))
        for row in self.rows.values():
            if name in row:
                row[new] = row.pop(name)

    def retype(self, name, kind):
        was = self.fields[name]
        known = any(step.name == name and getattr(step, "was", None) is was for step in self.steps)
        if (was, kind) not in CONVERSIONS or known or name in self.retyped:
            return
        self.retyped.add(name)
        self.fields[name] = kind
        self.steps.append(retyped(name, was=was, by=CONVERSIONS[was, kind]))
        for row in self.rows.values():
            if name in row:
                row[name] = CONVERSIONS[was, kind](row[name])

    def reorder(self, seed):
        names = sorted(self.fields, key=lambda name: (int(name[1:]) * (seed + 3)) % 11)
        self.fields = {name: self.fields[name] for name in names}

    def declared(self):
        fields = {"number": Key[int]} | self.fields
        defaults = {name: TYPES[kind][1] for name, kind in self.fields.items()}
        item = declared("Item", Model, fields, evolution=tuple(self.steps), **defaults)
        shows = {name: kind | None for name, kind in self.fields.items()}
        copy = declared("Shown", Copy[item], shows, evolution=tuple(self.steps))
        holder = declared("Holder", Model, {"number": Key[int], "item": copy, "times": int}, times=0)
        first = next(iter(self.fields))
        views = [
            declared("OfFirst", Index[item], {"key": self.fields[first]}, key=by(getattr(item, first))),
            declared(
                "HoldersOfFirst",
                Index[holder],
                {"key": self.fields[first] | None, "item": copy},
                key=by(within(holder.item, getattr(copy, first)), none="last"),
                item=shown(holder.item),
            ),
        ]
        return Schema(item, holder, *views), item, copy, holder, views, first


def declared(name, base, fields, /, **values):
    space = {"__annotations__": dict(fields), "__module__": __name__} | values
    return types.new_class(name, (base,), {}, lambda into: into.update(space))


class Kept(MemoryEngine):
    def close(self):
        pass


CHANGES = st.tuples(
    st.sampled_from(["add", "drop", "rename", "retype", "reorder"]), st.integers(0, 50), st.sampled_from(list(TYPES))
)
WRITES = st.tuples(
    st.sampled_from(["item", "holder", "patch", "touch", "delete"]), st.integers(0, 3), st.integers(0, 99)
)
VERSIONS = st.lists(
    st.tuples(st.lists(CHANGES, max_size=3), st.lists(WRITES, max_size=6), st.booleans()), min_size=2, max_size=6
)


def changed(naive, change):
    what, seed, kind = change
    names = list(naive.fields)
    name = names[seed % len(names)]
    if what == "add":
        naive.add(kind, seed)
    elif what == "drop" and len(names) > 1:
        naive.drop(name)
    elif what == "rename":
        naive.rename(name)
    elif what == "retype":
        naive.retype(name, kind)
    elif what == "reorder":
        naive.reorder(seed)


def write(db, naive, holders, classes, action):
    what, number, seed = action
    _schema, item, copy, holder, _views, first = classes
    if what == "item":
        row = {name: TYPES[kind][0](seed) for name, kind in naive.fields.items()}
        naive.rows[number] = row
        db.save(item(number=number, **row))
    elif what == "holder" and number in naive.rows:
        holders[seed % 4] = number
        db.save(holder(number=seed % 4, item=copy.of(number)))
    elif what == "patch" and number in naive.rows:
        value = TYPES[naive.fields[first]][0](seed)
        naive.rows[number] = naive.shown(number) | {first: value}
        db.patch(item, number, **{first: value})
    elif what == "touch" and number in holders:
        db.patch(holder, number, times=seed)
    elif what == "delete" and number in naive.rows and number not in holders.values():
        del naive.rows[number]
        db.delete(item, number)


def check(db, naive, holders, classes):
    _schema, item, _copy, holder, _views, _first = classes
    assert {row.number: {name: getattr(row, name) for name in naive.fields} for row in db.page(item)} == {
        number: naive.shown(number) for number in naive.rows
    }
    for row in db.page(holder):
        source = naive.rows[holders[row.number]]  # what it lacks by now may have been shown under an earlier default
        shown_now = {name: getattr(row.item, name) for name in source if hasattr(row.item, name)}
        assert shown_now == {name: source[name] for name in shown_now}


def check_views(db, naive, holders, classes):
    _schema, _item, _copy, _holder, (of_first, holders_of_first), first = classes
    assert sorted((row.key, row.source.key[0]) for row in db.page(of_first)) == sorted(
        (row[first], number) for number, row in naive.rows.items()
    )
    found = {
        row.source.key[0]: {name: getattr(row.item, name) for name in naive.fields} for row in db.page(holders_of_first)
    }
    assert found == {number: naive.rows[item] for number, item in holders.items()}


@settings(max_examples=15)
@given(VERSIONS)
def test_rows_show_what_was_written_through_every_schema_since(versions):
    engine, naive, holders, now = Kept(), Naive(), {}, [1000]

    def clock():
        now[0] += 1
        return now[0]

    seen, last = set(), b""
    for changes, writes, backfills in versions:
        naive.retyped = set()
        for change in changes:
            changed(naive, change)
        classes = naive.declared()
        digest = classes[0].declared().digest
        if digest in seen and digest != last:  # the same declaration again is a rollback, which is another test's
            naive.add(int, 0)
            classes = naive.declared()
        seen.add(last := classes[0].declared().digest)
        driver = SyncDriver(engine, clock)
        with Database(driver, driver.run(opened(classes[0], read_only=False), Trace())) as db:
            check(db, naive, holders, classes)
            for action in writes:
                write(db, naive, holders, classes, action)
            check(db, naive, holders, classes)
            if backfills:
                assert db.backfill(quiet=0).done
                naive.complete()
                check(db, naive, holders, classes)
                check_views(db, naive, holders, classes)
                assert db.verify().clean
