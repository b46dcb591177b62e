"""Four programs write to Bigtable while another one verifies and repairs: it finds what was planted, and nothing else.

The planted faults are of a shelf that the writers leave alone; sums of the others change all the time, so that a
verification may skip books.
"""

from uuid import uuid4

from oneread import connect
from oneread.store.requests import Mutate, Read
from oneread.store.rows import VALUE, WRITES, RowMutation
from oneread.transactions.deltas import encode_amounts
from oneread.verify import looks, sums
from tests.failures.shelves import SCHEMA, Author, Book, BooksOfWriter, Shelf, Writer, check_derived, settle
from tests.failures.test_killed_bigtable_writers import AUTHORS, Victim
from tests.servers import need
from tools.servers.bigtable import bigtable_emulator

WRITERS = 4
QUIET = 99
"""The author whose books nobody writes."""


def plant(db):
    """Removes a row of a list past the library, and changes a sum; returns what must be found."""
    catalog = db.operations.catalog
    list_of, shelves = catalog.views[BooksOfWriter], catalog.views[Shelf]
    listed = list_of.prefix + list_of.key.codec.encode((QUIET,)) + catalog.kinds[Book].key((1000,))[2:]
    shelf = shelves.prefix + shelves.key.codec.encode((QUIET,))
    for table, key, change in (("views", listed, None), ("counts", shelf, encode_amounts([3, 7]))):
        (row,) = db.run(Read(table, [key], "dm").__iter__())
        cell = row[VALUE]
        puts = {} if change is None else {VALUE: type(cell)(change, cell.stamp), WRITES: row[WRITES]}
        db.run(Mutate(table, [RowMutation(key, puts, {VALUE: cell.stamp} if change is None else {})]).__iter__())
    return {"BooksOfWriter": {"missing": 1}, "Shelf": {"different": 1}}


def test_exactly_what_was_planted_is_found_and_mended_while_others_write(monkeypatch):
    monkeypatch.setattr(looks, "APART", 0.05)
    monkeypatch.setattr(sums, "APART", 0.05)
    monkeypatch.setattr(sums, "PASSES", 3)
    with need("bigtable", bigtable_emulator) as own:
        monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", own.host)
        url = f"bigtable://test/i{uuid4().hex}?timeout=60"
        with connect(url, SCHEMA, workers=0) as db:
            for number in (*range(AUTHORS), QUIET):
                db.save(Author(number=number, name="none"))
            for number in (1000, 1001):
                db.save(Book(number=number, author=Writer.of(QUIET), pages=number))
            writers = [Victim(url, number % AUTHORS, number) for number in range(WRITERS)]
            for round_ in range(1, 3):
                for each in writers:
                    each.wait_for(4 * round_)
                found = db.verify()
                assert not found.found, [each.text for each in found.faults]
            planted = plant(db)
            found = {}
            db.verify(on_fault=lambda fault: found.setdefault(fault.view, {}).update({fault.kind: 1}))
            assert found == planted
            repaired = db.repair()
            assert (repaired.mended, repaired.left) == (2, ()), repaired.reasons
            for each in writers:
                each.wait_for(1)
                each.kill()
            settle(db)
            last = db.verify()
            assert last.clean, (last.skipped, [each.text for each in last.faults])
            check_derived(db)
