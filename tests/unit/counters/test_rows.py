"""Rows of counters: the bytes that docs/formats/rows.md says, and what verify finds in damaged ones."""

import pytest

from oneread import connect
from oneread.counters import rows
from oneread.counters.rows import (
    ALL,
    CHANCES,
    GENERATIONS_ROW,
    GREATEST,
    KINDS,
    MARKS,
    SETTINGS,
    SHARDS,
    TOKENS,
    WINDOWS,
)
from oneread.counters.wanted import check_token
from oneread.errors import Corrupt
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import Cell, RowMutation
from oneread.transactions.deltas import encode_amounts
from tests.unit.counters.handles import SCHEMA

NOW = 1_700_000_000_000


def stored(db):
    found = db.run(Scan("counts", ALL, 1000).__iter__())
    return {key.hex(): {column: cell.value.hex() for column, cell in row.items()} for key, row in found}


def test_the_bytes_of_every_row(url):
    start = (NOW // 3_600_000 * 3600).to_bytes(6, "big").hex()
    token = check_token("x").hex()
    with connect(url, SCHEMA, clock=lambda: NOW) as db:
        votes = db.counter("ab", shards=1, keep={"hour": 48})
        votes.add(5, once="x")
        votes.add(-(2**63))
        assert stored(db) == {
            "fffe0000": {b"d:b": "930000cb40ac200000000000"},
            "fffe0001" + "03616200": {b"d:b": "94000181a4686f757230c2"},
            "fffe0002" + "03616200" + "00": {b"d:b": "9205c70901008000000000000000"},
            "fffe0003" + "03616200" + "68" + start: {b"d:b": "9205c70901008000000000000000"},
            "fffe0004" + "00000000" + "03616200" + token: {b"d:b": "31"},
        }


def test_the_bytes_of_a_cache_first_counter(url):
    with connect(url, SCHEMA, clock=lambda: NOW, cache="memory://") as db:
        db.cache_counter("ab", shards=1, chance_to_write=0.5).add(5)
        assert stored(db) == {
            "fffe0006" + "03616200": {b"d:b": "cb3fe0000000000000"},
            "fffe0007" + "03616200" + "00": {b"d:b": "9105"},
        }


@pytest.mark.parametrize("raised", [0, 2**63 - 1, 2**63, 2**64, 2**200])
def test_sums_of_any_size_are_read_as_they_were_written(raised):
    for sums in (rows.Sums(raised, 7), rows.Sums(7, raised)):
        assert rows.sums_of({rows.VALUE: Cell(rows.encode_sums(sums), NOW)}) == sums
        assert rows.encode_sums(sums) == encode_amounts(sums)


@pytest.mark.parametrize("amounts", [[], [1], [1, 2, 3], [-1, 2], [1, -(2**70)], [2**70, -1]])
def test_other_numbers_are_refused(amounts):
    with pytest.raises(Corrupt):
        rows.sums_of({rows.VALUE: Cell(encode_amounts(amounts), NOW)})


def replace(db, changes):
    db._driver.engine.answer(Mutate("counts", [RowMutation(key, row) for key, row in changes.items()]))


DAMAGES = [
    (GENERATIONS_ROW, b"\x93\x05\x00\xcb@\xac \x00\x00\x00\x00\x00"),
    (GENERATIONS_ROW + b"x", b"\x93\x00\x00\x01"),
    (SETTINGS + b"\x03ab\x00", b"\x93\x00\x00\x80"),
    (SETTINGS + b"\x03ab\x00", b"nonsense"),
    (SETTINGS + b"\x03ab", b"\x93\x00\x01\x80"),
    (SHARDS + b"\x03ab\x00", b"\x92\x01\x00"),
    (SHARDS + b"\x03ab\x00\x00", b"\x92\x01\xff"),
    (SHARDS + b"\x03ab\x00\x00", b"\x91\x01"),
    (SHARDS + b"\x03ab\x00\x00", b"\x92\x01\xa12"),
    (WINDOWS + b"\x03ab\x00h\x00\x00\x00\x00\x00\x01", b"\x92\x01\x00"),
    (WINDOWS + b"\x03ab\x00w\x00\x00\x00\x00\x00\x00", b"\x92\x01\x00"),
    (TOKENS + b"\x00\x00\x00\x00\x03ab\x00short", b"1"),
    (SETTINGS + b"\x03ab\x00", b"\x94\x00\x00\x80\xc2"),
    (MARKS + b"\x03ab\x00", b"soon"),
    (MARKS + b"\x03ab", b"\x01"),
    (CHANCES + b"\x03ab\x00", b"\xcb\x00\x00\x00\x00\x00\x00\x00\x00"),
    (CHANCES + b"\x03ab\x00", b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"),
    (CHANCES + b"\x03ab\x00", b"nonsense"),
    (CHANCES + b"\x03ab", b"\xcb?\xe0\x00\x00\x00\x00\x00\x00"),
    (GREATEST + b"\x03ab\x00", b"\x91\x01"),
    (GREATEST + b"\x03ab\x00\x00", b"\x91\xff"),
    (GREATEST + b"\x03ab\x00\x00", b"\x91\xcf\x80\x00\x00\x00\x00\x00\x00\x00"),
    (GREATEST + b"\x03ab\x00\x00", b"\x92\x01\x00"),
    (GREATEST + b"\x03ab\x00\x00", b"\x91\xa12"),
    (rows.view_prefix(0xFFFE, 8) + b"later", b"1"),
]


@pytest.mark.parametrize(("key", "value"), DAMAGES, ids=[f"{key.hex()}-{value.hex()}" for key, value in DAMAGES])
def test_damaged_rows_are_found_named_and_left(url, key, value):
    with connect(url, SCHEMA) as db:
        db.counter("votes", keep={"day": 3}).add(7, once="x")
        assert db.verify().clean
        replace(db, {key: {b"d:b": Cell(value, 1 << 50)}})
        found = db.verify()
        assert {each.table for each in found.faults} == {"counts"}
        assert "counter" in {each.view for each in found.faults}
        before = stored(db)
        db.repair()
        assert stored(db) == before
        assert db.counter("votes").read() == 7


def test_a_damaged_counter_is_refused_not_guessed(url):
    with connect(url, SCHEMA) as db:
        votes = db.counter("votes", shards=1)
        votes.add(7)
        replace(db, {rows.shard_key(rows.name_key("votes"), 0): {b"d:b": Cell(b"\x92\xff\x00", 1 << 50)}})
        for call in (votes.read, votes.add, votes.shards, lambda: votes.read(max_age=60)):
            with pytest.raises(Corrupt):
                call()


def test_every_kind_of_row_has_a_name():
    assert set(KINDS) == rows.PREFIXES
