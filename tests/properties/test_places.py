"""The places of every entity, after any history, are exactly the rows of the whole store that belong to it."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread import Schema
from oneread.derivations.schema_rows import stored_schema
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing.proof import Proof
from oneread.testing.strategies import histories
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS, is_group_root
from oneread.verify.expected import RowReader
from oneread.verify.keyspace import StoreKeyspaces, shown_of
from oneread.verify.verify import VerifyOptions
from tests.properties.one_row import of_one_row
from tests.properties.schema_of_everything import EVERYTHING
from tests.properties.schema_of_feeds import FEED_SCHEMA, GIVEN

FEW = settings(max_examples=max(5, settings().max_examples // 4), deadline=None)
URLS = ("memory://", "memory://?span=row")
POINTERS = (BACK_REFERENCES, HOLDS)
SCHEMAS = {"everything": (Schema(*EVERYTHING), None), "feeds": (FEED_SCHEMA, GIVEN)}


class WholeStore:
    """What verify expects of every entity of a store, found by a scan of all of it."""

    def __init__(self, db):
        self.db = db
        catalog = db.operations.catalog
        self.scanner = db.operations.parts.inspector._inspection.comparison(VerifyOptions()).scanner
        self.keyspaces = StoreKeyspaces(catalog, db.run(stored_schema()))
        self.scanner.learn(self.keyspaces)
        self.roots = {key: row for key, row in self._all("roots") if row is not None}

    def _all(self, table):
        found = self.db.run(Scan(table, RowRange(b"", b""), 100_000, families="dm").__iter__())
        if table == "roots":
            found = [each for each in found if not is_group_root(each[0])]
            return [(key, self.scanner.meaning_of_root(key, row)) for key, row in found]
        return self.scanner._meanings(table, found)

    def rows(self):
        """The rows that belong to each root row, by table and key; and the groups in which it counts."""
        found = defaultdict(set)
        for table in ("views", "counts"):
            for key, row in self._all(table):
                keyspace = self.keyspaces.keyspace_of(table, key)
                if self._may_be_left(table, key):
                    continue
                if keyspace is None or not (keyspace.groups or keyspace.is_joined or keyspace.width):
                    found[self.keyspaces.owner_of(table, key, shown_of(row))].add((table, key))
        reader = RowReader(self.keyspaces, self.scanner)
        for key, row in self.roots.items():
            expected = self.db.run(reader.expected_rows(key, row))
            found[key] |= {("counts", place) for place, _amounts, _sign in expected.writes.deltas}
            found[key] |= {("views", place) for place in expected.writes.puts if place.startswith(POINTERS)}
            found[key] |= {("counts", place) for place in expected.writes.claimed}
        return found

    def _may_be_left(self, table, key):
        """Whether a store of one row may keep such a row, put by a refused commit or left for another owner.

        Of these the expected ones are compared, and no others.
        """
        is_claim = table == "counts" and not self.keyspaces.keyspace_of(table, key).width
        return (is_claim or key.startswith(POINTERS)) and not self.db.operations.spans_rows

    def compare(self):
        """How many places there are, after each entity's were compared."""
        owned, number = self.rows(), 0
        catalog = self.db.operations.catalog
        for key in self.roots:
            kind = catalog.kind_of(key)
            found = self.db.places(kind.cls, *kind.parts_of(key), check=True)
            assert sorted((each.table, each.row) for each in found.places) == sorted(owned.pop(key, ()))
            assert (found.checked, found.faults) == (True, ())
            compared = [each for each in found.places if each.kind != "share"]
            assert {each.state for each in compared} <= {"there"}
            number += len(found.places)
            self.compare_costs(kind, key, found)
            self.compare_holders(key, kind)
        assert not {key: each for key, each in owned.items() if each}, "every row belongs to an entity with a root row"
        return number

    def compare_costs(self, kind, key, checked):
        """What was asked is below the bound of the verb, byte for byte."""
        parts = kind.parts_of(key)
        for found, check in ((self.db.places(kind.cls, *parts), False), (checked, True)):
            cost, bound = self.db.cost(found), self.db.explain.places(kind.cls, *parts, check=check).bound
            for name in ("requests", "rounds", "rows", "bytes"):
                assert getattr(cost, name) <= getattr(bound, name), (name, kind.cls, cost, str(bound))

    def compare_holders(self, source, kind):
        """The holders of an entity are those whose back-references and holds name it, however they are divided."""
        wanted = [key for key, _row in self._all("views") if key.startswith((BACK_REFERENCES + source, HOLDS + source))]
        found, cursor = [], None
        while True:
            page = self.db.places(kind.cls, *kind.parts_of(source), limit=2, cursor=cursor)
            found += page.holders
            cursor = page.next
            if cursor is None:
                break
        assert len(found) == len(wanted)
        for each, key in zip(found, wanted, strict=True):
            holder = self.db.operations.catalog.kinds_by_prefix
            (model,) = {one.cls for one in holder.values() if one.cls.__name__ == each.model}
            assert key.endswith(self.db.operations.catalog.kinds[model].key(each.key))
            assert each.fields, "the reference is declared"


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.timeout(900)
def test_places_are_the_rows_that_belong_to_an_entity(name, url):
    schema, fields = SCHEMAS[name]
    seen = []

    @FEW
    @given(histories(schema, fields, longest=12), st.booleans())
    def is_exact(history, looks):
        steps = of_one_row(history) if url != URLS[0] else history
        with Proof(schema, url) as proof:
            for step in steps:
                proof.do(step)
            if looks:
                proof.look()
            else:
                proof._run_tasks()
            seen.append(WholeStore(proof.database).compare())

    is_exact()
    assert max(seen) > 10
