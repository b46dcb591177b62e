"""Feeds equal the naive join, whatever came first, and however late the tasks are done.

Items are published, edited, deleted, moved to other groups and instants; members join, leave, rejoin and move; the
clock moves, and items expire. Tasks are done at any moment, in small batches, by several workers, and by ones that lost
their lease long ago.

What holds while tasks wait, for each member, item and group, is what `oneread.testing.feed_audit` checks after each
step: only what an item or a membership with a task of its own shows may be out of date. For a reader that is:

- an item stands in a page once for each instant that it had, and more than once only while a task waits for one of
  the former ones;
- each item of a page is in a group of the member as the store is now, or a task waits for the item or for a membership
  of this member;
- an item that is in a group of the member is in the page, or such a task waits.
"""

import random
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings

from oneread import Feed, Key, Model, Ref, Schema, by, connect, each, newest, on, reference, shown
from oneread.engines.memory import forget
from oneread.feeds import following
from oneread.feeds.entries import Entries
from oneread.store.requests import Scan
from oneread.testing import strategies
from oneread.testing.audit import Audit
from oneread.testing.clock import START, Clock
from oneread.testing.comparison import Disagreement
from oneread.testing.crashes import survive
from oneread.testing.proof import Proof, prove
from oneread.testing.steps import DrainStep, SaveStep, TickStep
from oneread.transactions import outbox
from oneread.transactions.leases import ANY_LEASE, lease_in
from tests.properties.schema_of_feeds import (
    FEED_SCHEMA,
    GIVEN,
    Group,
    Groups,
    Member,
    Membership,
    Notice,
    NoticeFeed,
    Post,
    RecentFeed,
    ToldFeed,
)

FEW = settings(max_examples=max(10, settings().max_examples // 4), deadline=None)


@pytest.fixture(autouse=True, scope="module")
def small_batches():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "_ROWS_OF_A_PART", 1)
        yield


@FEW
@given(strategies.histories(FEED_SCHEMA, GIVEN))
def test_the_oracle_agrees_after_any_history(history):
    prove(FEED_SCHEMA, history)


@FEW
@given(strategies.histories(FEED_SCHEMA, GIVEN, longest=15))
def test_a_sweep_removes_every_entry_that_has_expired(history):
    """A clock that is set back shows what is stored."""
    with Proof(FEED_SCHEMA) as proof:
        for step in [*history, TickStep(1000), DrainStep()]:
            proof.do(step)
        assert proof.database.verify().faults == ()
        while proof.database.sweep().deleted:
            proof.do(DrainStep())
        proof.do(DrainStep())
        proof.oracle.drop_swept(proof._is_stored)
        proof.look()
        assert proof.database.verify().faults == ()
        proof.clock.tick(-1_000_000)
        for feed in (RecentFeed, ToldFeed):
            assert [entry for member in (1, 2, 3) for entry in proof.database.page(feed, member)] == []


@settings(max_examples=10, deadline=None)
@given(strategies.histories(FEED_SCHEMA, GIVEN, longest=15))
def test_the_oracle_agrees_on_lmdb(tmp_path_factory, history):
    prove(FEED_SCHEMA, history, f"lmdb://{tmp_path_factory.mktemp('store')}/db")


@FEW
@given(strategies.crashes(FEED_SCHEMA, GIVEN))
def test_feeds_survive_crashes(crash):
    assert survive(FEED_SCHEMA, crash)


def test_a_mask_left_out_is_found(monkeypatch):
    """The oracle sees an item that is too old, and one that has expired, that a page does not leave out."""
    joined = SaveStep(Membership(number=1, member=Member.at(1), group=Group.at("a")))
    old = [joined, SaveStep(Post(number=1, group=Group.at("a"), groups=[])), TickStep(30)]
    expired = [joined, SaveStep(Notice(number=1, group="a", until=START + timedelta(seconds=5))), TickStep(10)]
    prove(FEED_SCHEMA, [*old, *expired])
    with monkeypatch.context() as broken:
        broken.setattr(Entries, "oldest", lambda _feed, _now: None)
        with pytest.raises(Disagreement, match=f"{RecentFeed.__name__}: too many"):
            prove(FEED_SCHEMA, old)
    with monkeypatch.context() as broken:
        broken.setattr("oneread.database.lists.is_living_row", lambda _row, _now: True)
        with pytest.raises(Disagreement, match=f"{NoticeFeed.__name__}: too many"):
            prove(FEED_SCHEMA, expired)


# Random changes, with tasks at any moment.


class Item(Model[int]):
    number: Key[int]
    groups: Groups = reference(missing_ok=True)
    at: datetime = START
    text: str = ""


class Home(Feed[Item]):
    expires_after = timedelta(seconds=180)
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Item.at)
    text: str = shown(Item.text)
    joined = on(each(Item.groups), Membership.group)


