"""A small store with every kind of derived row, and hands that change its rows behind everybody's back."""

from decimal import Decimal

import msgspec

from oneread import connect
from oneread.derivations import emitted_record
from oneread.store.keys import holder_part
from oneread.store.requests import Scan
from oneread.store.rows import VALUE, Cell, RowRange
from oneread.transactions import outbox
from oneread.transactions.deltas import decode_amounts, encode_amounts
from oneread.transactions.root import BODY, EMITTED, VERSION, parse_root
from tests.simulation.schema import WORLD, Buyer, City, Compiled, Customer, Home, Land, Product, Purchase, Region, Sold

SCHEMA = Compiled(*WORLD.models, *WORLD.views, inline=1000)


def entities():
    """Two of everything that is copied, and purchases that refer, hold, count and stand in two lists."""
    yield [Region(code=code, name=f"region {code}", size=code) for code in (1, 2)]
    yield [City(code=code, name=f"city {code}", region=Land.of(code)) for code in (1, 2)]
    yield [Product(code=code, name=f"product {code}") for code in (1, 2, 3)]
    yield [
        Customer(number=each, name=f"name {each}", email=f"{each}@x", city=Home.of(1 + each % 2), born_in=City.at(2))
        for each in (1, 2, 3, 4)
    ]
    yield [
        Purchase(
            number=each,
            buyer=Buyer.of(1 + each % 4),
            product=Sold.of(1 + each % 2),
            also=[Product.at(2)],
            quantity=each,
            price=Decimal(each) / 4,
        )
        for each in range(1, 9)
    ]


class Damaged:
    """A store, its rows, and ways to spoil them."""

    def __init__(self, url, schema=SCHEMA):
        self.db = connect(url, schema, workers=0)  # a worker would do away with tasks that are planted
        self.engine = self.db._driver.engine
        self.catalog = self.db.operations.catalog
        for batch in entities():
            self.db.save_all(batch)
        self.db.delete(Purchase, 8)
        self.db.delete(Product, 3)

    def close(self):
        self.db.close()

    # Rows.

    def rows(self, table, prefix=b""):
        found = self.engine.answer(Scan(table, RowRange(prefix, b""), 1 << 30, families="dm"))
        return {key: row for key, row in found if key.startswith(prefix)}

    def put(self, table, key, row):
        self.engine.transaction(lambda inside: inside.replace(table, {key: row}), 30)

    def show(self, table, key, value, stamp=1):
        self.put(table, key, {VALUE: Cell(value, stamp)})

    def root(self, model, *parts):
        key = self.catalog.kinds[model].key(parts)
        return key, self.rows("roots", key)[key]

    # Places.

    def index(self, view):
        return self.catalog.views[view].prefix

    def group(self, view):
        return self.catalog.views[view].prefix

    def extremum(self, view, field):
        return next(each.prefix for each in self.catalog.views[view].extrema if each.field == field)

    def row_of(self, prefix, model, *parts, table="views"):
        """The one row under a prefix that ends in an entity's key."""
        suffix = self.catalog.kinds[model].key(parts)[2:]
        return next((key, row) for key, row in self.rows(table, prefix).items() if key.endswith(suffix))

    def pointer(self, under, source, carrier):
        """The row of a holder, whatever its selection; the key without one where there is no such row."""
        start, holder = under + self.root(*source)[0], self.root(*carrier)[0]
        found = [
            (key, row)
            for key, row in self.rows("views", start).items()
            if key.startswith(start) and holder_part(key[len(start) :]) == holder
        ]
        return found[0] if found else (start + holder, None)

    def sums(self, view, change):
        """Changes the numbers of the first group of an aggregate; answers its key."""
        key, row = next(iter(self.rows("counts", self.group(view)).items()))
        numbers = change(decode_amounts(row[VALUE].value))
        self.show("counts", key, encode_amounts(numbers), row[VALUE].stamp)
        return key

    # Commit rows.

    def change_root(self, model, *parts, **cells):
        """Gives a commit row other cells; None takes one away."""
        key, row = self.root(model, *parts)
        changed = dict(row)
        for name, value in cells.items():
            column = {"version": VERSION, "body": BODY, "record": EMITTED}[name]
            if value is None:
                del changed[column]
            else:
                changed[column] = Cell(value, row[column].stamp)
        self.put("roots", key, changed)
        return key

    def record(self, model, *parts):
        return emitted_record.decode_record(self.root(model, *parts)[1][EMITTED].value)

    def commit_with(self, entity, used=None):
        """Lets an entity stand as given, copies and all, with everything derived from it: only its copies are wrong."""
        carrier = self.catalog.type_of(entity)
        key = carrier.kind.key(carrier.kind.parts(entity))
        before = self.catalog.state(key, parse_root(self.rows("roots", key)[key]))
        refs = carrier.refs(entity)
        body = carrier.layout.encode(entity)
        emission = carrier.emission(entity, before.used if used is None else used, key, refs)
        operations = emitted_record.record_diff(key, before.record, emission.record, emission.shown)
        if operations.deltas:
            raise LookupError("with these copies the entity counts in other groups")
        version = self.root(type(entity), *carrier.kind.parts(entity))[1][VERSION]
        for place in operations.deletes:
            self.put("views", place, None)
        for place, shown in operations.puts.items():
            self.show("views", place, shown)
        record = emitted_record.encode_record(emission.record)
        self.put(
            "roots", key, {VERSION: version, BODY: Cell(body, version.stamp), EMITTED: Cell(record, version.stamp)}
        )
        return key

    def task(self, source, **shown):
        key = outbox.task_key(source)
        self.show("system", key, msgspec.msgpack.encode(outbox.Task(source, **shown)))
        return key
