"""Merging chunks: the public acceptance cases, what they leave out, and what an answer may never be."""

import json

import pytest
from google.protobuf import text_format

from oneread.engines.bigtable.chunks import ChunkMerger, found_rows
from oneread.engines.bigtable.messages import MESSAGES
from oneread.errors import Corrupt
from oneread.store.rows import Cell
from tests.servers import need
from tools.servers import bigtable

Chunk, Response = MESSAGES["CellChunk"], MESSAGES["ReadRowsResponse"]


def cell(key=b"", column=b"", value=b"", micros=1000, **more):
    """A chunk; one that names a column names its family too."""
    named = {}
    if column:
        family, qualifier = column.decode().split(":")
        named = {"family_name": {"value": family}, "qualifier": {"value": qualifier.encode()}}
    return Chunk(row_key=key, value=value, timestamp_micros=micros, **named, **more)


def merged(*responses, **options):
    merger = ChunkMerger(**options)
    for chunks in responses:
        merger.receive(Response(chunks=chunks))
    merger.end()
    return merger


@pytest.fixture(scope="module")
def cases():
    """The cases of Google's own clients. They are read where the emulator was built, and not copied into this tree."""
    with need("bigtable", bigtable.bigtable_emulator):
        return json.loads((bigtable.place() / bigtable.CASES).read_text())["tests"]


def outcome(case, *, together):
    """The cells that a merger finds in a case, and whether it refuses it; all chunks together or each in a message."""
    merger = ChunkMerger()
    chunks = [text_format.Parse(each, Chunk()) for each in case["chunks"]]
    refused = False
    try:
        for part in [chunks] if together else [[each] for each in chunks]:
            merger.receive(Response(chunks=part))
        merger.end()
    except Corrupt:
        refused = True
    cells = [(key.decode(), *each) for key, cells in merger.rows for each in cells]
    return [(key, family, name.decode(), at, value.decode()) for key, family, name, at, value in cells], refused


@pytest.mark.parametrize("together", [True, False])
def test_the_public_cases(cases, together):
    assert len(cases) == 48
    for case in cases:
        expected = case.get("results") or []
        cells = [
            (each["rk"], each["fm"], each["qual"], each["ts"], each["value"])
            for each in expected
            if not each.get("error")
        ]
        refused = any(each.get("error") for each in expected)
        assert outcome(case, together=together) == (cells, refused), case["name"]


def test_rows_are_found_with_stamps_in_milliseconds():
    merger = merged([cell(b"a", b"d:b", b"1", 5000), cell(column=b"m:e", value=b"2", micros=6000, commit_row=True)])
    assert found_rows(merger) == [(b"a", {b"d:b": Cell(b"1", 5), b"m:e": Cell(b"2", 6)})]
    assert merger.last == b"a"


def test_a_key_that_is_repeated_on_every_chunk_begins_no_row():
    merger = merged([cell(b"a", b"d:b", b"1"), cell(b"a", b"d:v", b"2", commit_row=True)])
    assert [set(row) for _key, row in found_rows(merger)] == [{b"d:b", b"d:v"}]


def test_a_split_cell_is_put_together_across_messages():
    parts = [cell(b"a", b"d:b", b"on", value_size=6), Chunk(value=b"er", value_size=6)]
    merger = merged(parts, [Chunk(value=b"ea"), cell(column=b"d:c", value=b"2", commit_row=True)])
    assert found_rows(merger)[0][1] == {b"d:b": Cell(b"onerea", 1), b"d:c": Cell(b"2", 1)}


def test_a_row_that_was_scanned_and_left_out_moves_the_place_to_resume_at():
    merger = ChunkMerger()
    merger.receive(Response(last_scanned_row_key=b"k"))
    assert (merger.rows, merger.last) == ([], b"k")
    with pytest.raises(Corrupt, match="out of order"):
        merger.receive(Response(chunks=[cell(b"k", b"d:b", b"1", commit_row=True)]))


@pytest.mark.parametrize(("reverse", "keys"), [(False, [b"b", b"a"]), (True, [b"a", b"b"]), (False, [b"a", b"a"])])
def test_rows_out_of_order_are_refused(reverse, keys):
    chunks = [cell(key, b"d:b", b"1", commit_row=True) for key in keys]
    with pytest.raises(Corrupt, match="out of order"):
        merged(chunks, reverse=reverse)
    found = merged(chunks[::-1] if keys[0] != keys[1] else chunks[:1], reverse=reverse)
    assert [key for key, _cells in found.rows] == (keys[::-1] if keys[0] != keys[1] else keys[:1])


def test_a_row_from_before_the_place_to_resume_at_is_refused():
    with pytest.raises(Corrupt, match="out of order"):
        merged([cell(b"a", b"d:b", b"1", commit_row=True)], last=b"a")


@pytest.mark.parametrize(
    ("chunks", "rule"),
    [
        ([cell(column=b"d:b", commit_row=True)], "without a key"),
        ([cell(b"a", b"d:b"), cell(b"b", b"d:b", commit_row=True)], "another row"),
        ([Chunk(row_key=b"a", family_name={"value": "d"}, commit_row=True)], "without a column"),
        ([cell(b"a", b"d:b", b"1", value_size=2, commit_row=True)], "within a cell"),
        ([Chunk(reset_row=True)], "outside of a row"),
        ([cell(b"a", b"d:b"), Chunk(row_key=b"a", reset_row=True)], "reset with data"),
        ([cell(b"a", b"d:b")], "ended within"),
    ],
)
def test_what_breaks_the_protocol_is_refused(chunks, rule):
    with pytest.raises(Corrupt, match=rule):
        merged(chunks)


def test_a_row_within_another_is_never_scanned():
    merger = ChunkMerger()
    with pytest.raises(Corrupt, match="within another"):
        merger.receive(Response(chunks=[cell(b"a", b"d:b")], last_scanned_row_key=b"b"))
