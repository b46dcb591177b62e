"""What a page did not show cannot be read in its cursors, with a secret and without; and paging continues behind it."""

import base64
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from oneread import Aggregate, Index, Key, Model, Schema, any_of, ascending, by, connect, count, field, shown, to_json
from oneread.errors import Corrupt, InvalidCursor

ROOT = Path(__file__).parents[2]
PLAIN = 5
HIDDEN = 250


class Post(Model[str]):
    slug: Key[str]
    group: str
    hidden: bool
    title: str


class ByGroup(Index[Post]):
    group: str = by(Post.group)
    title: str = ascending(Post.title)
    hidden: bool = shown(Post.hidden)


class PerTitle(Aggregate[Post]):
    title: str = by(Post.title)
    posts: int = count()


SCHEMA = Schema(Post, ByGroup, PerTitle)
SEEN = field(ByGroup.hidden) == False  # noqa: E712 - a condition
PAGES = {
    "index": lambda db, **more: db.page(ByGroup, "g", where=SEEN, limit=10, **more),
    "any_of": lambda db, **more: db.page(ByGroup, any_of("g", "h"), where=SEEN, limit=10, **more),
    "entities": lambda db, **more: db.page(Post, where=field(Post.hidden) == False, limit=10, **more),  # noqa: E712
    "groups": lambda db, **more: db.page(PerTitle, where=field(PerTitle.posts) > 1, limit=10, **more),
}


def fill(db):
    for group in "gh":
        db.save_all([Post(slug=f"p{group}{n}", group=group, hidden=False, title=f"a{n}") for n in range(PLAIN)])
        db.save_all(
            [
                Post(slug=f"SECRET{group}{n:03}", group=group, hidden=True, title=f"bSECRET{group}{n:03}")
                for n in range(HIDDEN)
            ]
        )
        db.save(Post(slug=f"z{group}", group=group, hidden=False, title="last"))


@pytest.fixture(params=[None, b"of this application"], ids=["no secret", "a secret"])
def secret(request):
    return request.param


@pytest.fixture
def db(secret, tmp_path):
    with connect(f"lmdb://{tmp_path}/store?durability=none", SCHEMA, cursor_secret=secret, workers=0) as opened:
        fill(opened)
        yield opened


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_paging_skips_hidden_rows_and_shows_nothing_of_them(db, page, backward):
    shown_rows, cursor, steps = [], None, 0
    while True:
        found = page(db, backward=backward) if cursor is None else page(db, cursor=cursor)
        steps += found.truncated
        shown_rows += found.rows
        for text in filter(None, (found.next, found.previous)):
            assert b"SECRET" not in decoded(text)
            assert b"SECRE" not in text.encode()
        assert b"SECRET" not in to_json(found)
        assert "SECRET" not in repr(found)
        cursor = found.previous if backward else found.next
        if cursor is None:
            break
    assert steps >= 2
    assert all("SECRET" not in repr(row) for row in shown_rows)
    assert (
        len(shown_rows) == {"ByGroup": 6, "Post": 12, "PerTitle": 6}[type(shown_rows[0]).__name__]
        or len(shown_rows) == 12
    )


def test_cursors_of_one_place_are_one_text(db):
    first, again = (PAGES["index"](db).next for _ in range(2))
    assert first == again


def test_the_length_of_a_hidden_key_is_seen_in_steps_only(secret):
    sizes = set()
    for length in range(1, 30):
        with connect("memory://", SCHEMA, cursor_secret=secret) as db:
            db.save_all([Post(slug=f"{n}", group="g", hidden=True, title="t" * length) for n in range(12)])
            sizes.add(len(db.page(ByGroup, "g", where=SEEN, limit=1, budget=5).next))
    assert len(sizes) <= 2


CONTINUE = """
import sys
from oneread import connect
from tests.failures.test_hidden_rows import PAGES, SCHEMA
with connect(sys.argv[1], SCHEMA, workers=0) as db:
    print([row.title for row in PAGES["index"](db, cursor=sys.argv[2])], PAGES["index"](db).next == sys.argv[2])
"""


@pytest.mark.parametrize("options", ["", "?read_only=true"])
def test_a_cursor_without_a_secret_outlives_the_process(tmp_path, options):
    url = f"lmdb://{tmp_path}/store"
    with connect(url, SCHEMA, workers=0) as db:
        fill(db)
        cursor = PAGES["index"](db).next
    command = [sys.executable, "-c", CONTINUE, url + options, cursor]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout == "[] True\n", ran.stderr
    with connect(url, SCHEMA, workers=0) as db:
        db.backup(f"{tmp_path}/copy")
        with pytest.raises(InvalidCursor):
            connect("memory://", SCHEMA).page(ByGroup, "g", where=SEEN, limit=10, cursor=cursor)
    with connect(f"lmdb://{tmp_path}/copy", SCHEMA, workers=0) as db:
        assert PAGES["index"](db).next == cursor


def test_a_store_without_its_key_is_corrupt(tmp_path):
    connect(f"lmdb://{tmp_path}/store", SCHEMA, workers=0).close()
    environment = lmdb.open(f"{tmp_path}/store", max_dbs=10, map_size=1 << 30)
    with environment.begin(write=True) as transaction:
        assert transaction.pop(b"cursor key", db=environment.open_db(b"oneread", transaction)) is not None
    environment.close()
    for options in ("?read_only=true", ""):
        with pytest.raises(Corrupt, match="key for cursors"):
            connect(f"lmdb://{tmp_path}/store{options}", SCHEMA, workers=0)