MEMBERS, ITEMS, MEMBERSHIPS, GROUPS, WORKERS, STEPS = 3, 6, 6, "ab", 3, 250
STORE = "feeds of a test"


class Feeds:
    """A store that several programs have open, and the same as plain Python."""

    def __init__(self, url, inline, chance):
        self.clock, self.chance = Clock(), chance
        self.open = lambda: connect(url, Schema(Member, Group, Membership, Item, Home, inline=inline),
                                    clock=self.clock, workers=0)  # fmt: skip
        self.programs = [self.open() for _ in range(1 if url.startswith("lmdb") else WORKERS)]
        self.audit = Audit(self.db._driver.engine, self.db.operations)
        self.items, self.memberships, self.zombies = {}, {}, []

    @property
    def db(self):
        return self.programs[0]

    # What users do.

    def write(self, body, changes):
        self.chance.choice(self.programs).transact(body)
        for known, key, value in changes:
            known.pop(key, None)
            if value is not None:
                known[key] = value

    def change(self):
        """One of all changes, or several in one transaction."""
        several = [self.one_change() for _ in range(self.chance.choice([1, 1, 1, 2, 4]))]
        several = list({(model, number): (model, number, new) for model, number, new in several}.values())

        def body(tx):
            for model, number, entity in several:
                if entity is not None:
                    tx.save(entity)
                else:
                    tx.delete(model, number)

        known = {Item: self.items, Membership: self.memberships}
        self.write(body, [(known[model], number, entity) for model, number, entity in several])

    def one_change(self):
        chance = self.chance
        if chance.random() < 0.5:
            number = chance.randrange(ITEMS)
            known = self.items.get(number)
            if known is not None and chance.random() < 0.3:
                return Item, number, None
            groups = [Group.at(name) for name in chance.sample(GROUPS, chance.randrange(3))]
            at = self.clock.now - timedelta(seconds=chance.randrange(-30, 200))
            keeps = known is not None and chance.random() < 0.6
            item = Item(number=number, groups=groups, at=known.at if keeps else at, text=str(chance.randrange(99)))
            return Item, number, item
        number = chance.randrange(MEMBERSHIPS)
        known = self.memberships.get(number)
        if known is not None and chance.random() < 0.5:
            return Membership, number, None
        member, group = chance.randrange(MEMBERS), chance.choice(GROUPS)
        if known is None and chance.random() < 0.8:  # comes back to where it was
            member, group = number % MEMBERS, GROUPS[number % len(GROUPS)]
        return Membership, number, Membership(number=number, member=Member.at(member), group=Group.at(group))

    # What workers do.

    def tasks(self):
        return self.db.run(Scan("system", outbox.TASKS, 1000, families="dm").__iter__())

    def work(self):
        chance = self.chance
        worker, size = chance.choice(self.programs).operations, chance.choice([1, 1, 2, 3])
        tasks = self.tasks()
        kind = chance.randrange(6)
        if kind == 0 and tasks:
            key, row = chance.choice(tasks)
            self.zombies.append((key, lease_in(row)))
        elif kind == 1 and self.zombies:
            key, seen = self.zombies.pop(chance.randrange(len(self.zombies)))
            self.db.run(worker.outbox.task_batch(key, size, seen))
        elif kind == 2 and tasks:
            self.db.run(worker.outbox.task_batch(chance.choice(tasks)[0], size, ANY_LEASE))
        elif kind == 3 and chance.random() < 0.2:
            self.reopen()
        else:
            self.db.run(worker.drain_step(size))

    def reopen(self):
        """A program ends at once and begins again; its leases stay."""
        place = self.chance.randrange(len(self.programs))
        self.programs[place].close()
        self.programs[place] = self.open()
        if place == 0:
            self.audit = Audit(self.db._driver.engine, self.db.operations)

    def finish(self):
        """Tasks end, in a bounded number of batches, of any worker."""
        for _ in range(400):
            tasks = self.tasks()
            if not tasks:
                return
            for key, _row in tasks:
                self.db.run(self.db.operations.outbox.task_batch(key, 2, ANY_LEASE))
        raise AssertionError("tasks do not end")

    # What must hold.

    def expected(self, member):
        """The naive join."""
        oldest = self.clock.now - Home.expires_after
        groups = {each.group for each in self.memberships.values() if each.member == Member.at(member)}
        found = [each for each in self.items.values() if each.at > oldest and not groups.isdisjoint(each.groups)]
        found.sort(key=lambda item: item.number)
        return sorted(found, key=lambda item: item.at, reverse=True)

    def pages(self, member):
        """The feed of a member, page by page."""
        rows, cursor = [], None
        while True:
            page = self.db.page(Home, member, limit=self.chance.choice([1, 2, 5]), cursor=cursor)
            rows += page.rows
            cursor = page.next
            if cursor is None:
                return rows

    def check(self):
        self.audit.clock = max(self.audit.clock, self.clock())
        self.audit.check()
        waiting = {outbox.feed_row(outbox.source_of(key)) for key, _row in self.tasks()}
        for member in range(MEMBERS):
            self.check_pages(member, waiting)

    def check_pages(self, member, waiting):
        rows, expected = self.pages(member), self.expected(member)
        shown = [(row.at, row.source.key[0], row.text) for row in rows]
        wanted = [(item.at, item.number, item.text) for item in expected]
        if not waiting:
            assert shown == wanted, member
            return
        places = [(at, number) for at, number, _text in shown]
        assert places == sorted(places, key=lambda place: (-place[0].timestamp(), place[1]))
        assert len(set(places)) == len(places), "an item is shown twice at one instant"
        for at, number, text in set(shown) ^ set(wanted):
            assert self.waits(waiting, member, at, number), (member, at, number, text)

    def waits(self, waiting, member, at, number):
        """Whether a task waits for an item at an instant, in any group, or for any membership of a member."""
        view = Entries(self.db.operations.catalog.views[Home])
        tail = view.view.key.codec.encode((member, at))[len(view.view.member_codec.encode((member,))) :]
        tail += self.db.operations.kind(Item).key((number,))[2:]
        whose = view.view.member_codec.encode((member,))
        for key in waiting:
            group = view.group_of(key)
            if key.startswith(view.items) and key.endswith(tail):
                return True
            if key.startswith(view.members) and view.member_of(key, group) == whose:
                return True
        return False


@pytest.mark.parametrize("inline", [0, 1, 2])
@pytest.mark.parametrize("engine", ["memory", "lmdb"])
@pytest.mark.parametrize("seed", range(2))
def test_any_interleaving_comes_to_the_naive_join(engine, inline, seed, tmp_path):
    chance = random.Random(f"{engine} {inline} {seed}")
    url = f"memory://{STORE}" if engine == "memory" else f"lmdb://{tmp_path}/store"
    feeds = Feeds(url, inline, chance)
    busy = 0.5
    try:
        for number in range(STEPS if engine == "memory" else STEPS // 5):
            if number % 20 == 0:
                busy = chance.choice([0.1, 0.5, 0.8])
            if chance.random() < busy:
                feeds.work()
            elif chance.random() < 0.1:
                feeds.clock.tick(chance.randrange(30))
            else:
                feeds.change()
            feeds.check()
            if number % 25 == 0:
                assert feeds.db.verify().clean
            if number % 50 == 49:
                feeds.finish()
                feeds.check()
    finally:
        for program in feeds.programs:
            program.close()
        forget(STORE)
