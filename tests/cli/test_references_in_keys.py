"""Keys that refer on the command line: their parts are words, the columns of files name them, and a dump is loaded."""

import pytest

from oneread import connect
from oneread.models.model import key_of
from tests.unit.database.test_references_in_keys import SCHEMA, Membership, Notice, Stay, fill


@pytest.fixture
def run(bare, new_url):
    """Runs a command on a store; without another URL always on the same one, which is filled."""
    first = new_url()
    with connect(first, SCHEMA, workers=0) as db:
        fill(db)
    named = f"{fill.__module__}:SCHEMA"
    return lambda verb, *given, db=first: bare(verb, "--schema", named, "--db", db, *given)


def keys(url, model):
    with connect(url, SCHEMA, workers=0) as db:
        assert db.verify().clean
        return [key_of(each) for each in db.page(model).rows]


def test_the_parts_of_a_key_are_words(run):
    assert "role     chair" in run("get", "Membership", "chess", "1").out
    assert "parts=['group', 'member']" in run("get", "Membership", "chess").err
    assert "nights  1" in run("get", "Stay", "is", "LOUD", "1").out
    assert run("page", "Membership", "go").out.count("guest") == 2
    assert "Membership" in run("places", "Member", "1").out


def test_a_dump_is_loaded_and_so_are_columns(run, new_url, tmp_path):
    other, dump, stays, notices = new_url(), tmp_path / "d.jsonl", tmp_path / "s.csv", tmp_path / "n.csv"
    assert run("dump", "--out", dump, "--quiet").code == 0
    assert run("load", "--make", "--quiet", dump, db=other).code == 0
    assert keys(other, Membership) == [("chess", 1), ("go", 1), ("go", 2)]
    assert run("dump", "Stay", "--format", "csv", "--out", stays, "--quiet").code == 0
    stays.write_text(stays.read_text().replace("is,loud,1,1", "no,low,2,4"))
    assert run("load", "--model", "Stay", "--quiet", stays, db=other).code == 0
    assert [(place[0], place[2]) for place in keys(other, Stay)] == [("is", 1), ("no", 2)]
    notices.write_text("membership.group,membership.member,number,text\nchess,1,3,hi\nchess,2,3,no\n")
    refused = tmp_path / "refused"
    assert run("load", "--model", "Notice", "--rejects", refused, "--quiet", notices, db=other).code == 1
    assert keys(other, Notice) == [("chess", 1, 3)]
    assert b"an entity that does not exist" in refused.read_bytes()
