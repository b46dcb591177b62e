"""A dump of one kind of store that is loaded into another kind means the same, over hostile text and values."""

import itertools
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from oneread import Copy, Key, Model, Schema, connect
from oneread.cli.program import app
from oneread.errors import InvalidKey

NAMES = itertools.count()
TEXT = st.text(
    st.sampled_from("a,;\"'=+-@ \t\r\n\\[{0\x00\x1b\x7f\x85\x9b\u2028\u202e\ufeff\uff1d\U0001f600")
    | st.characters(codec="utf-8"),
    max_size=6,
)


class Shelf(Model[str, int]):
    room: Key[str]
    number: Key[int]
    label: str = ""


class OnShelf(Copy[Shelf]):
    label: str


class Book(Model[str]):
    title: Key[str]
    shelf: OnShelf | None = None
    note: str | None = None
    words: list[str] = []  # noqa: RUF012 - a struct copies it
    ratio: float | None = None
    price: Decimal | None = None
    when: datetime | None = None
    sure: bool = False
    large: int = 0


FILES = Schema(Shelf, Book)
SHELVES = st.builds(Shelf, room=TEXT, number=st.integers(-(2**63), 2**63 - 1), label=TEXT)
BOOKS = st.fixed_dictionaries(
    {
        "title": TEXT,
        "note": st.none() | TEXT,
        "words": st.lists(TEXT, max_size=3),
        "ratio": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "price": st.none() | st.decimals(allow_nan=False, allow_infinity=False, places=3),
        "when": st.none() | st.datetimes(min_value=datetime(1, 1, 2), timezones=st.just(UTC)),
        "sure": st.booleans(),
        "large": st.integers(-(2**130), 2**130),
    }
)
KINDS = ("memory://{name}", "lmdb://{folder}/{name}?durability=none", "memory://{name}?span=row")


def load(url, path, *more):
    words = ["load", str(path), "--schema", f"{__name__}:FILES", "--db", url, "--make", *more]
    ran = CliRunner().invoke(app, words, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output


def dump(db, path, model=None):
    with path.open("wb") as file:
        if model is None:
            db.dump(file.write)
        else:
            db.dump_csv(file.write, model)
    return path


def shown(db):
    return list(db.page(Shelf, limit=100)), list(db.page(Book, limit=100))


@pytest.mark.parametrize(("one", "other"), [*zip(KINDS, KINDS[1:] + KINDS[:1], strict=True)])
@given(shelf=SHELVES, books=st.lists(BOOKS, max_size=4))
@settings(max_examples=max(5, settings().max_examples // 20), deadline=None)
def test_a_dump_means_the_same_in_a_store_of_another_kind(one, other, shelf, books):
    with TemporaryDirectory() as made:
        folder, name = Path(made), f"files-{next(NAMES)}"
        urls = [kind.format(folder=folder, name=f"{name}-{place}") for place, kind in enumerate((one, other, other))]
        with connect(urls[0], FILES, workers=0) as db:
            db.save(shelf)
            for place, book in enumerate(books):
                try:
                    db.save(Book(**book, shelf=OnShelf.of(shelf.room, shelf.number) if place % 2 else None))
                except InvalidKey:  # too long
                    continue
            found, lines = shown(db), dump(db, folder / "all.jsonl")
            tables = [(dump(db, folder / f"{model.__name__}.csv", model), model) for model in (Shelf, Book)]
        load(urls[1], lines)
        for table, model in tables:
            load(urls[2], table, "--model", model.__name__)
        for url in urls[1:]:
            with connect(url, FILES, workers=0) as db:
                assert shown(db) == found
                assert dump(db, folder / "again.jsonl").read_bytes() == lines.read_bytes() or url != urls[1]
                assert db.verify().clean


@pytest.mark.parametrize("other", KINDS)
def test_the_largest_entity_is_loaded(tmp_path, other):
    """Six bytes of JSON for each of text."""
    urls = [kind.format(folder=tmp_path, name=f"long-{next(NAMES)}") for kind in (KINDS[0], other)]
    with connect(urls[0], FILES, workers=0) as db:
        db.save(Book(title="long", note="\x00" * 999_900))
        lines = dump(db, tmp_path / "all.jsonl")
    load(urls[1], lines)
    with connect(urls[1], FILES, workers=0) as db:
        assert db.get(Book, "long").note == "\x00" * 999_900
