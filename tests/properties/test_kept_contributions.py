"""A change that keeps contributions of the record before makes what emitting everything makes, to the byte."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, connect, count, greatest, newest, shown, within
from oneread.derivations import changes
from oneread.derivations.emitted_record import encode_record
from oneread.derivations.entity_type import EntityType
from oneread.derivations.plain_commits import PlainTypes
from oneread.testing.proof import prove
from oneread.testing.strategies import histories
from tests.properties.schema_of_everything import EVERYTHING, Buyer, City, Customer, Purchase

SCHEMA = Schema(*EVERYTHING)


class Author(Model[int]):
    number: Key[int]
    name: str


class Writer(Copy[Author]):
    name: str


class Book(Model[str]):
    title: Key[str]
    writer: Writer
    year: int


class BooksOfName(Index[Book]):
    name: str = by(within(Book.writer, Writer.name))
    year: int = newest(Book.year)


class BooksOfYear(Index[Book]):
    year: int = by(Book.year)
    writer: Writer = shown(Book.writer)


class Work(Aggregate[Book]):
    writer: Writer = by(Book.writer)
    books: int = count()
    last: int | None = greatest(Book.year)


@pytest.fixture(scope="module")
def kept():
    """While it lasts, each entity is filled twice and compared; the tokens that were kept, and of what."""
    found = []
    fill = EntityType.fill

    def compared(self, key, entity, refs, inputs):
        assert refs == self.refs(entity) == {each.name: each.keys(entity) for each in self.references}
        everything = replace(inputs, differing=None, trusts_record=False)
        part, whole = (fill(self, key, entity, refs, each) for each in (inputs, everything))
        assert part.body == whole.body
        assert part.emission.record == whole.emission.record
        assert encode_record(part.emission.record) == encode_record(whole.emission.record)
        for place, value in part.emission.shown.items():
            assert whole.emission.shown[place] == value
        tokens = self._kept_tokens(inputs)
        if inputs.trusts_record:
            tokens = self._recorded_tokens(inputs.before, part.body)
        if tokens:
            found.append((self.cls, tokens))
        return part

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EntityType, "fill", compared)
        patch.setattr(PlainTypes, "holders", lambda *_given: None)  # decides without `fill`, as does the next
        patch.setattr(changes, "reemission", lambda *_given: None)
        yield found


@pytest.mark.usefixtures("kept")
@settings(max_examples=40, deadline=None)
@given(history=histories(SCHEMA))
def test_it_equals_emitting_everything_after_any_history(history):
    prove(SCHEMA, history)


def test_a_rename_and_a_patch_keep_what_does_not_look_there(kept):
    del kept[:]
    at = datetime(2024, 1, 1, tzinfo=UTC)
    with connect("memory://", SCHEMA, workers=0) as db:
        db.save(City(code="P", name="Paris"))
        db.save(Customer(number=1, name="Ada"))
        db.save(Purchase(order="A", line=1, buyer=Buyer.of(1), ordered_at=at, shipped_to=City.at("P"), tags=[]))
        assert not kept
        every = frozenset(db.operations.catalog.entity_types[Purchase].tokens.missing_views({}))
        db.patch(Customer, 1, name="Eve")
        db.patch(Purchase, "A", 1, note="gift")
        assert [cls for cls, _tokens in kept] == [Customer, Purchase, Purchase]
        assert all(0 < len(tokens) < len(every) for cls, tokens in kept if cls is Purchase)
        assert db.verify().clean


def test_a_backfill_keeps_what_the_record_lists(kept, tmp_path):
    url = f"lmdb://{tmp_path / 'books'}"
    with connect(url, Schema(Author, Book, BooksOfName), workers=0) as db:
        db.save(Author(number=1, name="Ada"))
        db.save_all([Book(title=title, writer=Writer.of(1), year=1950) for title in "abc"])
    del kept[:]
    with connect(url, Schema(Author, Book, BooksOfYear, BooksOfName, Work), workers=0) as db:
        assert db.backfill(fence=True).recommitted == 3
        types = db.operations.catalog.entity_types
        of_name = types[Book].derivations[1]
        assert of_name.cls is BooksOfName
        assert kept == [(Book, frozenset(of_name.tokens))] * 3
        assert [each.books for each in db.page(Work)] == [3]
        assert db.verify().clean
