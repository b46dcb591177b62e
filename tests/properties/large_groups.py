"""Members in groups of a feed with tiny thresholds, against the naive join: what the tests of large groups share."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from oneread import Feed, Key, Model, Ref, Schema, by, connect, newest, on, shown
from oneread.feeds.entries import Entries, shown_by
from oneread.feeds.group_check import wrong_rows_of
from oneread.feeds.large_groups import Delivery, large_groups_of
from oneread.plans.effects import Snapshot
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.transactions import outbox
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.outbox import FEED, FOLLOW
from oneread.transactions.task_batches import FollowHandler, TaskRunner

START = datetime(2026, 1, 1, tzinfo=UTC)


class Member(Model[int]):
    number: Key[int]


class Group(Model[str]):
    number: Key[str]


class Membership(Model[int]):
    number: Key[int]
    member: Ref[Member]
    group: Ref[Group]


class Post(Model[int]):
    number: Key[int]
    group: Ref[Group]
    at: datetime
    title: str = ""


def feed(above, merged, **options):
    """A feed with these bounds."""

    class Home(Feed[Post]):
        member: Ref[Member] = by(Membership.member)
        at: datetime = newest(Post.at)
        title: str = shown(Post.title)
        group: Ref[Group] = shown(Post.group)
        joined = on(Post.group, Membership.group)
        expires_after, at_most = options.get("expires_after"), options.get("at_most")
        large_group = above
        merged_groups = merged
        watched = options.get("watched")

    return Home


class World:
    """A store, what was done to it, and workers that take its tasks step by step."""

    def __init__(self, above=2, merged=2, inline=2, url="memory://", workers=2, **options):
        self.now = int(START.timestamp() * 1000) + 10**9
        self.posts, self.memberships, self._added, self.requests = {}, {}, set(), []
        self._url, self._inline, self._workers, self._options = url, inline, workers, options
        self.resting, self.written, self.moved_before = 0, None, False
        self.open(above, merged)

    def open(self, above, merged):
        """Opens the store with these bounds."""
        self.home = feed(above, merged, **self._options)
        self.schema = Schema(Member, Group, Membership, Post, self.home, inline=self._inline)
        self.above, self.merged = above, merged
        observer = lambda request, _answer: self.requests.append(request)  # noqa: E731 - of one line
        self.db = connect(
            self._url, self.schema, workers=0, clock=lambda: self.now, observers=(observer,), cursor_secret=b"s" * 32
        )
        operations = self.operations = self.db.operations
        handler = operations.outbox._handlers[FEED]
        self.workers = [
            TaskRunner(
                operations.committer,
                {FOLLOW: FollowHandler(operations.catalog.source), FEED: handler},
                LeaseHolder(5, lambda: self.now / 1000, lambda name=name: f"worker {name}"),
            )
            for name in range(self._workers)
        ]
        view = operations.catalog.views[self.home]
        self.entries = Entries(view)
        self.large = large_groups_of(self.entries)

    def asked(self, act):
        """The requests of one call but for those of entities: table and rows of each."""
        self.requests.clear()
        act()
        rows = [(type(each).__name__, each.table, getattr(each, "limit", None)) for each in self.requests]
        return [each for each in rows if each[1] != "roots"]

    def close(self):
        self.db.close()

    # What is done.

    def _add(self, model, key):
        if (model, key) not in self._added:
            self._added.add((model, key))
            self.db.save(model(number=key))

    def join(self, number, member, group):
        self._add(Member, member)
        self._add(Group, group)
        self.memberships[number] = Membership(number=number, member=Member.at(member), group=Group.at(group))
        self.written = self.db.save(self.memberships[number])

    def leave(self, number):
        if self.memberships.pop(number, None) is not None:
            self.db.delete(Membership, number)

    def publish(self, number, group, minute=0, title=""):
        self._add(Group, group)
        at = START + timedelta(minutes=minute)
        self.posts[number] = Post(number=number, group=Group.at(group), at=at, title=title)
        self.written = self.db.save(self.posts[number])

    def remove(self, number):
        if self.posts.pop(number, None) is not None:
            self.db.delete(Post, number)

    def step(self, worker=0, batch=2):
        """One step of a worker; whether it did something."""
        return bool(self.db.run(self.workers[worker].step(batch)))

    def settle(self, batch=2):
        for _ in range(10_000):
            if not self.step(0, batch):
                self.now += 10_000
                if not self.step(0, batch):
                    return
        raise AssertionError("the tasks never end")

    # What must hold.

    def naive(self, member):
        """The rows that a member's feed has: (time, post, title, group), newest first."""
        groups = {each.group.key for each in self.memberships.values() if each.member.key == (member,)}
        rows = [(each.at, each.number, each.title, each.group.key) for each in self.posts.values()]
        return sorted((each for each in rows if each[3] in groups), key=lambda each: (-each[0].timestamp(), each[1]))

    def walk(self, member, limit=2, *, backward=False, **bounds):
        """A member's feed, page by page."""
        found, cursor = [], None
        while True:
            page = self.db.page(self.home, Member.at(member), limit=limit, cursor=cursor, backward=backward, **bounds)
            rows = [(row.at, row.source.key[0], row.title, row.group.key) for row in page]
            found = rows + found if backward else found + rows
            cursor = page.previous if backward else page.next
            if cursor is None:
                return found

    def rows(self, prefix):
        def plan():
            return (yield from Scan("views", RowRange.under(prefix), 100_000, families="dm"))

        return dict(self.db.run(plan()))

    def tasks(self):
        """The rows in `views` that tasks are about."""

        def plan():
            return (yield from Scan("system", outbox.TASKS, 100_000, families="dm"))

        return [outbox.feed_row(outbox.source_of(key)) for key, _row in self.db.run(plan())]

    def state(self, group):
        key = self.large.group_key(self.entries.view.members.key.codec.prefix_encoder(1)((group,)))
        return self.large.state_of(self.rows(key).get(key))

    def deliveries(self):
        """How each membership is served, by its row."""
        read, written = self.rows(self.large.read), self.rows(self.large.written)
        whose = Counter(map(self.entries.member_in, read))
        assert not whose or max(whose.values()) <= self.merged, "a page would merge too many groups"
        found = {}
        for key in self.rows(self.entries.members):
            group = self.entries.group_of(key)
            found[key] = self.large.delivery_of(
                read.pop(self.large.read_key(key, group), None), written.pop(self.large.written_key(key), None)
            )
        assert not read, "rows of `read` without a membership"
        assert not written, "rows of `written` without a membership"
        return found

    def check_rows(self):
        """The rows of large groups, and which (group, membership) pairs are written to, once every task has ended."""
        assert not self.tasks()
        groups = {}
        for key in self.rows(self.entries.members):
            groups.setdefault(self.entries.group_of(key), []).append(key)
        stored = {
            self.large.group_of(key): self.large.state_of(row) for key, row in self.rows(self.large.groups).items()
        }
        assert stored.keys() == groups.keys()
        deliveries = self.deliveries()
        witnesses = {}
        for key, row in self.rows(self.entries.prefix).items():
            for witness in shown_by(row):
                witnesses.setdefault(witness, set()).add(key)
        for group, keys in groups.items():
            state = stored[group]
            assert state.members == len(keys)
            assert not state.crosses
            assert state.counted is None
            assert state.reads or len(keys) <= self.above
            assert not state.reads or 2 * len(keys) >= self.above
            items = self.rows(self.entries.items + group)
            for key in keys:
                assert deliveries[key] in ((Delivery.READ, Delivery.WRITTEN) if state.reads else (Delivery.PLAIN,))
                expected = set()
                if deliveries[key].is_given:
                    member = self.entries.member_of(key, group)
                    cut = len(self.entries.items) + len(group)
                    expected = {self.entries.prefix + member + place[cut:] for place in items}
                assert witnesses.pop(self.entries.membership_of(key, group), set()) == expected, deliveries[key]
        assert not witnesses

    def wrong_rows(self):
        """What verify is told of the rows of large groups."""
        waiting = frozenset(self.tasks())
        return self.db.run(Snapshot(lambda: wrong_rows_of(self.large, waiting)).__iter__())

    # At any moment.

    def check_now(self, member):
        """What a full walk shows: nothing twice, nothing that is missing or too much without a task that says so."""
        assert self.wrong_rows() == []
        found = self.walk(member, limit=3)
        places = [(at, number) for at, number, _title, _group in found]
        assert len(set(places)) == len(places), "an item is shown twice"
        assert places == sorted(places, key=lambda each: (-each[0].timestamp(), each[1]))
        expected = self.naive(member)
        if found == expected:
            return found
        waiting = self.tasks()
        left, posts, unfinished = self._waiting(waiting, member)
        for row in expected:
            if row in found or row[1] in posts:
                continue
            mine = [
                each for each in self.memberships.values() if each.member.key == (member,) and each.group.key == row[3]
            ]
            assert all(each.number in unfinished for each in mine), ("missing", row, waiting)
        for row in found:
            assert row in expected or row[1] in posts or left, ("too much", row, waiting)
        return found

    def check_written(self, member):
        """What a page shows of the last write, though its tasks wait: a post, or all posts of a group that was joined.

        What an earlier write of the post left to a task, or a membership that ended, may be there too.
        """
        written, self.written = self.written, None
        page = self.db.page(self.home, Member.at(member), limit=100, includes=written)
        found = [(row.at, row.source.key[0], row.title, row.group.key) for row in page]
        assert len({(at, number) for at, number, _title, _group in found}) == len(found), "an item is shown twice"
        is_post = isinstance(written, Post)
        if not is_post and written.member.key != (member,):
            return
        key, place = (written.number, 1) if is_post else (written.group.key, 3)
        mine = [each for each in self.naive(member) if each[place] == key]
        assert [each for each in mine if each not in found] == [], (written, found)
        left, _posts, _unfinished = self._waiting(self.tasks(), member)
        if is_post and not left and not self.moved_before:
            assert [each for each in found if each[1] == key] == mine, written

    def waits(self, number):
        """Whether a task is about a post."""
        return number in self._waiting(self.tasks(), 0)[1]

    def _waiting(self, waiting, member):
        """Memberships of a member that ended, posts, and memberships that began, which a task is still about."""
        values = self.entries.view.members.key.codec.decode_prefix
        codec = self.operations.catalog.kinds[Membership].codec
        left, unfinished, deliveries = set(), set(), self.deliveries()
        for key in waiting:
            if not key.startswith(self.entries.members):
                continue
            (_group, whose), end = values(key, 4)
            (number,) = codec.decode(key[end:])
            if whose != member:
                continue
            if key not in deliveries or number not in self.memberships:
                left.add(number)
            else:
                left.add(number)  # one that is back may still show what it did before
                if deliveries[key] in (Delivery.PLAIN, Delivery.WRITTEN):
                    unfinished.add(number)
        posts = self.operations.catalog.kinds[Post].codec
        items = self.entries.view.items.key.codec.decode_prefix
        numbers = {posts.decode(key[items(key, 4)[1] :])[0] for key in waiting if key.startswith(self.entries.items)}
        return left, numbers, unfinished
