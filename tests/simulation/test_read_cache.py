"""Reads through a cache while writers, readers and caches fail between any two requests.

Processes are plans, a request of the store or of the cache at a time, in an order that the seed draws. Between two of
them keys of the cache are lost, requests of the cache fail or are done without an answer, processes end for good, and
time passes. Of each answer that the cache holds it is known when it was read from the store, and of each row when it
was written: what is shown is judged by these alone.
"""

from random import Random

import pytest

from oneread import Aggregate, Index, Key, Model, Ref, Schema, by, count, shown, total
from oneread.caches.memory import MemoryCache
from oneread.database.cached_keys import depth_of
from oneread.database.cursors import CursorCipher
from oneread.database.lists import listed
from oneread.database.open import opened
from oneread.database.pages import Query, page
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import OnereadError, OutcomeUnknown, Unavailable
from oneread.plans import read_cache
from oneread.plans.effects import Now, Sleep, Together
from oneread.plans.read_cache import ReadCache
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.cache import CACHE_REQUESTS, CacheFetch, CacheFill, CacheReplace
from oneread.store.requests import Read, Scan
from oneread.store.rows import RowRange
from oneread.transactions.system_commits import RowSystem

RIGHT = 80
FEW = 20
SEEDS = 120
STEPS = 700
MAX_AGE = 60.0
WRITES = (*read_cache._WRITES,)


class Author(Model[int]):
    number: Key[int]
    name: str


class Post(Model[int, int]):
    thread: Key[int]
    number: Key[int]
    author: Ref[Author]
    score: int


class PostsOfAuthor(Index[Post]):
    author: Ref[Author] = by(Post.author)
    score: int = shown(Post.score)


class ScoreOfAuthor(Aggregate[Post]):
    author: Ref[Author] = by(Post.author)
    posts: int = count()
    score: int = total(Post.score)


SCHEMA = Schema(Author, Post, PostsOfAuthor, ScoreOfAuthor, portable=True)
CIPHER = CursorCipher(b"0" * 32)


def one_by_one(plan, around):
    """What a driver does with a plan, its independent parts one after the other: each request is a step."""
    answer, failure, plan = None, None, around(plan)
    try:
        while True:
            asked = plan.send(answer) if failure is None else plan.throw(failure)
            answer = failure = None
            try:
                if type(asked) is Together:
                    answer = []
                    for each in asked.plans:
                        answer.append((yield from one_by_one(each, around)))
                else:
                    answer = yield asked
            except OnereadError as error:
                failure = error
    except StopIteration as stop:
        return stop.value
    finally:
        plan.close()


class Run:
    """One write: when it began, what it wrote when, and when everybody could know."""

    def __init__(self, process, now):
        self.process, self.began = process, now
        self.wrote = []
        self.ended = self.told = None
        self.is_certain = True


class Filled:
    """One answer in the cache: when it was read from the store, by steps and by time."""

    def __init__(self, step, now):
        self.step, self.now = step, now


class Seen(ReadCache):
    """Says what it shows."""

    puts_blindly = False

    def _shown(self, part, number, found, at):
        answer = super()._shown(part, number, found, at)
        if answer is not read_cache._ABSENT:
            self.world.check_shown(self.process, part.place, found.value)
        return answer

    def _scan(self, asked, max_age):
        within = asked.range
        place = read_cache._place(asked.table, "scan", within.start, within.stop, asked.limit, asked.reverse)
        self.world.asked[place] = (asked.table, within)
        return (yield from super()._scan(asked, max_age))

    def _read(self, asked, max_age):
        for key in asked.keys:
            place = read_cache._place(asked.table, "read", key)
            self.world.asked[place] = (asked.table, RowRange(key, key + b"\0"))
        return (yield from super()._read(asked, max_age))


class Process:
    """One program: its cache, and what it is doing."""

    def __init__(self, world, kind):
        self.world = world
        self.operations = world.driver.run(opened(SCHEMA, read_only=False, committer=RowSystem()), Trace())
        self.reads = kind(depth_of(self.operations.catalog), b"key", MAX_AGE, lambda: world.now / 1000)
        self.reads.world, self.reads.process = world, self
        self.plan = self.asked = self.run = None
        self.began = self.looked = self.read_at = None

    def begin(self, plan):
        self.plan, self.began = one_by_one(plan, self.reads.write), self.world.step_number
        self.go_on(lambda: next(self.plan))

    def go_on(self, step):
        try:
            self.asked = step()
            return
        except StopIteration:
            pass
        except (OnereadError, AssertionError) as error:
            if isinstance(error, AssertionError):
                raise
        self.plan = self.asked = None
        if self.run is not None:
            self.run.ended = self.world.step_number
            self.run = None


