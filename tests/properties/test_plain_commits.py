"""What is decided about a plain entity is, to the byte, what the change decides that has the meaning.

While a history runs, each plain decision is compared with that of `FollowSource` or `Reemit` on the same rows.
"""

import pytest
from hypothesis import given, settings

from examples.shop.schema import SHOP
from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, connect, count, greatest, newest, shown
from oneread.derivations import changes, plain_commits
from oneread.derivations.changes import Reemit
from oneread.derivations.following_changes import FollowSource
from oneread.derivations.plain_commits import PlainHolders, PlainTypes
from oneread.engines.memory import MemoryEngine
from oneread.errors import InvalidValue
from oneread.testing import strategies
from oneread.testing.proof import Proof
from oneread.transactions.commit import NO_CHANGE
from tests.properties.forum import FORUM
from tests.properties.schema_of_everything import EVERYTHING
from tests.properties.test_one_row_backfill import built
from tests.unit.derivations.twin import decide_in_python


class Author(Model[int]):
    number: Key[int]
    name: str


class Writer(Copy[Author]):
    name: str


class Editor(Copy[Author]):
    on_delete = "clear"
    name: str


class Book(Model[str]):
    title: Key[str]
    writer: Writer
    editor: Editor | None = None
    year: int = 1950


class BooksOfEditor(Index[Book]):
    editor: Editor = by(Book.editor)
    year: int = newest(Book.year)
    writer: Writer = shown(Book.writer)


class BooksOfYear(Index[Book]):
    year: int = by(Book.year)
    writer: Writer = shown(Book.writer)


class BooksOfTitle(Index[Book]):
    title: str = by(Book.title)
    year: int = shown(Book.year)


class Work(Aggregate[Book]):
    writer: Writer = by(Book.writer)
    books: int = count()
    last: int | None = greatest(Book.year)


OLDER = Schema(Author, Book, BooksOfEditor, BooksOfTitle)
LIBRARY = Schema(Author, Book, BooksOfEditor, BooksOfYear, BooksOfTitle, Work)
SCHEMAS = {"library": LIBRARY, "shop": SHOP, "forum": FORUM, "everything": Schema(*EVERYTHING)}
SOME = settings(max_examples=max(5, settings().max_examples // 4), deadline=None)


def told(decision):
    """A decision as data; the order in which rows are put and deleted does not matter."""
    if decision.root is None:
        return None
    writes = decision.operations
    deltas = [(key, list(amounts), sign) for key, amounts, sign in writes.deltas]
    parts = writes.puts, sorted(writes.deletes), deltas, writes.released, writes.claimed
    return decision.root, parts, decision.fans_out, decision.unreferenced, decision.groups


@pytest.fixture(scope="module")
def plain():
    """While it lasts, plain decisions are compared; the names of what was decided plainly."""
    found = []
    holders, reemission = PlainTypes.holders, plain_commits.reemission

    def made(self, source, rows):
        decider = holders(self, source, rows)
        if decider is not None:
            decider.compared = self.catalog, rows
        return decider

    decide = PlainHolders.decide

    def compared(self, key, seen, version):
        decision = decide(self, key, seen, version)
        if decision is not None:
            catalog, rows = self.compared
            meant = FollowSource(catalog, self._key, key).decide(seen, version, rows)
            assert told(decision) == told(meant)
            found.append(("follow", decision is not NO_CHANGE))
        return decision

    def reemitted(entity_type, key, attempt, refs, sources):
        decision = reemission(entity_type, key, attempt, refs, sources)
        if decision is not None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(changes, "reemission", lambda *_given: None)
                change = Reemit(sources.catalog, key)
                meant = change.decide(attempt.seen, attempt.version, sources.rows)
            assert told(decision) == told(meant)
            found.append(("reemit", decision is not NO_CHANGE))
        return decision

    with pytest.MonkeyPatch.context() as patch:
        decide_in_python(patch)
        patch.setattr(PlainTypes, "holders", made)
        patch.setattr(PlainHolders, "decide", compared)
        patch.setattr(changes, "reemission", reemitted)
        yield found


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("plain")
def test_a_plain_holder_follows_as_its_change_says(name):
    @SOME
    @given(strategies.histories(SCHEMAS[name]))
    def holds(history):
        with Proof(SCHEMAS[name]) as proof:
            for step in history:
                proof.do(step)
            proof.look()

    holds()


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("plain")
def test_a_plain_entity_joins_a_view_as_its_change_says():
    @SOME
    @given(strategies.histories(OLDER))
    def holds(history):
        engine = MemoryEngine()
        built([step for step in history if getattr(step, "writes", False)], engine, OLDER, LIBRARY)

    holds()


def test_holders_and_rows_of_a_backfill_are_plain(plain, tmp_path):
    url = f"lmdb://{tmp_path / 'books'}"
    with connect(url, OLDER, workers=0) as db:
        db.save_all([Author(number=1, name="Ada"), Author(number=2, name="Eve")])
        db.save_all([Book(title=title, writer=Writer.of(1), editor=Editor.of(2)) for title in "abc"])
        del plain[:]
        db.patch(Author, 2, name="Evelyn")
        assert plain == [("follow", True)] * 3
        assert db.verify().clean
    with connect(url, LIBRARY, workers=0) as db:
        del plain[:]
        db.patch(Author, 1, name="Ida")  # the records lack views
        assert plain == []
        assert db.backfill(fence=True).recommitted == 3
        assert plain == [("reemit", True)] * 3
        del plain[:]
        db.patch(Author, 1, name="Ada")
        assert plain == [("follow", True)] * 3
        db.delete(Author, 2)  # holders of a deleted source are for their changes
        assert plain == [("follow", True)] * 3
        assert db.verify().clean


def test_what_comes_from_outside_is_not_a_holders_error(plain, monkeypatch):
    class Interrupted(Exception):
        """As a handler of a signal raises it."""

    decide, raised = PlainHolders.decide, []

    def interrupted(self, key, seen, version):
        if not raised:
            raised.append(key)
            raise Interrupted
        return decide(self, key, seen, version)

    with connect("memory://", OLDER, workers=0) as db:
        db.save(Author(number=1, name="Ada"))
        db.save_all([Book(title=title, writer=Writer.of(1)) for title in "ab"])
        monkeypatch.setattr(PlainHolders, "decide", interrupted)
        with pytest.raises(Interrupted):
            db.patch(Author, 1, name="Eve")
        assert db.get(Author, 1).name == "Ada"
        del plain[:]
        db.patch(Author, 1, name="Eve")
        assert plain == [("follow", True)] * 2
        assert db.verify().clean


def test_a_holder_that_is_refused_plainly_is_decided_by_its_change(monkeypatch):
    def refuse(*_given):
        raise InvalidValue("no")

    with connect("memory://", OLDER, workers=0) as db:
        db.save(Author(number=1, name="Ada"))
        db.save(Book(title="a", writer=Writer.of(1)))
        monkeypatch.setattr(PlainHolders, "decide", refuse)
        db.patch(Author, 1, name="Eve")
        assert db.get(Book, "a").writer.name == "Eve"
        assert db.verify().clean
