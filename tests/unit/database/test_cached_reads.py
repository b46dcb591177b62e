"""Reads through a cache: what they cost, what they show after writes, and that a cache that fails fails nothing."""

from datetime import timedelta
from uuid import uuid4

import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Schema,
    by,
    connect,
    count,
    descending,
    greatest,
    shown,
)
from oneread.caches.memory import named
from oneread.errors import InvalidQuery, NotFound, Unavailable, UsageError
from oneread.plans import read_cache
from oneread.plans.effects import Now
from oneread.plans.trace import Cost
from tests.unit.database.faces import FACES

MAX_AGE = 60


class Author(Model[int]):
    number: Key[int]
    name: str


class Writer(Copy[Author]):
    name: str


class Post(Model[int, int]):
    thread: Key[int]
    number: Key[int]
    author: Writer
    score: int
    hidden: str | None = None


class PostsOfAuthor(Index[Post]):
    author: Writer = by(Post.author)
    score: int = descending(Post.score)
    thread: int = shown(Post.thread)


class PostByScore(Index[Post]):
    unique = True
    score: int = by(Post.score)


class ScoreOfAuthor(Aggregate[Post]):
    author: Writer = by(Post.author)
    posts: int = count()
    best: int | None = greatest(Post.score)


SCHEMA = Schema(Author, Post, PostsOfAuthor, PostByScore, ScoreOfAuthor, portable=True)


class Clock:
    def __init__(self):
        self.now = 1_700_000_000_000

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def places():
    """The URLs of a store and of a cache that nothing else uses."""
    name = str(uuid4())
    return f"memory://{name}?span=row", f"memory://{name}"


