"""`privacy`: places of personal fields for people and as JSON, without a store."""

import json
from typing import Annotated

import pytest

from oneread import Index, Key, Model, Personal, Schema, by, shown


class Reader(Model[int]):
    number: Key[int]
    name: Annotated[str, Personal()]
    town: str = ""


class ReadersByTown(Index[Reader]):
    town: str = by(Reader.town)
    name: str = shown(Reader.name)


class Unread(Model[int]):
    number: Key[int]


READERS = Schema(Reader, ReadersByTown)
PLAIN = Schema(Unread)
SCHEMA = ("--schema", "tests.cli.test_privacy:READERS")


def test_a_person_sees_a_line_for_each_place(bare):
    said = bare("privacy", *SCHEMA).out
    assert "Reader.name     field  Reader.name" in said
    assert "Reader.name     row    ReadersByTown.name  views" in said
    assert "a cache for reads has rows of entities" in said
    assert "Reader.town" not in said


def test_a_program_sees_json(bare):
    found = json.loads(bare("privacy", "--json", *SCHEMA).out)
    assert {(each["kind"], each["place"], each["table"]) for each in found} == {
        ("field", "Reader.name", "roots"),
        ("row", "ReadersByTown.name", "views"),
    }


@pytest.mark.parametrize(
    ("field", "lines"), [("Reader.name", 2), ("Reader.town", 0)], ids=["a personal field", "another field"]
)
def test_one_field(bare, field, lines):
    assert len(json.loads(bare("privacy", "--json", "--field", field, *SCHEMA).out)) == lines


def test_a_schema_without_personal_fields_says_how_to_declare_one(bare):
    assert "Annotated[str, Personal()]" in bare("privacy", "--schema", "tests.cli.test_privacy:PLAIN").out
