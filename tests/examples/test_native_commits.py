"""How many commits of the sites compiled code decides, while members do what sites are there for."""

import asyncio
import warnings
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from urllib.parse import quote

import pytest

from examples.community.schema import COMMUNITY, Group, Member, Thread
from examples.community.site import application
from examples.events import attending
from examples.events import schema as events
from examples.qa.schema import SITE, Answer, Asked, Author, Comment, Kind, Post, Question, User, Vote
from oneread import connect, connect_async
from oneread.engines.lmdb import binding
from oneread.errors import AlreadyExists, Conflict, InvalidValue, NotFound

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette would rather have a client that is not released widely yet
    from starlette.testclient import TestClient

STEPS = 300
REFUSED = (AlreadyExists, Conflict, InvalidValue, NotFound)

pytestmark = pytest.mark.skipif(binding.Program is None, reason="oneread-native is not installed")


def test_questions_and_answers(site_copy):
    asyncio.run(ask_and_answer(f"{site_copy}?durability=none"))


async def ask_and_answer(url):
    chance, now = Random(1), datetime.now(UTC)
    async with connect_async(url, SITE, workers=0) as db:
        users, questions = [*await db.page(User, limit=100)], [*await db.page(Question, limit=100)]
        for number in range(10**6, 10**6 + STEPS):
            user, question = chance.choice(users), chance.choice(questions)
            author, key = Author.of(user.number), question.number
            post, thread = Post.at(key), Question.at(key)
            match chance.randrange(20):
                case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7:
                    await db.create(Vote(number=number, post=post, kind=Kind.UP, value=1, cast_at=now))
                case 8 | 9 | 10 | 11:
                    await db.create(
                        Comment(number=number, post=post, thread=thread, author=author, text="So?", written_at=now)
                    )
                case 12 | 13 | 14:
                    of = Asked.of(key)
                    await db.create(Answer(number=number, question=of, author=author, text="So.", posted_at=now))
                case 15 | 16:
                    await db.create(
                        Question(
                            number=number, title="Why?", text="?", author=author, posted_at=now, tags=question.tags
                        )
                    )
                case 17 | 18:
                    await db.patch(User, user.number, name=f"user {number}")
                case _:
                    await db.patch(Question, key, title=f"Why {number}?")
        expect(db, "questions and answers")


def test_community(community_copy):
    url, chance = f"{community_copy}?durability=none", Random(1)
    with connect(url, COMMUNITY, workers=0) as db:
        members = [each.member for each in db.page(Member, limit=100)]
        threads = [each.thread for each in db.page(Thread, limit=100)]
        groups = [quote(each.group, safe="") for each in db.page(Group, limit=100)]
    with TestClient(application(url), follow_redirects=False) as client:
        for _ in range(STEPS):
            member, kind = chance.choice(members), chance.randrange(20)
            if kind < 10:
                done = client.post(f"/threads/{chance.choice(threads)}/messages", data={"member": member, "text": "?"})
            elif kind < 14:
                done = client.post(f"/groups/{chance.choice(groups)}/events", data={"member": member, "title": "?"})
            else:
                done = client.post(f"/members/{quote(member, safe='')}/seen")
            assert done.status_code < 400
        expect(client.app_state["db"], "community")


def test_events(events_copy):
    asyncio.run(attend(f"{events_copy}?durability=none"))


async def attend(url):
    chance = Random(1)
    async with connect_async(url, events.EVENTS, workers=0) as db:
        members = [each.member for each in await db.page(events.Member, limit=100)]
        groups = [each.group for each in await db.page(events.Group, limit=100)]
        starts_at = attending.now() + timedelta(days=20)
        made = [
            await attending.announce(db, f"{number}", chance.choice(groups), "Event", starts_at, 4)
            for number in range(8)
        ]
        for _ in range(STEPS):
            with suppress(*REFUSED):
                await act(db, chance, chance.choice(made), chance.choice(members), chance.choice(groups))
        expect(db, "events")


async def act(db, chance, event, member, group):
    match chance.randrange(20):
        case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7:
            await attending.come(db, event, member)
        case 8 | 9 | 10 | 11 | 12:
            await attending.leave(db, event, member)
        case 13:
            await attending.reschedule(db, event, attending.now() + timedelta(days=chance.randrange(1, 20)))
        case 14 | 15:
            await attending.remark(db, event, member, "See you.")
        case 16 | 17:
            await attending.view(db, event)
        case 18:
            await attending.join(db, member, group)
        case _:
            await db.mark(events.Home, member, seen=True)


LEAST = {"questions and answers": 98, "community": 95, "events": 80}
"""Percent."""


def expect(db, site):
    found = Counter(db.native.commits)
    core = found["core"] + found["add"]
    assert core * 100 >= LEAST[site] * found.total(), found
