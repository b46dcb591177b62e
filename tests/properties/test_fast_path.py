"""The fast paths answer, refuse and cost as the plans do, whose answers are the meaning, and write the same JSON."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.shop.schema import SHOP
from oneread import Schema, to_json
from oneread.costs.budgets import budget
from oneread.database.fast_path import ABSENT
from oneread.database.pages import Query, any_of, page, parsed_rows, rows_as_json
from oneread.engines.lmdb import binding
from oneread.errors import OnereadError
from oneread.models.references import Ref
from oneread.plans.trace import Trace
from oneread.store.limits import DEFAULT_LIMIT
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing import strategies
from oneread.testing.proof import Proof
from tests.properties.forum import FORUM
from tests.properties.schema_of_everything import EVERYTHING
from tests.properties.schema_of_feeds import FEED_SCHEMA, GIVEN

SCHEMAS = {"shop": SHOP, "forum": FORUM, "everything": Schema(*EVERYTHING), "feeds": FEED_SCHEMA}
SOME = settings(max_examples=max(1, settings().max_examples // 10), deadline=None)
LIMITS = st.sampled_from([None, 1, 2, 3, DEFAULT_LIMIT, 0, -1, True, 2.0, "2", 10_001])
ODD = st.sampled_from([None, "", b"", 0, -1, 1.5, True, Ref(("a",)), Ref((1,)), any_of(1, 2), any_of(), object(), []])

WRITTEN = set()
"""Whether compiled code wrote the JSON of a page's rows."""


def outcome_of(work):
    """What a page or a result is in every way that a caller can see; of a failure its class and text."""
    try:
        with budget() as spent:
            found = work()
    except OnereadError as error:
        return type(error), str(error)
    return found, spent.cost


def look_at(found, cost):
    written, of_documents = to_json(found), rows_as_json(found)  # before any program looks at the rows
    rows = found.rows
    assert parsed_rows(found) is None
    assert to_json(found) == written
    assert to_json(rows) == bytes(msgspec.json.decode(written, type=dict[str, msgspec.Raw])["rows"])
    assert of_documents in {None, to_json(rows)}
    WRITTEN.add(of_documents is not None)
    seen = written, repr(rows), [type(row) for row in rows], found.next, found.previous, found.truncated
    assert msgspec.structs.replace(found.cost, skipped=0) == cost  # a budget does not count skipped rows
    return seen, cost


def page_by_plan(db, view, equal, limit, *, whole):
    """The page of the plan: read as a whole where it may be, or row by row, which is the meaning."""
    trace = Trace()
    of = db._lists[view] if whole else db._lists[view]._replace(decoder=None)
    query = Query(equal, min(DEFAULT_LIMIT, of.max_limit) if limit is None else limit)
    return db._driver.run(db.operations.reading(lambda: page(of, query, db._cipher, trace)), trace)


def keys_of(db, view):
    """The values of the first rows' keys."""
    of = db._lists[view]
    rows = db._driver.run(Scan(of.table, RowRange.under(of.prefix), 4).__iter__(), Trace())
    return [of.codec.decode_prefix(key, len(of.prefix))[0] for key, _row in rows]


def check_page(db, view, equal, limit):
    public = outcome_of(lambda: db.page(view, *equal, limit=limit))
    planned = outcome_of(lambda: page_by_plan(db, view, equal, limit, whole=False))
    whole = outcome_of(lambda: page_by_plan(db, view, equal, limit, whole=True))
    if isinstance(public[0], type) or isinstance(planned[0], type):
        assert public == whole == planned
        return
    expected = look_at(*planned)
    assert look_at(*public) == look_at(*whole) == expected
    of = db._lists[view]
    local = db._pages.any_page(of, Query(equal, min(DEFAULT_LIMIT, of.max_limit) if limit is None else limit))
    assert local is None or look_at(local, planned[1]) == expected


def check_group(db, view, key):
    find = db._finders.get(view)
    trace = Trace()
    with suppress(OnereadError):
        found = None if find is None else find(key)
        if found is not None and found is not ABSENT:
            planned, version = db._driver.run(db.operations.find(view, key), trace)
            assert (repr(found), to_json(found)) == (repr(planned), to_json(planned))
            assert type(found) is type(planned)
            assert (db.cost(found), version) == (trace.cost, 0)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.timeout(900)
def test_the_fast_paths_answer_refuse_and_cost_as_the_plans(schema):
    ways = set()

    @SOME
    @given(strategies.histories(schema, GIVEN if schema is FEED_SCHEMA else None), st.data())
    def holds(history, data):
        with Proof(schema) as proof:
            for step in history:
                proof.do(step)
            proof.look()
            db = proof.database
            for view in schema.views:
                with suppress(OnereadError):  # of a feed, a page of no member
                    db.page(view)
                if view not in db._lists:  # an index that a feed has added
                    continue
                for values in [(), *keys_of(db, view)]:
                    for count in range(len(values) + 1):
                        limit = data.draw(LIMITS)
                        check_page(db, view, values[:count], limit)
                        ways.add(db._pages.first_page(db._lists[view])(values[:count], 1) is None)
                    check_page(db, view, (*values[: data.draw(st.integers(0, 2))], data.draw(ODD)), 2)
                    check_group(db, view, values)
            for model in schema.models:
                for entity in db.page(model).rows:
                    assert to_json(db.get(type(entity), entity.ref())) == to_json(entity)

    holds()
    assert ways == {True, False}
    assert (True in WRITTEN) is bool(binding.NATIVE)
