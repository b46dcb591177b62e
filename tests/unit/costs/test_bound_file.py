"""The bound file: written whole, read strictly, and a test of the user's own fails when a bound rises."""

import json

import msgspec
import pytest

from oneread import Index, Schema, by
from oneread.costs import bound_file, declared, journal_prices
from oneread.costs.bound_file import BoundFile, BoundRisen, check_bounds, compare, read, text_of, write
from oneread.errors import Unsupported, UsageError
from tests.unit.database.shop import SCHEMA, SHOP, Purchase


class PurchasesOfRemark(Index[Purchase]):
    remark: str = by(Purchase.remark)


MORE = Schema(*SHOP, PurchasesOfRemark)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "bounds.json"
    write(SCHEMA, path)
    return path


def test_what_is_written_holds(path):
    found = check_bounds(SCHEMA, path)
    assert found.holds
    assert str(found) == "every bound is as the file says"
    assert [each.name for each in path.parent.iterdir()] == ["bounds.json"]


def test_the_file_is_json_with_sorted_keys_and_a_line_for_each_bound(path):
    text = path.read_text()
    document = json.loads(text)
    assert list(document["bounds"]) == sorted(document["bounds"])
    assert document["bounds"]["Purchase"]["create"]["rows"] == 21
    assert '      "create": {"requests": 6, "rows": 21, "bytes": ' in text
    assert text == text_of(Schema(*reversed(SHOP)))
    assert text.endswith("}\n")


def test_a_bound_that_rises_fails_with_what_caused_it(path):
    with pytest.raises(BoundRisen) as failure:
        check_bounds(MORE, path)
    text = str(failure.value)
    assert "create Purchase: rows 21 -> 22" in text
    assert "1 index rows (PurchasesOfRemark)" in text
    assert "page(limit=50) PurchasesOfRemark: not in the file" in text
    assert "--write" in text
    assert isinstance(failure.value, AssertionError)


def test_the_file_has_the_bounds_on_one_row_as_well(path):
    document = json.loads(path.read_text())
    assert document["row"]["Purchase"]["create"]["requests"] > document["bounds"]["Purchase"]["create"]["requests"]
    assert "create Purchase on one row: rows" in str(compare(MORE, read(path)))
    assert not compare(MORE, msgspec.structs.replace(read(path), bounds=read_again(MORE).bounds)).holds


def read_again(schema):
    return msgspec.json.decode(text_of(schema), type=BoundFile)


def test_what_stores_of_one_row_do_not_keep_has_no_bound_there(path, monkeypatch):
    def refuse(_catalog):
        raise Unsupported("not kept there", declaration=Purchase)

    monkeypatch.setattr(journal_prices, "refuse_unsupported", refuse)
    assert "row" not in json.loads(text_of(SCHEMA))
    with pytest.raises(Unsupported):
        declared.of(SCHEMA, span="row")
    assert "create Purchase on one row: in the file, but not declared" in str(compare(SCHEMA, read(path)))


def test_a_bound_that_falls_is_said_and_does_not_fail(path):
    write(MORE, path)
    found = check_bounds(SCHEMA, path)
    assert {each.name for each in found.fallen} >= {"create Purchase", "page(limit=50) PurchasesOfRemark"}
    assert "in the file, but not declared" in str(found)
    assert "create Purchase: rows 22 -> 21" in str(found)


def test_a_new_verb_alone_does_not_pass(path):
    assert compare(MORE, read(path)).unknown
    assert not compare(MORE, read(path)).holds


TORN = {
    "empty": b"",
    "cut": b'{"format": 1, "bounds": {"Purch',
    "another shape": b'{"format": 1, "bounds": []}',
    "no number": b'{"format": 1, "bounds": {"A": {"get": {"requests": "1", "rows": 1, "bytes": 1}}}}',
    "not text": b"\xff\xfe\x00",
    "of another release": b'{"format": 2, "bounds": {}}',
}


@pytest.mark.parametrize("what", TORN)
def test_a_file_that_is_none_is_refused(path, what):
    path.write_bytes(TORN[what])
    with pytest.raises(UsageError, match="path="):
        check_bounds(SCHEMA, path)


def test_no_file_says_how_to_write_one(tmp_path):
    with pytest.raises(UsageError, match="oneread cost"):
        check_bounds(SCHEMA, tmp_path / "none.json")
    with pytest.raises(UsageError):
        read(tmp_path)


def test_a_disk_that_refuses_leaves_the_old_file(path, monkeypatch):
    before = path.read_text()
    monkeypatch.setattr(bound_file, "text_of", lambda _schema: "\ud800")
    with pytest.raises(UnicodeEncodeError):
        write(MORE, path)
    assert path.read_text() == before
    assert [each.name for each in path.parent.iterdir()] == ["bounds.json"]
