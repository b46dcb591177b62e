"""The calls that read by themselves: they answer, and refuse, as reads in a transaction do, whatever the store has.

`test_sanitized` runs these with every wrong access to memory ending the process.
"""

import shutil
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.engines.lmdb import binding, engine, row_format
from oneread.errors import OnereadError
from oneread.store.rows import RowRange
from tests.unit.engines.lmdb.test_calls import Closing
from tests.unit.engines.lmdb.test_row_format import FORMS, ROWS

native = pytest.importorskip("oneread_native", reason="oneread-native is not installed")

KEYS = st.text("ab\0", max_size=3).map(str.encode) | st.just(b"b" * 511)
STORED = st.builds(lambda row: row_format.encode("views", b"k", row), ROWS)
CUT = st.builds(lambda row, size: row[: size % (len(row) + 1)], STORED, st.integers(0, 40))
NUMBERS = st.integers(0, 70) | st.just(2**40)
STORES = st.dictionaries(KEYS.filter(bool), STORED | STORED | CUT | st.binary(max_size=30), max_size=80)


@pytest.fixture(scope="module")
def store():
    if not binding.NATIVE:
        pytest.skip("a process has one binding to LMDB, and this one has the other")
    folder = tempfile.mkdtemp()
    opened = engine.LmdbEngine(folder, durability="none", map_size=1 << 28)
    yield opened
    opened.close()
    shutil.rmtree(folder)


def fill(store, rows):
    """Makes these, of any bytes, all rows of `views`; those of `counts` are the same."""
    with store._environment.lmdb.begin(write=True) as writing:
        for table in ("views", "counts"):
            cursor = writing.cursor(store._tables[table])
            while cursor.first():
                cursor.delete()
            cursor.putmulti(rows.items())


def outcome_of(read):
    try:
        return read()
    except OnereadError as failure:
        return type(failure), str(failure)


def reads_of(store, data):
    """One read of each kind, with the same arguments each time it is made."""
    key, start, stop, limit = data.draw(st.tuples(KEYS, KEYS, KEYS, NUMBERS))
    within, reverse, column = (
        RowRange(start, stop),
        data.draw(st.booleans()),
        data.draw(st.sampled_from([b"d:b", b"m:e"])),
    )
    firsts = data.draw(st.lists(st.tuples(st.sampled_from(["views", "counts"]), KEYS.filter(bool), st.integers(1, 70))))
    return [
        lambda: store.point("views", key, column),
        lambda: store.column("views", within, limit, column, reverse=reverse),
        lambda: store.together("counts", key, column, firsts),
    ]


@given(rows=STORES, data=st.data())
def test_a_whole_read_answers_and_refuses_as_one_in_a_transaction(store, rows, data):
    fill(store, rows)
    reads = reads_of(store, data)
    found = [outcome_of(read) for read in reads]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_READS_WHOLE", False)
        expected = [outcome_of(read) for read in reads]
    assert [repr(each) for each in map(as_lists, found)] == [repr(each) for each in map(as_lists, expected)]


def as_lists(found):
    """An answer with its keys as lists: they are a tuple or a list."""
    return [*map(as_lists, found)] if isinstance(found, (list, tuple)) else found


def test_rows_of_the_usual_forms_are_read_whole(store):
    usual = {form.encode(): row_format.encode("views", b"k", FORMS[form]) for form in ("one", "entry", "root", "own")}
    fill(store, usual)
    environment, views, counts = store._environment.lmdb, store._tables["views"], store._tables["counts"]
    stamps = {form: FORMS[form.decode()][b"d:b"].stamp for form in usual}
    assert {form: environment.cell(views, form) for form in usual} == {form: (b"body", stamps[form]) for form in usual}
    assert environment.cell(views, b"none") is None
    assert environment.column(views, b"", b"", 9, False) == (tuple(sorted(usual)), [b"body"] * 4)
    assert environment.column(views, b"on", b"own", 9, True) == ((b"one",), [b"body"])
    firsts = ((counts, b"o", 1), (views, b"o", 2), (views, b"none", 2))
    found = environment.together(counts, b"root", firsts)
    assert found == (b"body", [((b"one",), [b"body"]), ((b"one", b"own"), [b"body"] * 2), ((), [])])
    assert environment.together(counts, b"none", ()) == (None, [])


@pytest.mark.parametrize("form", ["spelled", "more"])
def test_rows_of_other_forms_are_left(store, form):
    fill(
        store,
        {b"a": row_format.encode("views", b"k", FORMS["one"]), b"b": row_format.encode("views", b"k", FORMS[form])},
    )
    environment, views = store._environment.lmdb, store._tables["views"]
    assert environment.cell(views, b"b") is NotImplemented
    assert environment.column(views, b"", b"", 9, False) is NotImplemented
    assert environment.column(views, b"", b"", 1, False) == ((b"a",), [b"body"])
    assert environment.together(views, b"b", ()) is NotImplemented
    assert environment.together(views, b"a", ((views, b"b", 1),)) is NotImplemented


def test_a_whole_read_uses_the_slot_of_the_one_before(store):
    environment, views = store._environment.lmdb, store._tables["views"]
    environment.cell(views, b"a")
    slots = environment.readers()
    for _ in range(5):
        environment.column(views, b"", b"", 9, False)
        environment.together(views, b"a", ((views, b"a", 1),))
    assert environment.readers() == slots


def test_arguments_of_other_types_are_refused(store):
    environment, views = store._environment.lmdb, store._tables["views"]
    first = views, b"a", 1
    wrong = [
        lambda: environment.cell(views, "text"),
        lambda: environment.cell(object(), b"a"),
        lambda: environment.column(views, b"", b"", None, False),
        lambda: environment.column(views, b"", None, 1, False),
        lambda: environment.together(views, b"a", [first]),
        lambda: environment.together(views, b"a", (first[:2],)),
        lambda: environment.together(views, b"a", (first, (views, "text", 1))),
        lambda: environment.together(views, b"a", ((views, b"a", 1.5),)),
    ]
    for read in wrong:
        with pytest.raises(TypeError):
            read()


def test_a_number_that_no_list_has_is_refused(store):
    with pytest.raises(OverflowError):
        store._environment.lmdb.column(store._tables["views"], b"", b"", 2**70, False)


def test_what_was_closed_says_so(tmp_path):
    environment = native.open(str(tmp_path), map_size=1 << 24, max_dbs=2)
    views = environment.open_db(b"views")
    with pytest.raises(native.Error, match="closed"):
        environment.column(views, b"", b"", 1, Closing(environment))
    for read in (lambda: environment.cell(views, b"a"), lambda: environment.together(views, b"a", ())):
        with pytest.raises(native.Error, match="closed"):
            read()
