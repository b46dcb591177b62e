"""Cache-first counters as their callers see them: values, losses, faults, and what each verb asks of whom."""

import math
import operator

import pytest

from oneread import Schema, connect
from oneread.caches.memory import MemoryCache
from oneread.counters import cache_first
from oneread.counters.cache_committer import CacheFirstRules
from oneread.counters.cache_first import TRIES, CacheLoss, cache_key
from oneread.counters.rows import Sums, encode_sums, greatest_key, name_key
from oneread.counters.wanted import MOST_GROWTH, CounterRules
from oneread.errors import (
    Corrupt,
    InvalidKey,
    InvalidQuery,
    InvalidValue,
    LimitExceeded,
    OutcomeUnknown,
    Unavailable,
    UsageError,
)
from oneread.plans.effects import Now
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.cache import MOST, CacheAdd, CacheIncrement, CacheRead, CacheSwap
from oneread.store.requests import Mutate
from oneread.store.rows import VALUE, Cell, RowMutation
from tests.unit.counters.handles import Handle, Nothing, is_clean
from tests.unit.counters.recording import RecordingCache

KEY = cache_key("views")


@pytest.fixture
def cache(face, asked):
    """The cache of the face under test."""
    found = face.db._driver.cache = RecordingCache(MemoryCache(), asked)
    return found


@pytest.fixture
def views(face, cache):
    assert cache is face.db._driver.cache
    return handle(face, "views", chance_to_write=1e-6, shards=1)


def handle(face, name, **options):
    return Handle(face, face.db.cache_counter(name, **options))


def restart(face):
    """Lets the process forget what it has shown, as a new one does."""
    face.db.operations.cache_counters.seen = type(face.db.operations.cache_counters.seen)()


def test_a_counter_is_made_by_its_first_add(face, views):
    assert views.stored() == 0
    assert face.cache_counters() == []
    views.add()
    views.add(10)
    assert views.read() == 11
    seen = views.look()
    assert (seen.value, seen.stored, seen.rows, seen.unsaved) == (11, 1, 1, 10)
    assert [(each.number, each.value) for each in views.shards()] == [(0, 1)]
    assert [each.name for each in face.cache_counters()] == ["views"]
    assert handle(face, "view").read() == handle(face, "views2").read() == 0
    assert face.counters() == [], "a named counter of this name is another counter"


def test_a_deleted_counter_begins_again(face, cache, views, asked):
    views.delete()
    for _ in range(5):
        handle(face, "views", chance_to_write=1, shards=3).add(10)
    handle(face, "views2", chance_to_write=1).add(7)
    rows = len(views.shards())
    asked.clear()
    views.delete()
    assert asked == ["CacheRead", "CacheSwap", "Read 1", f"Scan {rows}", *["CheckAndMutate 0"] * (rows + 1)]
    assert (views.stored(), views.shards(), views.read()) == (0, [], 0)
    assert [each.name for each in face.cache_counters()] == ["views2"]
    asked.clear()
    views.delete()
    removed = 0 if face.db.operations.spans_rows else rows  # they stay, as removed ones
    assert asked == ["CacheRead", "Read 1", f"Scan {removed}"]
    views.add(3)
    assert (views.read(), handle(face, "views2").read()) == (3, 7)
    cache.cache.lose()
    views.delete()
    assert views.read() == 0
    assert is_clean(face)


def test_a_row_without_a_value_is_deleted_with_its_counter(face, views):
    views.add(5)
    damaged = RowMutation(greatest_key(name_key("views"), 200), {b"d:x": Cell(b"other", 5)})
    face.db._driver.engine.answer(Mutate("counts", [damaged]))
    with pytest.raises(Corrupt):
        views.stored()
    views.delete()
    assert (views.stored(), views.shards(), is_clean(face)) == (0, [], True)


def test_nothing_is_deleted_when_the_cache_does_not_answer(face, cache, views):
    views.add(5)
    for failing, error in (
        ({CacheRead: [Unavailable("dead")]}, Unavailable),
        ({CacheSwap: [OutcomeUnknown("slow")]}, OutcomeUnknown),
    ):
        cache.failing = failing
        with pytest.raises(error):
            views.delete()
        assert views.stored() == 5
    cache.answer = lambda request, answer=cache.answer: not isinstance(request, CacheSwap) and answer(request)
    with pytest.raises(Unavailable, match="others add to this counter"):
        views.delete()
    face.db._driver.cache = None
    with pytest.raises(UsageError, match="this database has no cache"):
        views.delete()
    assert views.stored() == 5


