"""`erase`: what would be done, what is done, the receipts, and a load behind it."""

import pytest

from oneread import connect
from oneread.cli.loading import Loaded
from oneread.database.erasures import Erasing, Erasure
from oneread.database.proof import LeftBytes
from tests.cli import notes
from tests.unit.database import test_erasing as erasing


@pytest.fixture
def dump(oneread, tmp_path):
    path = tmp_path / "older.jsonl"
    assert oneread("dump", "--out", path).code == 0
    return path


def test_a_plan_changes_nothing(oneread):
    planned = oneread("erase", "Person", "1", "--plan", "--json").document(Erasing)
    assert (planned.state, planned.key) == ("living", (1,))
    assert planned.holders["Note"] >= 1
    said = oneread("erase", "Person", "1", "--plan").out
    assert said.startswith("Person 1: living\n")
    assert "that a Note refers to it, which is cleared" in said
    assert oneread("get", "Person", "1").code == 0
    assert oneread("erase", "--receipts").out == "nothing was erased in this store\n"


def test_it_is_erased_with_a_receipt(oneread, url):
    receipt = oneread("erase", "Person", "1", "--yes", "--json").document(Erasure)
    assert receipt.done is not None
    assert oneread("get", "Person", "1").code == 1
    assert oneread("erase", "--receipts", "--json").document(list[Erasure]) == [receipt]
    assert "Person(1)" in oneread("erase", "--receipts").out
    assert oneread("erase", "Person", "1", "--yes").out.startswith("Person(1) is erased: ")
    assert oneread("verify").code == 0
    with connect(url, notes.NOTES, workers=0) as db:
        authors = [note.author for page in db.scan(notes.Note) for note in page.rows]
        copies = [each for each in authors if each is not None and each.ref.key == (1,)]
        assert {(each.name, each.deleted) for each in copies} == {("", True)}


def test_a_load_of_an_older_dump_counts_it(oneread, dump):
    assert oneread("erase", "Person", "1", "--yes").code == 0
    loaded = oneread("load", dump, "--json").document(Loaded)
    assert (loaded.erased, loaded.refused) == (1, 0)
    assert not dump.with_name(f"{dump.name}.rejects").exists()
    assert ", 1 left out that were erased here" in oneread("load", dump).out
    assert oneread("get", "Person", "1").code == 1


def test_a_proof_finds_what_is_left(oneread, dump):
    name = "Ada"
    found = oneread("erase", "--proof", name, "--in", dump, "--json")
    assert found.code == 1
    places = {(each.where, each.what) for each in found.document(list[LeftBytes])}
    assert {("roots", "Person"), (str(dump), "")} <= places
    assert oneread("erase", "Person", "1", "--yes").code == 0
    rest = {(each.where, each.what) for each in oneread("erase", "--proof", name, "--json").document(list[LeftBytes])}
    assert ("roots", "Person") not in rest
    assert oneread("erase", "--proof", "what never was stored").out == "nothing is left\n"


def test_a_scrub_leaves_nothing(oneread, kind_of_store):
    assert oneread("erase", "Person", "1", "--yes").code == 0
    ran = oneread("scrub")
    if kind_of_store == "memory":
        assert (ran.code, "is in memory" in ran.err) == (3, True)
        return
    said = "entries written again" if kind_of_store == "lmdb" else "0 cells and documents written again"
    assert (ran.code, said in ran.out) == (0, True)
    if kind_of_store == "lmdb":
        assert oneread("erase", "--proof", "Ada").out == "nothing is left\n"


def test_holders_that_cannot_follow_are_code_1(bare, new_url):
    url = new_url()
    where = ("--schema", "tests.unit.database.test_erasing:STRICT", "--db", url)
    with connect(url, erasing.STRICT, workers=0) as db:
        db.save(erasing.person())
        db.save(erasing.Strict(number=1, buyer=erasing.Buyer.of(7)))
    ran = bare("erase", "Customer", "7", "--yes", *where)
    assert ran.code == 1
    assert ran.out.startswith("Customer(7): 1 holder could not follow")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name the entity"),
        (("Person",), "name the entity"),
        (("Person", "1", "--receipts"), "--receipts lists all"),
        (("Person", "1", "--proof", "Ada"), "--proof stands alone"),
        (("--proof", "a"), "at least 3"),
        (("--in", "x"), "--proof stands alone"),
        (("Person", "1"), "give --yes as well"),
        (("Persons", "1", "--yes"), "Persons"),
        (("Person", "1", "2", "--yes"), "key"),
    ],
    ids=[
        "nothing",
        "no key",
        "receipts of one",
        "a proof of one",
        "a short text",
        "a file without a text",
        "without a terminal",
        "an unknown model",
        "a key of other parts",
    ],
)
def test_what_is_wrong_use(oneread, arguments, said):
    ran = oneread("erase", *arguments)
    assert ran.code == 2
    assert said in ran.err
