"""A newer site takes the place of an older one: both write at once, while fields and then views are added."""

import multiprocessing
import sys
import types
import warnings
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import msgspec
import pytest

from examples.qa import schema as today
from examples.qa.site import application
from oneread import connect
from oneread.errors import NotReady

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette would rather have a client that is not released widely yet
    from starlette.testclient import TestClient

SPAWN = multiprocessing.get_context("spawn")
STEPS = 80
NOW = datetime(2018, 9, 1, tzinfo=UTC)
FIELDS = [
    ("    title: Annotated", "    closed_because: str | None = None\n    title: Annotated"),
    ("    joined_at: datetime", '    about: str = ""\n    joined_at: datetime'),
]
"""Added, in the middle of a model: an optional field, and one with a default."""
CLOSED = """\
class Closed(Index[Question]):
    closed_because: str = by(Question.closed_because)
    score: int = descending(Question.score)


class QuestionsAsked("""
VIEWS = [("class QuestionsAsked(", CLOSED), ("    Unanswered,\n", "    Unanswered,\n    Closed,\n")]


def newer(changes):
    """The site's schema with these changes, as a module of its own."""
    text = Path(today.__file__).read_text()
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    module = types.ModuleType("newer_schema")
    sys.modules[module.__name__] = module
    exec(compile(text, today.__file__, "exec"), vars(module))
    return module


def write(version, seed, url, posts, ready, results):
    """Votes, comments, edits, renames and deletes as the site of this version does; sends what it set last."""
    site, mine = (today if version == "older" else newer(FIELDS)), Counter()
    chance, titles, more = Random(seed), {}, {}
    first = 1_000_000 * seed
    with connect(url, site.SITE, workers=0) as db:
        ready.wait(60)
        for number in range(first, first + STEPS):
            post = chance.choice(posts)
            match chance.randrange(6):
                case 0 | 1:
                    vote = site.Vote(number=number, post=site.Post.at(post), kind=site.Kind.UP, value=1, cast_at=NOW)
                    db.save(vote)
                    mine[post] += 1
                case 2:
                    text = {"post": site.Post.at(post), "thread": site.Question.at(posts[0]), "text": "Ah."}
                    db.save(site.Comment(number=number, author=site.Author.of(1), written_at=NOW, **text))
                case 3 if version == "older":
                    change = {"title": f"Edited {number}?"}  # a save of the whole, by a program that knows less

                    def edit(t, change=change):
                        t.save(msgspec.structs.replace(t.get(site.Question, posts[0]), **change))

                    db.transact(edit, attempts=200)
                    titles[posts[0]] = change["title"]
                case 3:
                    db.patch(site.Question, posts[0], closed_because=f"reason {number}")
                    more[posts[0]] = f"reason {number}"
                case 4 if version == "older":
                    db.patch(site.User, 1, name=f"user {number}")
                    titles["user"] = f"user {number}"
                case 4:
                    db.patch(site.User, 1, about=f"about {number}")
                    more["user"] = f"about {number}"
                case _:
                    answer = {"author": site.Author.of(1), "text": "-", "posted_at": NOW}
                    db.save(site.Answer(number=number, question=site.Asked.of(posts[0]), **answer))
                    db.delete(site.Post, number)
    results.put((version, (mine, titles, more)))


@pytest.fixture
def written(site, site_copy):
    """The store after both wrote to it at once, and what each did."""
    thread = max(
        site[1].questions, key=lambda each: len([at for at in site[1].threads.values() if at == each.number])
    ).number
    posts = [thread, *(number for number, at in site[1].threads.items() if at == thread != number)]
    with connect(site_copy, today.SITE, workers=0) as db:
        before = {post: db.get(today.Post, post).score for post in posts}
    url = f"{site_copy}?durability=none"
    ready, results = SPAWN.Barrier(2), SPAWN.Queue()
    programs = [
        SPAWN.Process(target=write, args=(version, seed, url, posts, ready, results))
        for seed, version in ((1, "older"), (2, "newer"))
    ]
    for each in programs:
        each.start()
    found = dict(results.get(timeout=240) for _ in programs)
    for each in programs:
        each.join(60)
    return site_copy, posts, before, found


def test_two_versions_write_at_once_and_then_views_are_added(written):
    url, posts, before, found = written
    (older, titles, _), (other, _, more) = found["older"], found["newer"]
    site = newer(FIELDS)
    with connect(url, site.SITE, workers=0) as db:
        db.drain()
        question, user = db.get(site.Question, posts[0]), db.get(site.User, 1)
        assert (question.title, question.closed_because) == (titles[posts[0]], more[posts[0]])
        assert (user.name, user.about) == (titles["user"], more["user"])
        assert {post: db.get(site.Post, post).score for post in posts} == {
            post: before[post] + older[post] + other[post] for post in posts
        }
        assert sum(older.values()) > 10 < sum(other.values())
        assert db.verify().clean
    with TestClient(application(url), raise_server_exceptions=False) as web:  # the older site is still being served
        vote = {"number": 900_000, "post": posts[0], "kind": "up"}
        assert web.post("/api/votes", json=vote).status_code == 201
        assert question.title in web.get(f"/questions/{posts[0]}").text.replace("&#39;", "'")
        newest = newer([*FIELDS, *VIEWS])
        with connect(url, newest.SITE, workers=0) as db:
            with pytest.raises(NotReady):
                db.page(newest.Closed)
            assert web.post("/api/votes", json=vote | {"number": 900_001}).status_code == 201  # it may still write
            assert db.backfill(fence=True).done
            refused = web.post("/api/votes", json=vote | {"number": 900_002})
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "10")
            assert web.get("/").status_code == 200
            assert [(row.source.key[0], row.closed_because, row.score) for row in db.page(newest.Closed)] == [
                (posts[0], more[posts[0]], before[posts[0]] + older[posts[0]] + other[posts[0]] + 2)
            ]
            assert db.find(newest.Vote, 900_002) is None
            assert db.verify().clean
