"""Workers that fan items out to thousands of members are killed again and again: every member is served exactly once.

Meanwhile a writer publishes, edits, deletes, and lets members leave and come back; verify never takes what waits for a
task for a fault, and at the end every feed is the naive join.
"""

import os
import random
import signal
import time
from datetime import UTC, datetime, timedelta

from oneread import Schema, connect
from oneread.errors import OnereadError
from tests.failures.feed_models import Home, Membership, Post
from tests.failures.stores import until

MEMBERS = 3_000
WORKERS, TURNS, BATCH = 3, 30, 50
LEASE = 0.25
NOW = datetime(2024, 5, 1, tzinfo=UTC)


SCHEMA = Schema(Membership, Post, Home, inline=10)


def work_for_ever(url):
    """The child: batches of tasks, until it is killed."""
    with connect(url, SCHEMA, workers=0, timeout=60) as db:
        db.operations.outbox.leases.seconds = LEASE
        while True:
            try:
                if not db.run(db.operations.drain_step(BATCH)):
                    time.sleep(0.005)  # nothing for this worker
            except OnereadError:
                time.sleep(0.005)


def started(url):
    pid = os.fork()
    if pid == 0:
        try:
            work_for_ever(url)
        finally:
            os._exit(1)
    return pid


def killed(pid):
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def publish(db, chance, turn, posts):
    """A new post, or an older one with another text; its fan-out goes to thousands."""
    number = chance.randrange(6)
    known = posts.get(number)
    moves = known is None or chance.random() < 0.3
    at = NOW + timedelta(seconds=turn) if moves else known.at
    posts[number] = db.save(Post(number=number, group=chance.choice("aab"), at=at, text=str(turn)))


def change(db, chance, turn, posts, members):
    """One change whose fan-out goes to thousands, and some that cross it; the same to plain dicts."""
    if chance.random() < 0.6 or not posts:
        publish(db, chance, turn, posts)
    else:
        number = chance.choice(sorted(posts))
        del posts[number]
        db.delete(Post, number)
    for member in chance.sample(range(MEMBERS), 5):
        if member in members:
            del members[member]
            db.delete(Membership, member)
        else:
            members[member] = db.save(Membership(number=member, member=member, group=chance.choice("aab")))


def naive(posts, members):
    found = {member: set() for member in range(MEMBERS)}
    for membership in members.values():
        found[membership.member] |= {
            (each.number, each.at, each.text) for each in posts.values() if each.group == membership.group
        }
    return found


def served(db):
    """Every row of the feed, by member; a list, so that nothing is there twice unseen."""
    return {
        member: [(row.source.key[0], row.at, row.text) for row in db.page(Home, member).rows]
        for member in range(MEMBERS)
    }


def test_killed_workers_serve_every_member_exactly_once(tmp_path):
    url = f"lmdb://{tmp_path / 'store'}?durability=none"
    chance = random.Random(5)
    posts, members = {}, {}
    with connect(url, SCHEMA, workers=0) as db:
        made = [Membership(number=each, member=each, group="a" if each % 3 else "b") for each in range(MEMBERS)]
        members = {each.number: each for each in db.save_all(made)}
    running = [started(url) for _ in range(WORKERS)]
    looks = 0
    try:
        with connect(url, SCHEMA, workers=0, timeout=60) as db:
            for turn in range(TURNS):
                for number in range(3):
                    change(db, chance, 3 * turn + number, posts, members)
                time.sleep(chance.uniform(0, 0.08))  # the moment of the signal, not a wait for anything
                place = chance.randrange(WORKERS)
                killed(running[place])
                running[place] = started(url)
                if turn % 6 == 5:  # right behind a post, whatever the workers have already ended
                    publish(db, chance, 3 * TURNS + turn, posts)
                    looks += bool(db.survey().tasks)
                    assert db.verify(Home).clean
            until(lambda: not db.survey().tasks, 60)
            expected, found = naive(posts, members), served(db)
            assert {member: sorted(rows) for member, rows in found.items()} == {
                member: sorted(rows) for member, rows in expected.items()
            }
            assert db.verify().clean
    finally:
        for pid in running:
            killed(pid)
    assert looks, "verify never looked while tasks waited"
