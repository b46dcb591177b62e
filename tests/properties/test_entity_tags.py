"""A tag stands for what is shown: over any history, another JSON has another tag, and what did not change keeps its."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

from examples.shop.schema import SHOP
from oneread import to_json
from oneread.models.model import Model
from oneread.testing import strategies
from oneread.testing.proof import Proof
from oneread.web import etag
from tests.properties.forum import FORUM

SOME = settings(max_examples=settings().max_examples // 8, deadline=None)
SCHEMAS = {"shop": SHOP, "forum": FORUM}


def shown(db, schema):
    """Everything that a client can read: each page with its cursors, each entity and row, by what was asked."""
    for each in (*schema.models, *schema.views):
        cursor, number = None, 0
        while number == 0 or cursor is not None:
            page = db.page(each, limit=3, cursor=cursor)
            yield (each, number), page
            yield from (((each, "row", number, place), row) for place, row in enumerate(page.rows))
            cursor, number = page.next, number + 1


def version(db, result):
    return db.version(result) if isinstance(result, Model) else 0


class Client:
    """Remembers each answer by its tag, and each tag by its answer, as caches between client and server do."""

    def __init__(self):
        self.bodies = {}
        self.tags = {}

    def read(self, proof, schema):
        db = proof.database
        for asked, result in shown(db, schema):
            tag, body = etag(result), to_json(result)
            assert self.bodies.setdefault((asked, tag), body) == body, f"{asked}: another JSON under the same tag"
            key = asked, version(db, result), body
            assert self.tags.setdefault(key, tag) == tag, f"{asked}: another tag of the same JSON"


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_tags_are_equal_exactly_where_the_json_and_the_version_are(schema):
    @SOME
    @given(strategies.histories(schema))
    def holds(history):
        client = Client()
        with Proof(schema) as proof:
            for step in history:
                proof.do(step)
                client.read(proof, schema)

    holds()


HASHED = """
import dataclasses
from oneread import Copy, Index, Key, Model, Ref, Schema, by, connect, shown, to_json
from oneread.testing.clock import Clock
from oneread.web import etag

class Tag(Model[str]):
    name: Key[str]
    words: frozenset[str] = frozenset()

class Words(Copy[Tag]):
    words: frozenset[str]

@dataclasses.dataclass
class Deep:
    words: set[str]

class Note(Model[int]):
    number: Key[int]
    tag: Words
    names: set[str]
    inside: dict[str, frozenset[str]]
    deep: list[Deep]
    either: set[str | int] | None = None

class NotesOfTag(Index[Note]):
    tag: Words = by(Note.tag)
    names: set[str] = shown(Note.names)
    whole: dict[str, frozenset[str]] = shown(Note.inside)

words = [f"word {number}" for number in range(20)]
with connect("memory://", Schema(Tag, Note, NotesOfTag), clock=Clock(), cursor_secret=b"x" * 32) as db:
    db.save(Tag(name="a", words=frozenset(words)))
    for number in range(2):
        saved = db.save(
            Note(number=number, tag=Words.of("a"), names=set(words), inside={"b": frozenset(words), "a": frozenset()},
                 deep=[Deep(set(words))], either={*words, 1, 2})
        )
    found = [saved, db.get(Note, 1), db.get(Tag, "a"), db.page(Note, limit=1), db.page(NotesOfTag), {"s": set(words)}]
    assert etag(saved) == etag(found[1]), (to_json(saved), to_json(found[1]))
    print(*[f"{etag(each)} {to_json(each)}" for each in found], sep="\\n")
"""


def test_two_processes_make_the_same_tags_of_sets():
    found = [
        subprocess.run(
            [sys.executable, "-c", HASHED],
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
        for seed in ("1", "2")
    ]
    assert [each.stderr for each in found] == ["", ""]
    one, other = (each.stdout.splitlines() for each in found)
    assert len(one) == 6
    assert one == other
