"""Two programs with two schemas on one store: beside each other, both evolving at once, and damaged schema rows."""

import multiprocessing
import threading
import time

import msgspec
import pytest

from oneread import Index, Key, Model, Schema, by, connect
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import Corrupt, SchemaMismatch
from oneread.models.versions import FORMAT
from oneread.plans.effects import Atomically
from oneread.store.rows import VALUE, Cell
from oneread.transactions.system_rows import SCHEMA_ROW

SPAWN = multiprocessing.get_context("spawn")


def one():
    class Note(Model[int]):
        number: Key[int]
        text: str

    return Schema(Note), Note


def two():
    class Note(Model[int]):
        number: Key[int]
        text: str
        stars: int = 3

    class NotesByText(Index[Note]):
        text: str = by(Note.text)

    return Schema(Note, NotesByText), Note


def three():
    class Note(Model[int]):
        number: Key[int]
        text: str
        colour: str = "red"

    return Schema(Note), Note


def keep_writing(url, begun, refusals):
    """An old program: writes until it is refused."""
    schema, note = one()
    with connect(url, schema, workers=0) as db:
        number = 0
        while True:
            try:
                db.save(note(number=number, text=f"t{number}"))
            except SchemaMismatch as error:
                refusals.put((number, str(error)))
                return
            number += 1
            if number == 20:
                begun.set()
            time.sleep(0.002)  # a backfill comes to an end behind writers that are slower than it


def test_an_old_process_writes_until_a_backfill_cuts_it_off_and_loses_nothing(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    begun, refusals = SPAWN.Event(), SPAWN.Queue()
    old = SPAWN.Process(target=keep_writing, args=(url, begun, refusals))
    old.start()
    assert begun.wait(60)
    schema, note = two()
    with connect(url, schema, workers=0) as db:
        db.patch(note, 0, stars=5)
        before = len(pages(db, note))
        while len(pages(db, note)) < before + 20:
            assert old.is_alive()
        assert db.backfill(fence=True).done
        written, message = refusals.get(timeout=60)
        old.join(60)
        assert "newer program" in message
        assert [row.number for row in pages(db, note)] == list(range(written))
        assert {row.stars for row in pages(db, note)} == {3, 5}
        assert len(db.page(schema.views[0], "t0")) == 1
        assert db.verify().clean


def pages(db, model):
    rows, cursor = [], None
    while True:
        page = db.page(model, cursor=cursor)
        rows.extend(page)
        cursor = page.next
        if cursor is None:
            return rows


def test_of_two_programs_that_evolve_at_once_one_wins_and_the_other_is_refused(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    schema, note = one()
    with connect(url, schema, workers=0) as db:
        db.save(note(number=1, text="x"))
    ready, outcomes = threading.Barrier(2), []

    def program(make):
        schema, _note = make()
        ready.wait()
        try:
            connect(url, schema, workers=0).close()
            outcomes.append("in")
        except SchemaMismatch as error:
            outcomes.append(error.message)

    threads = [threading.Thread(target=program, args=(make,)) for make in (two, three)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert "in" in outcomes
    for make in (two, three):
        schema, note = make()
        try:
            with connect(url, schema, workers=0) as db:
                assert db.get(note, 1).text == "x"
        except SchemaMismatch as error:
            assert error.facts  # noqa: PT017 - the one that came later, and does not fit the winner, gets the reason


def test_the_same_program_twice_at_once_changes_the_schema_once(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    schema, note = one()
    with connect(url, schema, workers=0) as db:
        db.save(note(number=1, text="x"))
    ready = threading.Barrier(4)

    def program():
        schema, _note = two()
        ready.wait()
        connect(url, schema, workers=0).close()

    threads = [threading.Thread(target=program) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with connect(url, two()[0], workers=0) as db:
        assert db.run(stored_schema()).version == 2


def replaced(change):
    """What puts another schema row in place."""

    def run(store):
        (row,) = store.read("system", [SCHEMA_ROW])
        data = change(row[VALUE].value)
        store.replace("system", {SCHEMA_ROW: {VALUE: Cell(data, row[VALUE].stamp + 1)}})

    yield Atomically(run)


def changed(**facts):
    return lambda data: msgspec.msgpack.encode(msgspec.msgpack.decode(data) | facts)


DAMAGES = {
    "torn": (lambda data: data[: len(data) // 2], Corrupt),
    "empty": (lambda _data: b"", Corrupt),
    "something else": (lambda _data: b"\xc0", Corrupt),
    "a newer format": (changed(format=FORMAT + 3), SchemaMismatch),
    "an earlier format": (changed(format=FORMAT - 1, layouts="of another form"), SchemaMismatch),
    "no format": (changed(format=None), Corrupt),
    "a type that cannot be read": (
        lambda data: data.replace(b"\x81\xa4name\xa3str", b"\xa3str"),
        Corrupt,
    ),
    "a type of another name": (lambda data: data.replace(b"\xa3str", b"\xa3s{r"), SchemaMismatch),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_schema_row_is_reported_and_not_changed(tmp_path, damage):
    url = f"lmdb://{tmp_path}/store?durability=none"
    change, expected = DAMAGES[damage]
    schema, note = one()
    with connect(url, schema, workers=0) as db:
        db.save(note(number=1, text="x"))
        db.run(replaced(change))
    for _ in range(2):  # and again: nothing was changed by the first
        with pytest.raises(expected) as refusal:
            connect(url, two()[0], workers=0)
        assert not refusal.value.retryable


def test_a_history_that_was_cut_short_does_no_harm(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    schema, note = one()
    with connect(url, schema, workers=0) as db:
        db.save(note(number=1, text="x"))
        db.run(replaced(changed(history=[])))
    with connect(url, schema, workers=0) as db:
        assert db.get(note, 1).text == "x"
    schema, note = two()
    with connect(url, schema, workers=0) as db:
        assert db.get(note, 1).stars == 3
        assert db.backfill(quiet=0).done
    with pytest.raises(SchemaMismatch):
        connect(url, one()[0], workers=0)


def test_exhausted_numbers_are_reported_before_anything_is_written(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    schema, note = one()
    with connect(url, schema, workers=0) as db:
        db.save(note(number=1, text="x"))
        db.run(replaced(changed(last=0x7FFF)))
    with pytest.raises(SchemaMismatch) as refusal:
        connect(url, two()[0], workers=0)
    assert refusal.value.facts["limit"] == 0x7FFF