class World:
    """A store, a cache, programs, and what is known of every row and every answer."""

    def __init__(self, seed, kind=Seen):
        self.chance = Random(f"read cache {seed}")
        self.now, self.step_number = 1_700_000_000_000, 0
        self.engine, self.cache = OneRowMemoryEngine(), MemoryCache()
        self.driver = SyncDriver(self.engine, lambda: self.now, self.chance.random, cache=self.cache)
        self.kind = kind
        self.runs, self.filled, self.asked = [], {}, {}
        self.hits = self.fills = 0
        self.fails = self.chance.choice((0.0, 0.0, 0.01, 0.08))
        self.loses = self.chance.choice((0.0, 0.02, 0.1))
        self.dies = self.chance.choice((0.0, 0.004, 0.03))
        self.parks = self.chance.choice((0.0, 0.8, 0.95))
        self.parked = self.chance.choice(((CacheFill,), WRITES, (CacheFill, CacheReplace, *WRITES), (CacheFill, Now)))
        self.skips = self.chance.choice((0.0, 0.003, 0.01))
        self.posts = self.chance.choice(((1, 1), (1, 2), (2, 2)))
        self.processes = [Process(self, kind) for _ in range(self.chance.choice((2, 3, 4)))]
        first = self.processes[0].operations
        for plan in (first.save(Author(number=number, name="Ada")) for number in (1, 2)):
            self.driver.run(plan, Trace())

    def step(self):
        self.step_number += 1
        self.now += self.chance.choice((1, 1, 1, 2, 5))
        if self.chance.random() < self.skips:
            self.now += int(MAX_AGE * self.chance.choice((100, 500, 900, 1100)))
        if self.chance.random() < self.loses:
            self.lose()
        place = self.chance.randrange(len(self.processes))
        process = self.processes[place]
        if self.chance.random() < self.dies:
            self.processes[place] = Process(self, self.kind)
        elif process.plan is None:
            self.begin(process)
        elif self.chance.random() >= self.parks or type(process.asked) not in self.parked:
            self.perform(process)
        for run in self.runs:
            if run.told is None and run.ended is not None and not run.process.reads._owed:
                run.told = self.step_number

    def lose(self):
        values = self.cache._numbers.values
        lost = self.chance.choice(("all", "numbers", "numbers", "one", "one", "one"))
        several = [
            place for place in sorted(values) if lost == "all" or (lost == "numbers" and place[1].startswith("number:"))
        ]
        for place in several if lost != "one" else self.chance.sample(sorted(values), min(1, len(values))):
            del values[place]

    def begin(self, process):
        operations, chance = process.operations, self.chance
        at = (chance.randint(1, self.posts[0]), chance.randint(1, self.posts[1]))
        author = chance.randint(1, 2)
        limit = chance.choice((1, 50))
        verb = chance.choice(("save", "delete", "get", "get", "page", "page", "page", "page", "thread", "group"))
        if verb in ("save", "delete"):
            process.run = Run(process, self.step_number)
            self.runs.append(process.run)
            post = Post(thread=at[0], number=at[1], author=Author.at(author), score=self.step_number)
            plan = operations.save(post) if verb == "save" else operations.delete(Post, at, None)
            process.begin(plan)
            return
        plans = {
            "get": lambda: operations.find(Post, at),
            "page": lambda: page(listed(operations, PostsOfAuthor), Query((author,), limit), CIPHER, Trace()),
            "thread": lambda: page(listed(operations, Post), Query((at[0],), limit), CIPHER, Trace()),
            "group": lambda: operations.find(ScoreOfAuthor, (author,)),
        }
        process.begin(process.reads.read(plans[verb](), MAX_AGE))

    def perform(self, process):
        asked = process.asked
        if type(asked) is Sleep:
            self.now += int(asked.seconds * 1000)
            process.go_on(lambda: process.plan.send(None))
            return
        fails = type(asked) in CACHE_REQUESTS and self.chance.random() < self.fails
        if fails and self.chance.random() < 0.5:
            self.fail(process, Unavailable("the cache does not answer"))
            return
        if process.reads.puts_blindly and type(asked) is CacheFill:
            asked = self.blind(asked)
        before = self.held(asked)
        answer = self.driver._perform(asked, Trace())
        self.note(process, asked, answer, before)
        if fails:
            self.fail(process, OutcomeUnknown("the cache did not answer"))
        else:
            process.go_on(lambda: process.plan.send(answer))

    def fail(self, process, error):
        if process.run is not None:
            process.run.is_certain = False
        process.go_on(lambda: process.plan.throw(error))

    def blind(self, asked):
        """The request with the tokens of what is there now."""
        found = self.cache.answer(CacheFetch([each.key for each in asked.entries]))
        tokens = [None if each is None else each.token for each in found]
        entries = [each._replace(token=token) for each, token in zip(asked.entries, tokens, strict=True)]
        return CacheFill(entries, asked.seconds)

    def held(self, asked):
        if type(asked) is not CacheFill:
            return []
        found = self.cache.answer(CacheFetch([entry.key for entry in asked.entries]))
        several = zip(asked.entries, found, strict=True)
        return [None if each is None else self.filled.get((entry.key, each.value)) for entry, each in several]

    def note(self, process, asked, answer, before):
        if type(asked) in WRITES and process.run is not None:
            keys = read_cache._WRITES[type(asked)](asked)
            if asked.table != "system" and answer is not False:
                process.run.is_certain &= not process.reads._owed
                process.run.wrote += [(asked.table, key, self.step_number) for key in keys]
        elif type(asked) in (Read, Scan):
            process.read_at = Filled(self.step_number, self.now)
        elif type(asked) is Now:
            process.looked = self.now
        elif type(asked) is CacheFill:
            for entry, was_put, old in zip(asked.entries, answer, before, strict=True):
                if was_put and entry.key.startswith("answer:"):
                    self.fills += 1
                    assert old is None or old.step <= process.read_at.step, "an older answer replaced a newer one"
                    self.filled[entry.key, entry.value] = process.read_at

    def check_shown(self, process, place, value):
        self.hits += 1
        found = self.filled[place, value]
        assert process.looked - found.now <= MAX_AGE * 1000, "an answer is older than max_age"
        table, within = self.asked[place]
        for run in self.runs:
            for written, key, at in run.wrote:
                if written != table or not within.start <= key < within.stop or at > self.step_number:
                    continue
                known = run.ended if run.process is process else run.told
                if known is not None and known <= process.began:
                    assert found.step >= at, "an answer is older than a write that has ended"
                elif run.is_certain:
                    assert found.step >= run.began, "an answer is older than a write that is made"