def test_an_add_returns_no_number(views):
    assert views.add() is None


def test_what_each_verb_asks(face, cache, views, asked):
    def ask(call, *given, **named):
        asked.clear()
        call(*given, **named)
        return asked.copy()

    stored = ["Read 1", "CheckAndMutate 0", "Scan 0", "CheckAndMutate 0"]
    assert ask(views.add) == ["CacheIncrement", "Scan 0", "CacheAdd", *stored]
    assert ask(views.add) == ["CacheIncrement"]
    assert ask(views.add, 10) == ["CacheIncrement"]
    assert ask(views.read) == ["CacheRead"]
    assert ask(views.look) == ["CacheRead", "Scan 1"]
    assert ask(views.stored) == ["Scan 1"]
    assert ask(views.shards) == ["Scan 1"]
    assert ask(face.cache_counters) == ["Scan 1"]
    always = handle(face, "views", chance_to_write=1, shards=1)
    assert ask(always.add) == ["CacheIncrement", "Read 1", "Scan 1", "CheckAndMutate 0"]
    cache.cache.lose()
    assert ask(views.read) == ["CacheRead", "Scan 1", "CacheAdd", "Scan 1"]
    cache.cache.lose()
    assert ask(views.add) == ["CacheIncrement", "Scan 1", "CacheAdd", "Read 1", "Scan 1", "CheckAndMutate 0"]
    cache.cache.lose()
    restart(face)
    assert ask(handle(face, "views", shards=256).read) == ["CacheRead", "Scan 1", "CacheAdd", "Scan 1"]


def test_a_lost_cache_loses_what_was_not_stored(face, cache, views):
    handle(face, "views", chance_to_write=1).add(5)
    views.add(3)
    assert views.read() == 8
    cache.cache.lose()
    restart(face)
    assert views.read() == 5
    cache.cache.lose()
    views.add()
    assert views.read() == 6
    assert views.stored() == 6, "an add that puts a counter back is stored"


def test_a_process_never_shows_less_than_it_has_shown(cache, views):
    views.add(5)
    views.add(3)
    cache.cache.lose()
    assert views.read() == 8
    cache.cache.lose()
    views.add()
    assert views.read() == views.stored() == 9


def test_a_process_that_knows_more_than_the_cache_raises_it(cache, views):
    views.add(5)
    views.add(3)
    cache.cache.lose()
    cache.cache.answer(CacheAdd(KEY, 5))  # another process, which knows what is stored
    assert views.read() == 8
    views.add()
    assert cache.cache.answer(CacheRead(KEY)).value == views.stored() == 8, "what the other process lost stays lost"
    views.add()
    assert views.read() == 9


def test_a_stale_value_put_back_late_is_raised(face, cache, views):
    """A reader scans the store, sleeps while others fill the cache, count, store and lose it, and then fills it."""
    handle(face, "views", chance_to_write=1).add(5)
    cache.cache.lose()
    restart(face)
    answer = cache.answer
    plans = face.db.operations.cache_counters

    def late(request):
        if type(request) is CacheAdd:
            cache.answer = answer
            others = SyncDriver(face.db._driver.engine, cache=cache)
            others.run(plans.add("views", 90, plans.declared(1, 1)), Trace())
            cache.cache.lose()
            restart(face)
        return answer(request)

    cache.answer = late
    assert views.read() == 95
    assert cache.cache.answer(CacheRead(KEY)).value == 95


def test_a_raise_does_not_lower_what_was_counted_meanwhile(face, cache, views):
    views.add(5)
    handle(face, "views", chance_to_write=1).add(95)
    cache.cache.lose()
    restart(face)
    cache.cache.answer(CacheAdd(KEY, 7))
    answer = cache.answer

    def between(request):
        if type(request) is CacheSwap:
            cache.answer = answer
            cache.cache.answer(CacheIncrement(KEY, 1000))
        return answer(request)

    cache.answer = between
    handle(face, "views", chance_to_write=1).add()
    assert views.read() == 1008


def test_programs_may_differ_in_their_chance_and_the_least_is_shown(face, cache):
    assert cache.cache
    for chance, shown in ((0.5, 0.5), (1, 0.5), (0.25, 0.25), (0.3, 0.25)):
        counter = handle(face, "views", chance_to_write=chance)
        cache.cache.lose()
        counter.add()
        (entry,) = face.cache_counters()
        assert entry.chance_to_write == shown
    assert entry.loss.mean == 3
    assert entry.loss.most == 24