@pytest.fixture(params=FACES.values(), ids=FACES)
def db(request, places, clock):
    url, cache = places
    opened = request.param(url, SCHEMA, cache=cache, max_age=MAX_AGE, workers=0, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def elsewhere(places, clock):
    """Another program that has the same cache."""
    url, cache = places
    with connect(url, SCHEMA, cache=cache, max_age=MAX_AGE, workers=0, clock=clock) as opened:
        yield opened


@pytest.fixture
def silent(places, clock):
    """A program that does not have the cache."""
    with connect(places[0], SCHEMA, workers=0, clock=clock) as opened:
        yield opened


@pytest.fixture
def held(places):
    """What the cache holds."""
    return named(places[1].removeprefix("memory://")).values


def fill(db, score=5):
    db.save(Author(number=1, name="Ada"))
    db.save(Post(thread=1, number=1, author=Writer.of(1), score=score))


READS = {
    "get": lambda db, **options: db.get(Post, 1, 1, **options),
    "find": lambda db, **options: db.find(Post, 1, 1, **options),
    "get_many": lambda db, **options: db.get_many(Post, [(1, 1), (1, 2)], **options),
    "page": lambda db, **options: db.page(PostsOfAuthor, 1, **options),
    "unique": lambda db, **options: db.get(PostByScore, 5, **options),
    "group": lambda db, **options: db.get(ScoreOfAuthor, 1, **options),
    "groups": lambda db, **options: db.page(ScoreOfAuthor, **options),
    "entities": lambda db, **options: db.page(Post, 1, **options),
    "everything": lambda db, **options: db.page(Post, **options),
}


def shape(found):
    return [*found] if hasattr(found, "rows") else found


def cost(db, found):
    if hasattr(found, "rows"):
        return found.cost
    return db.cost(found[0] if isinstance(found, list) else found)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_hit_asks_nothing_of_the_store_and_a_miss_no_more_than_before(db, silent, read):
    fill(db)
    plain = read(silent)
    first = read(db)
    assert cost(db, first) == cost(silent, plain)
    second = read(db)
    assert cost(db, second) == Cost()
    assert shape(first) == shape(second) == shape(plain)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_another_program_wrote_is_shown_at_once(db, elsewhere, silent, read):
    fill(db)
    read(db)
    elsewhere.patch(Author, 1, name="Bea")
    assert shape(read(db)) == shape(read(silent))
    elsewhere.save(Post(thread=1, number=2, author=Writer.of(1), score=9))
    assert shape(read(db)) == shape(read(silent))
    elsewhere.patch(Post, 1, 1, hidden="x")
    assert shape(read(db)) == shape(read(silent))


def test_copies_follow_their_source_through_the_cache(db, elsewhere):
    fill(db)
    assert db.get(Post, 1, 1).author.name == "Ada"
    elsewhere.patch(Author, 1, name="Bea")
    assert db.get(Post, 1, 1).author.name == "Bea"


def test_an_absent_entity_is_remembered_until_it_is_made_and_when_it_is_deleted(db, elsewhere):
    fill(db)
    assert db.find(Post, 7, 7) is None
    elsewhere.save(Post(thread=7, number=7, author=Writer.of(1), score=7))
    assert db.get(Post, 7, 7).score == 7
    elsewhere.delete(Post, 7, 7)
    assert db.find(Post, 7, 7) is None
    with pytest.raises(NotFound):
        db.get(Post, 7, 7)


def test_every_limit_cursor_bound_and_direction_is_an_answer_of_its_own(db, silent):
    fill(db)
    for number in range(2, 9):
        db.save(Post(thread=1, number=number, author=Writer.of(1), score=10 + number))
    for _ in range(2):
        for options in ({"limit": 3}, {"limit": 2}, {"limit": 3, "backward": True}, {"limit": 3, "since": 13}):
            found, plain = db.page(PostsOfAuthor, 1, **options), silent.page(PostsOfAuthor, 1, **options)
            assert [*found] == [*plain]
            further = {**options, "cursor": found.next or found.previous, "backward": False}
            assert [*db.page(PostsOfAuthor, 1, **further)] == [*silent.page(PostsOfAuthor, 1, **further)]


def test_an_answer_is_shown_until_it_is_too_old(db, silent, clock):
    fill(db)
    assert db.get(Post, 1, 1).score == 5
    silent.patch(Post, 1, 1, score=6)
    clock.now += MAX_AGE * 1000 - 1
    assert db.get(Post, 1, 1).score == 5, "nobody told the cache"
    clock.now += 1
    assert db.get(Post, 1, 1).score == 6


def test_an_answer_of_a_program_whose_clock_is_ahead_is_not_shown(db, elsewhere, clock):
    fill(db)
    clock.now += 1
    elsewhere.get(Post, 1, 1)
    clock.now -= 1
    assert cost(db, db.get(Post, 1, 1)).requests == 1


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_says_how_old_its_answer_may_be(db, silent, clock, read):
    fill(db)
    read(db)
    silent.patch(Post, 1, 1, hidden="x")
    clock.now += 10_000
    assert cost(db, read(db, max_age=10.001)) == Cost()
    assert cost(db, read(db, max_age=10)) != Cost()
    assert cost(db, read(db, max_age=10)) == Cost()
    assert cost(db, read(db, max_age=0)) != Cost()


def test_a_fresh_read_goes_past_the_cache_and_renews_it(db, silent):
    fill(db)
    db.get(Post, 1, 1)
    silent.patch(Post, 1, 1, score=6)
    assert db.get(Post, 1, 1).score == 5
    assert db.get(Post, 1, 1, fresh=True).score == 6
    assert db.get(Post, 1, 1).score == 6
    with pytest.raises(InvalidQuery):
        db.get(ScoreOfAuthor, 1, fresh=True)


def test_a_page_that_includes_a_write_goes_past_the_cache(db, silent):
    fill(db)
    db.page(PostsOfAuthor, 1)
    written = silent.patch(Post, 1, 1, score=6)
    assert db.page(PostsOfAuthor, 1)[0].score == 5
    assert db.page(PostsOfAuthor, 1, includes=silent.tasks(written).token)[0].score == 6


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("max_age", [-1, float("nan"), float("inf"), 31 * 86_400, "5", True, timedelta(1)])
def test_a_max_age_that_is_none_is_refused(db, read, max_age):
    with pytest.raises(UsageError, match="max_age"):
        read(db, max_age=max_age)


def test_a_program_with_a_max_age_of_0_renews_the_cache_and_does_not_read_it(db, places, clock):
    url, cache = places
    fill(db)
    db.get(Post, 1, 1)
    with connect(url, SCHEMA, cache=cache, max_age=0, workers=0, clock=clock) as writer:
        assert writer.cost(writer.get(Post, 1, 1)).requests == 1
        assert writer.cost(writer.get(Post, 1, 1, max_age=5)).requests == 0
        writer.patch(Post, 1, 1, score=6)
    assert db.get(Post, 1, 1).score == 6


def answers(held):
    return [place for place in held if place[1].startswith("answer:")]


def garbage(value):
    return [b"", b"\0", b"x" * 16, value[:-1], value + b"\0", value[:20], bytes(len(value)), value[::-1], b"x" * 10**6]


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_whatever_else_is_in_the_cache_is_a_miss(db, held, read):
    fill(db)
    expected = shape(read(db))
    for number in range(9):
        for place in [*held]:
            held[place] = held[place]._replace(value=garbage(held[place].value)[number])
        assert shape(read(db)) == expected
        assert cost(db, read(db)) == Cost(), "it was put again"


def test_the_answer_of_another_place_is_a_miss(db, held):
    fill(db)
    db.save(Post(thread=1, number=2, author=Writer.of(1), score=6))
    assert (db.get(Post, 1, 1).score, db.get(Post, 1, 2).score) == (5, 6)
    one, other = answers(held)
    held[one], held[other] = held[other], held[one]
    assert (db.get(Post, 1, 1).score, db.get(Post, 1, 2).score) == (5, 6)


def test_an_answer_that_is_too_long_is_not_kept(db, held):
    fill(db)
    for number in range(2, 5):
        db.save(Post(thread=1, number=number, author=Writer.of(1), score=number, hidden="x" * 400_000))
    for _ in range(2):
        assert db.page(Post, 1).cost.requests == 1
    assert not answers(held)


class Failing:
    """A cache that does not answer while `fails`, beside one that does."""

    local = True

    def __init__(self, cache):
        self.cache, self.fails, self.asked = cache, False, 0

    def answer(self, request):
        self.asked += 1
        if self.fails:
            raise Unavailable("the cache is dead")
        return self.cache.answer(request)

    def close(self):
        self.cache.close()


def fail(db, monkeypatch):
    """The cache of a database, which can be made to fail, and a clock for its pauses."""
    driver = getattr(db.db, "_driver")  # noqa: B009 - of either face
    driver.cache = Failing(driver.cache)
    now = [0.0]
    monkeypatch.setattr(driver.reads, "_clock", lambda: now[0])
    return driver.cache, now


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_dead_cache_fails_no_read_and_no_write(db, silent, monkeypatch, read):
    fill(db)
    cache, now = fail(db, monkeypatch)
    cache.fails = True
    for number in range(3):
        db.patch(Post, 1, 1, hidden=str(number))
        assert shape(read(db)) == shape(read(silent))
        assert cost(db, read(db)) == cost(silent, read(silent))
    assert cache.asked == 1, "a dead cache is not asked again at once"
    now[0] += read_cache.PAUSE_SECONDS
    read(db)
    assert cache.asked == 2
    assert db.cache_use.failures == 2


def test_what_was_written_while_the_cache_was_dead_is_shown_when_it_answers(db, elsewhere, monkeypatch):
    fill(db)
    assert (db.get(Post, 1, 1).score, elsewhere.get(Post, 1, 1).score) == (5, 5)
    cache, now = fail(db, monkeypatch)
    cache.fails = True
    db.patch(Post, 1, 1, score=6)
    assert db.get(Post, 1, 1).score == 6
    assert elsewhere.get(Post, 1, 1).score == 5, "the cache could not be told"
    cache.fails = False
    now[0] += read_cache.PAUSE_SECONDS
    assert db.get(Post, 1, 1).score == 6
    assert elsewhere.get(Post, 1, 1).score == 6


def test_more_numbers_than_a_program_remembers_are_waited_for(db, monkeypatch):
    monkeypatch.setattr(read_cache, "MOST_OWED", 3)
    fill(db)
    db.get(Post, 1, 1)
    cache, now = fail(db, monkeypatch)
    cache.fails = True
    db.patch(Post, 1, 1, score=6)
    cache.fails = False
    now[0] += read_cache.PAUSE_SECONDS
    assert db.get(Post, 1, 1).score == 6
    assert cache.asked == 1, "what is in the cache may be older than what this program wrote"


def test_a_write_that_is_refused_leaves_the_cache_as_it_is(db, elsewhere):
    fill(db)
    db.get(Post, 1, 1)
    with pytest.raises(NotFound):
        elsewhere.patch(Post, 9, 9, score=1)
    assert cost(db, db.get(Post, 1, 1)) == Cost()


class Event(Model[int, int]):
    spread = 3
    day: Key[int]
    number: Key[int]
    kind: int


class EventsOfKind(Index[Event]):
    spread = 3
    kind: int = by(Event.kind)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_of_what_is_spread_a_write_renews_its_own_range(face, places):
    db = face(places[0], Schema(Event, EventsOfKind), cache=places[1], max_age=MAX_AGE, workers=0)
    for number in range(6):
        db.save(Event(day=1, number=number, kind=number % 2))
    reads = [*[lambda at=at: db.get(Event, 1, at) for at in range(6)], lambda: db.page(EventsOfKind, 0)]
    for read in reads:
        read()
    db.save(Event(day=1, number=1, kind=1))
    assert [cost(db, read()).requests for read in reads] == [0, 1, 0, 0, 0, 0, 0]
    db.save(Event(day=1, number=2, kind=1))
    assert {row.source.key[1] for row in db.page(EventsOfKind, 0)} == {0, 4}
    assert {row.source.key[1] for row in db.page(EventsOfKind, 1)} == {1, 2, 3, 5}
    assert {each.number for each in db.page(Event, 1)} == set(range(6))
    db.close()


def test_use_is_counted(db):
    fill(db)
    before = db.cache_use
    db.get_many(Post, [(1, 1), (1, 2)])
    db.get_many(Post, [(1, 1), (1, 2), (1, 3)])
    assert (db.cache_use.hits - before.hits, db.cache_use.misses - before.misses) == (2, 3)


def test_of_several_entities_only_those_are_read_that_the_cache_lacks(db):
    fill(db)
    db.save(Post(thread=1, number=2, author=Writer.of(1), score=6))
    db.get(Post, 1, 2)
    found = db.get_many(Post, [(1, 1), (1, 2), (1, 1)])
    assert [each.score for each in found] == [5, 6, 5]
    assert db.cost(found[0]).rows == 2


def test_scans_go_past_the_cache(db, held):
    fill(db)
    for _ in range(2):
        assert [each.score for page in db.pages(Post) for each in page] == [5]
    assert not answers(held)


def test_a_transaction_reads_the_store(db, silent):
    fill(db)
    db.get(Post, 1, 1)
    silent.patch(Post, 1, 1, score=6)
    assert db.transact([("get", (Post, 1, 1), {})])[0].score == 6


def older():
    class Note(Model[int]):
        number: Key[int]
        text: str

    return Note


def newer():
    class Note(Model[int]):
        number: Key[int]
        text: str
        extra: int | None = None

    return Note


def test_programs_of_two_schemas_share_a_cache(places, clock):
    url, cache = places
    old, new = older(), newer()
    options = {"cache": cache, "max_age": MAX_AGE, "workers": 0, "clock": clock}
    with connect(url, Schema(old), **options) as before:
        before.save(old(number=1, text="a"))
        assert before.get(old, 1).text == "a"
        with connect(url, Schema(new), **options) as after:
            assert after.cost(after.get(new, 1)) == Cost()
            assert after.get(new, 1).extra is None
            after.patch(new, 1, extra=7)
            assert [after.get(new, 1).extra for _ in range(2)] == [7, 7]
            assert [before.get(old, 1).text for _ in range(2)] == ["a", "a"]
            before.patch(old, 1, text="b")
            assert (after.get(new, 1).text, after.get(new, 1).extra) == ("b", 7)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
@pytest.mark.parametrize("url", ["lmdb://{}/store", "memory://", "memory://?span=rows"])
def test_a_store_in_this_process_is_not_cached(face, url, tmp_path):
    with pytest.raises(UsageError, match="leave max_age out"):
        face(url.format(tmp_path), SCHEMA, cache="memory://", max_age=5)
    opened = face(url.format(tmp_path), SCHEMA, workers=0)
    fill(opened)
    assert opened.get(Post, 1, 1, max_age=5).score == 5
    assert opened.page(PostsOfAuthor, 1, max_age=5)[0].score == 5
    assert opened.cache_use is None
    with pytest.raises(UsageError, match="max_age"):
        opened.get(Post, 1, 1, max_age=-1)
    opened.close()


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_max_age_needs_a_cache_and_a_number_of_seconds(face, places):
    with pytest.raises(UsageError, match="cache="):
        face(places[0], SCHEMA, max_age=5)
    for wrong in (-1, "5", True, 31 * 86_400, float("nan")):
        with pytest.raises(UsageError, match="max_age"):
            face(places[0], SCHEMA, cache=places[1], max_age=wrong)


def test_no_thread_reads_the_cache_while_another_gives_what_was_owed(places, clock):
    """The cache did not answer when an author was renamed; then it does, and the first thread gives the numbers."""
    url, cache = places
    with connect(url, SCHEMA, cache=cache, max_age=MAX_AGE, workers=0, clock=clock) as opened:
        opened.save(Author(number=1, name="old"))
        assert opened.get(Author, 1).name == "old"
        reads, replace, seen = opened._driver.reads, read_cache.ReadCache._replace, []

        def replace_slowly(self, names):
            seen.append(opened.get(Author, 1).name if not seen else "")
            return (yield from replace(self, names))

        reads._paused_until = clock() / 1000 + 5
        opened.patch(Author, 1, name="new")
        assert reads._owed
        clock.now += 5_000
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(read_cache.ReadCache, "_replace", replace_slowly)
            assert opened.get(Author, 1).name == "new"
        assert seen[0] == "new", "a thread that reads while another one gives"
        assert not reads._giving


def test_a_failure_does_not_shorten_the_pause_after_too_many_were_owed(places, clock, monkeypatch):
    monkeypatch.setattr(read_cache, "MOST_OWED", 0)
    with connect(places[0], SCHEMA, cache=places[1], max_age=MAX_AGE, workers=0, clock=clock) as opened:
        reads = opened._driver.reads
        now = reads._clock()
        reads._owe(["a"])
        asking = reads._ask(Now())
        next(asking)
        with pytest.raises(StopIteration):
            asking.throw(Unavailable("away"))
        assert reads._paused_until >= now + MAX_AGE
