"""A damaged change log stops no write, and never reads as if nothing had changed: readers go on, or begin again."""

from datetime import timedelta

import pytest

from oneread import Index, Key, Model, Schema, by, connect
from oneread.errors import Expired
from oneread.store.rows import Cell
from oneread.testing.clock import Clock
from oneread.transactions.change_log import entries_from, entry_key
from oneread.verify import looks
from tests.unit.verify.hands import STORES, put, rows, url_of


class Post(Model[int]):
    number: Key[int]
    room: int


class PostsOfRoom(Index[Post]):
    watched = timedelta(hours=1)
    room: int = by(Post.room)


class Note(Model[int, int]):
    logged = timedelta(hours=1)
    room: Key[int]
    number: Key[int]


class Site:
    """Three posts in a watched view, or three logged notes, and a cursor behind the second."""

    def __init__(self, url, followed):
        self.followed = followed
        self.made = Note if followed is Note else Post
        self.clock = Clock()
        schema = Schema(Note) if followed is Note else Schema(Post, PostsOfRoom)
        self.db = connect(url, schema, workers=0, clock=self.clock, timeout=5)
        self.save(1, 2)
        self.cursor = self.db.changes_cursor(followed)
        self.save(3)
        (self.log,) = self.db.operations.catalog.logs.values()

    def save(self, *numbers):
        for number in numbers:
            self.db.save(self.made(number=number, room=1))

    def damage(self, key, value):
        """Another value, None for no row; another program finds it so."""
        put(self.db, "system", key, None if value is None else {b"d:b": Cell(value, 3)})
        self.db.operations.logs.clear()
        if not self.db.operations.spans_rows:
            self.db.operations.committer.journal.logs._last.clear()

    def sweep(self):
        self.clock.tick(7200)
        self.db.sweep()
        assert not rows(self.db, "system", entries_from(self.log, 0).start)

    def changed(self):
        """The posts of the changes behind the cursor."""
        found, cursor = set(), self.cursor
        while True:
            batch = next(self.db.changes(self.followed, 1, cursor=cursor, wait=0))
            found |= {each.source.key[-1] for each in batch}
            cursor = batch.cursor
            if not batch.more:
                return found


@pytest.fixture(params=[PostsOfRoom, Note])
def followed(request):
    return request.param


@pytest.fixture(params=STORES)
def site(request, followed, tmp_path, monkeypatch):
    monkeypatch.setattr(looks, "APART", 0.0)
    site = Site(url_of(request.param, tmp_path), followed)
    yield site
    site.db.close()


@pytest.mark.parametrize("value", [None, b"", b"?", b"\xff" * 9])
def test_a_log_whose_row_is_lost_continues_behind_its_last_entry(site, value):
    site.damage(site.log, value)
    with pytest.raises(Expired):
        site.changed()
    site.save(4)
    assert site.changed() == {3, 4}


@pytest.mark.parametrize("value", [None, b"?"])
def test_what_is_lost_is_named_and_mended(site, value):
    site.damage(site.log, value)
    (fault,) = site.db.verify().faults
    assert (fault.view, fault.kind, fault.key) == ("change log", "unreadable" if value else "missing", site.log)
    assert fault.text.startswith(f"the change log of {site.followed.__name__}: the number of the last entry ")
    repaired = site.db.repair()
    assert (repaired.mended, repaired.clean) == (1, True)
    assert site.changed() == {3}
    site.save(4)
    assert site.changed() == {3, 4}


def test_a_log_without_entries_whose_row_cannot_be_read_begins_where_no_cursor_is(site):
    site.sweep()
    site.damage(site.log, b"?")
    site.save(*range(4, 9))
    with pytest.raises(Expired):
        site.changed()


def test_an_entry_that_cannot_be_read_is_as_one_that_is_not_kept(site):
    key = entry_key(site.log, 3)
    site.damage(key, b"\xff")
    with pytest.raises(Expired):
        site.changed()
    (fault,) = site.db.verify().faults
    assert (fault.view, fault.kind, fault.key) == ("change log", "unreadable", key)
    assert site.db.repair().clean
    with pytest.raises(Expired):
        site.changed()