def test_stored_values_are_spread_and_the_greatest_counts(face, cache):
    assert cache.cache
    counter = handle(face, "views", chance_to_write=1, shards=256)
    for _ in range(500):
        counter.add()
    rows = counter.shards()
    assert 180 < len(rows) <= 256
    assert max(each.value for each in rows) == counter.stored() == 500
    assert sum(each.value for each in rows) > 500


def test_a_value_that_is_stored_late_lowers_nothing(face, asked):
    plans, driver = face.db.operations.cache_counters, SyncDriver(face.db._driver.engine)
    for value, greatest in ((9, 9), (5, 9), (9, 9), (10, 10)):
        assert driver.run(plans.committer.keep(name_key("views"), value, CacheFirstRules(0.5, 1)), Trace()) == greatest
        assert handle(face, "views").stored() == greatest
    assert asked


def test_shards_are_as_the_schema_says(url):
    with connect(url, Schema(Nothing, counters=CounterRules(shards=1)), cache="memory://") as db:
        for _ in range(30):
            db.cache_counter("views", chance_to_write=1).add()
        assert [each.value for each in db.cache_counter("views").shards()] == [30]


def test_without_a_cache_only_the_stored_value_is_there(face):
    views = handle(face, "views")
    for verb in (views.add, views.read, views.look):
        with pytest.raises(UsageError, match="has no cache"):
            verb()
    assert views.stored() == 0


@pytest.mark.parametrize("amount", [0, -1, MOST_GROWTH + 1, 1.0, "1", None, True], ids=repr)
def test_an_amount_is_1_or_more(views, amount, asked):
    with pytest.raises(InvalidValue, match="only grows"):
        views.add(amount)
    assert not asked


@pytest.mark.parametrize("name", ["", "x" * 201, "\ud800", None, b"views", 7], ids=repr)
def test_a_name_is_text(face, name):
    with pytest.raises(InvalidKey):
        face.db.cache_counter(name)


@pytest.mark.parametrize("chance", [0, -1, 1.1, math.nan, math.inf, True, "0.1", 1e-7], ids=repr)
def test_a_chance_is_above_0_and_up_to_1(face, chance):
    with pytest.raises(InvalidValue, match="chance_to_write"):
        face.db.cache_counter("views", chance_to_write=chance)


@pytest.mark.parametrize("shards", [0, 257, 1.0, "1"], ids=repr)
def test_there_are_1_to_256_shards(face, shards):
    with pytest.raises(InvalidValue, match="1 to 256"):
        face.db.cache_counter("views", shards=shards)


def test_it_refuses_to_number_entities(face):
    counter = face.db.cache_counter("orders")
    for number in (int, next, operator.index, range, hex):
        with pytest.raises(UsageError, match="sequence"):
            number(counter)
    with pytest.raises(InvalidKey, match="CacheCounter"):
        face.save(Nothing(number=counter))


def test_a_list_has_all_counters_in_bounded_requests(face, cache, monkeypatch):
    assert cache.cache
    for number in range(101):
        handle(face, f"{number:03}", chance_to_write=1).add()
    assert [each.name for each in face.cache_counters()] == [f"{number:03}" for number in range(101)]
    monkeypatch.setattr(cache_first, "LISTED", 40)
    assert [each.name for each in face.cache_counters()] == [f"{number:03}" for number in range(101)]
    assert [each.name for each in face.cache_counters(limit=41)] == [f"{number:03}" for number in range(41)]


def test_lists_have_an_order_and_a_limit(face, cache):
    assert cache.cache
    for name in ("b", "a:2", "a:1", "a\0", "ä"):
        handle(face, name).add()
    assert [each.name for each in face.cache_counters()] == ["a\0", "a:1", "a:2", "b", "ä"]
    assert [each.name for each in face.cache_counters("a:")] == ["a:1", "a:2"]
    assert [each.name for each in face.cache_counters(after="a:1", limit=2)] == ["a:2", "b"]
    with pytest.raises(InvalidQuery):
        face.cache_counters(limit=0)
    with pytest.raises(InvalidKey):
        face.cache_counters(after=7)
    for prefix in (7, None, b"a", "x" * 201):
        for listed in (face.cache_counters, face.counters):
            with pytest.raises(InvalidKey, match="a prefix is"):
                listed(prefix)