def run(seed, kind=Seen):
    world = World(seed, kind)
    for _ in range(STEPS):
        world.step()
    return world


def test_what_is_shown_is_never_older_than_a_write_that_has_ended_nor_than_max_age():
    worlds = [run(seed) for seed in range(RIGHT)]
    assert sum(world.hits for world in worlds) > 5 * RIGHT
    assert sum(world.fills for world in worlds) > 5 * RIGHT


def test_neither_is_it_where_few_numbers_are_given_at_a_time(monkeypatch):
    monkeypatch.setattr(read_cache, "MOST_GIVEN", 2)
    for seed in range(SEEDS, SEEDS + FEW):
        run(seed)


class Blind(Seen):
    """Puts what it has read whatever is there."""

    puts_blindly = True


class NotBefore(Seen):
    """Gives no numbers before it writes."""

    def _prepare(self, asked, given):
        writes = read_cache._WRITES.get(type(asked))
        if writes is not None:
            given |= {name for key in writes(asked) for name in self._names.of_written(asked.table, key)}
        return
        yield


class NotAfter(Seen):
    """Gives no numbers after it has written."""

    def write(self, plan):
        given = set()
        answer = None
        try:
            while True:
                asked = plan.send(answer)
                yield from self._prepare(asked, given)
                answer = yield asked
        except StopIteration as stop:
            return stop.value


class FromZero(Seen):
    """Begins numbers that are missing at 0."""

    def _numbers_of(self, found):
        self.new = self._zero
        try:
            return (yield from super()._numbers_of(found))
        finally:
            self.new = super()._new_number

    def _zero(self):
        return bytes(8)
        yield

    def _new_number(self):
        return (yield from getattr(self, "new", super()._new_number)())


class NumberLate(Seen):
    """Takes the number after it has read the store."""

    def _through(self, parts, ask, max_age):
        found = yield from ask(range(len(parts)))

        def known(_missing):
            return [found[place] for place in _missing]
            yield

        return (yield from super()._through(parts, known, max_age))


class AgeOfThePut(Seen):
    """Counts the age from when an answer is put."""

    def _ask(self, request):
        if type(request) is CacheFill and request.entries[0].key.startswith("answer:"):
            now = yield Now()
            (entry,) = request.entries
            part = read_cache._Part("", entry.key, read_cache._ROW)
            kept = self._unpacked(part, entry.value) or self._unpacked(
                part._replace(decoder=read_cache._ROWS), entry.value
            )
            request = CacheFill(
                [entry._replace(value=self._packed(entry.key, kept._replace(since=now)))], request.seconds
            )
        return (yield from super()._ask(request))


class Ageless(Seen):
    """Does not look at how old an answer is."""

    def _shown(self, part, number, found, at):
        return super()._shown(part, number, found, (at[0], 1e12))


class Forgetful(Seen):
    """Forgets the numbers that the cache did not take."""

    def _owe(self, names):
        pass


class WholeOnly(Seen):
    """Gives the number of the whole list alone."""

    def _prepare(self, asked, given):
        of_written = self._names.of_written
        self._names.of_written = lambda table, key: of_written(table, key)[:1]
        try:
            yield from super()._prepare(asked, given)
        finally:
            self._names.of_written = of_written


class AbsentForGood(Seen):
    """Shows that a row is absent whatever its number says."""

    def _shown(self, part, number, found, at):
        kept = None if found is None else self._unpacked(part, found.value)
        if kept is not None and kept.answer is None and number is not None:
            number = number._replace(value=kept.number)
        return super()._shown(part, number, found, at)


MUTATIONS = (
    Blind, NotBefore, NotAfter, FromZero, NumberLate, AgeOfThePut, Ageless, Forgetful, WholeOnly, AbsentForGood,
)  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
def test_a_broken_rule_is_found(mutation):
    def breaks(seed):
        try:
            run(seed, mutation)
        except AssertionError:
            return True
        return False

    assert any(breaks(seed) for seed in range(SEEDS))