def test_a_number_that_no_program_counted_is_not_stored(face, cache, views):
    views.add(5)
    value = cache.cache.answer(CacheRead(KEY))
    cache.cache.answer(CacheSwap(KEY, value.token, MOST - 1))
    always = handle(face, "views", chance_to_write=1)
    for verb in (always.add, always.read, always.look):
        with pytest.raises(LimitExceeded, match=r"remove its key .*counter:views"):
            verb()
    always.add()  # beyond the greatest number it begins again at 0: less than was shown, so it is raised
    assert always.read() == always.stored() == 5
    always.add()
    assert always.read() == 6


def test_the_refused_number_is_named_as_the_cache_calls_it(cache, views):
    views.add(5)
    cache.cache = MemoryCache(scope="store")
    cache.cache.answer(CacheAdd(KEY, MOST))
    with pytest.raises(LimitExceeded, match="key='store:counter:views'"):
        views.read()


def test_an_unknown_outcome_of_the_cache_is_the_callers(views, cache):
    views.add()
    cache.failing[CacheIncrement] = [OutcomeUnknown("lost"), Unavailable("dead"), Corrupt("odd")]
    for error in (OutcomeUnknown, Unavailable, Corrupt):
        with pytest.raises(error):
            views.add()
    assert views.read() == 1


def test_putting_back_for_a_read_counts_nothing_so_its_outcome_does_not_matter(views, cache):
    cache.failing[CacheAdd] = [OutcomeUnknown("lost")]
    with pytest.raises(Unavailable):
        views.read()
    assert views.read() == 0


class FullStore:
    """Stores nothing."""

    def keep(self, _name, _value, _rules):
        yield from Now()
        raise LimitExceeded("the disk is full")


def test_an_add_that_was_counted_and_not_stored_says_so(face, cache, views):
    views.add()
    face.db.operations.cache_counters.committer = FullStore()
    always = handle(face, "views", chance_to_write=1)
    with pytest.raises(OutcomeUnknown, match=r"do not add it again .*'views', value=2") as caught:
        always.add()
    assert isinstance(caught.value.__cause__, LimitExceeded)
    assert not caught.value.retryable
    assert views.read() == 2
    cache.cache.lose()
    restart(face)
    with pytest.raises(OutcomeUnknown):
        views.add()


def test_a_cache_that_keeps_nothing_is_named(views, cache):
    answer = cache.answer

    def forgetful(request):
        cache.cache.lose()
        if type(request) is CacheAdd:
            cache.cache.answer(CacheAdd(KEY, 1))  # another process is faster, and what it put is lost
        return answer(request)

    cache.answer = forgetful
    with pytest.raises(Unavailable, match="as soon as it has it"):
        views.add()
    with pytest.raises(Unavailable, match="as soon as it has it"):
        views.read()
    assert TRIES > 1


def test_the_bound_follows_from_the_chance(face):
    assert face.db.cache_counter("views").loss.mean == pytest.approx(9)
    assert face.db.cache_counter("views", chance_to_write=1).loss == CacheLoss(0.0, 0.0)
    for chance in (0.9, 0.5, 0.25, 0.1, 0.01, 1e-3, 1e-6):
        most = face.db.cache_counter("views", chance_to_write=chance).loss.most
        assert (1 - chance) ** (most + 1) <= 1e-3 < (1 - chance) ** most, "the least number that is so rarely exceeded"
        assert most <= math.log(1000) / chance < (most + 1) / (1 - chance), "the published bound"


def test_verify_finds_damaged_rows_and_leaves_whole_ones(face, views):
    views.add()
    assert is_clean(face)
    shard = greatest_key(name_key("views"), 0)
    put = RowMutation(shard, {VALUE: Cell(encode_sums(Sums(1, 2)), 2**50)})
    SyncDriver(face.db._driver.engine).run(iter(Mutate("counts", [put])), Trace())
    (fault,) = face.verify().faults
    assert fault.kind == "unreadable"
    with pytest.raises(Corrupt):
        views.stored()


def test_handles_are_readable(face):
    assert "CacheCounter 'views': 0.1 of its adds are stored" in repr(face.db.cache_counter("views"))


def test_a_named_counter_of_the_same_name_is_another(face, views):
    views.add(5)
    counted = Handle(face, face.db.counter("views"))
    counted.add(-3)
    assert (views.read(), counted.read()) == (5, -3)
