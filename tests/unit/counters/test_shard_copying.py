"""Fields that show counters on a store that changes one row at a time: what each call asks, and the same answers."""

from uuid import UUID, uuid4

import pytest

from oneread import Index, Key, Model, Schema, connect, counter, descending, rollup
from oneread.counters.dumping import RestoreCounter
from oneread.counters.rows import MARKED, MARKS, SETTINGS, name_key, shard_key, shards_of
from oneread.counters.settings import read_settings_row, show_in_settings
from oneread.counters.shard_copying import ShardCopier, show_counter
from oneread.counters.shard_rows import SHOWN, ShardChange, ShardRow
from oneread.errors import OnereadError
from oneread.plans.effects import Sleep
from oneread.plans.retry import ATTEMPTS
from oneread.store.requests import CheckAndMutate, Read, Scan
from oneread.transactions import journal_recovery
from oneread.transactions.derived_writes import CounterRows
from oneread.transfer.load import DumpReader, parse_head
from tests.properties.pages_and_views import (
    PAGES,
    Link,
    LinksByViews,
    Page,
    PagesByViews,
    PageTitle,
    Site,
    SitesByViews,
)
from tests.unit.database.faces import FACES
from tests.unit.derivations.test_counter_fields import schemas

LINK = UUID(int=1)
SWAP = "CheckAndMutate counts"


@pytest.fixture(params=["hide", "remove"])
def url(request):
    return f"memory://{uuid4()}?span=row&deletes={request.param}"


@pytest.fixture
def db(url):
    with connect(url, PAGES, workers=0) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_wait(monkeypatch):
    """Older programs are closed, or at rest, when they are cut off."""
    monkeypatch.setattr(journal_recovery, "END_SECONDS", 0.0)


def marked(db):
    return [key[len(MARKS) :] for key, _row in db.run(Scan("counts", MARKED, 1000).__iter__())]


def test_a_list_shows_and_sorts_by_counters(db):
    db.save(Site(name="x"))
    for number in range(3):
        db.save(Page(number=number, title="abc"[number], site=Site.at("x")))
    db.save(Link(id=LINK, place=1, page=PageTitle.of(1)))
    for number, views in enumerate((3, 8, 5)):
        db.counter(f"views:{number}").add(views)
    db.counter("likes:1").add(2)
    db.counter("visits:x").add(7)
    db.counter(f"clicks:1/{LINK}").add(4, once="a")
    assert [(row.title, row.views) for row in db.page(PagesByViews)] == [("a", 0), ("b", 0), ("c", 0)]
    db.drain()
    shown = [(row.title, row.views, row.likes) for row in db.page(PagesByViews)]
    assert shown == [("b", 8, 2), ("c", 5, 0), ("a", 3, 0)]
    assert [(row.views, row.visits) for row in db.page(SitesByViews)] == [(16, 7)]
    assert [row.clicks for row in db.page(LinksByViews, 1)] == [4]
    assert db.get(Link, LINK, 1).page.views == 8
    db.counter("views:1").add(-6)
    db.drain()
    assert [row.title for row in db.page(PagesByViews)] == ["c", "a", "b"]
    assert db.get(Link, LINK, 1).page.views == 2
    assert (db.drain(), marked(db)) == (0, [])


class Shown(Model[int]):
    number: Key[int]
    views: int = rollup(counter("views:{number}"))


class ShownByViews(Index[Shown]):
    views: int = descending(Shown.views)


ONE = Schema(Shown, ShownByViews)


def adding(face, name, once=None):
    counters = face.db.operations.counters
    return counters.add(name_key(name), counters.declared(1, None), 1, once)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_what_each_call_asks(face, url):
    asked = []

    def observe(request, _answer):
        asked.append(f"{type(request).__name__} {request.table}")

    def ask(call):
        asked.clear()
        call()
        return asked.copy()

    opened = face(url, ONE, workers=0, observers=(observe,))

    def add(name="views:1", once=None):
        return ask(lambda: opened.run(adding(opened, name, once)))

    create = ["Read roots", "Mutate system"]
    first = ["Read counts", SWAP, "Scan counts"]
    commit = ["CheckAndMutate roots", "Mutate views", "Mutate roots", "Mutate system"]
    assert ask(lambda: opened.create(Shown(number=1))) == [*create, *first, *commit], "settings, and shards"
    add("views:2")
    assert ask(lambda: opened.create(Shown(number=2))) == [*create, *first[:2], "Scan counts", SWAP, *commit]
    begin = ["Read counts", SWAP, "Read counts", SWAP, "Read counts"]
    assert add() == [*begin, "Mutate counts", SWAP], "settings, a row that is made, and the mark"
    assert add() == [SWAP], "a row that has marked costs what an ordinary one does"
    assert add(once="a") == ["Read counts", SWAP, "Read counts", SWAP], "the settings say that there are tokens"
    assert add(once="b") == ["Read counts", SWAP]
    assert add(once="b") == ["Read counts"]
    unmark = ["Scan counts", "Read counts", SWAP]
    show = ["Read roots", "Read counts", "Scan counts", "Mutate system", "CheckAndMutate roots"]
    apply = ["Mutate views", "Mutate roots", "Mutate system", "Mutate counts"]
    copies = opened.db.operations.copies
    assert ask(lambda: opened.run(copies.copy_all())) == [*unmark, *show, *apply]
    assert ask(lambda: opened.run(copies.copy_all())) == ["Scan counts"]
    assert add(once="c") == ["Read counts", "Mutate counts", SWAP], "the first of an interval marks"
    assert add(once="d") == ["Read counts", SWAP]
    assert add() == [SWAP, "Read counts", "Read counts", SWAP], "the row was changed by the adds with tokens"
    assert add() == [SWAP]
    add("other")
    assert add("other") == [SWAP], "a counter that is not shown costs what it did"
    opened.close()


def test_an_entity_shows_what_was_counted_before_it(db):
    db.counter("views:1", shards=3).add(5)
    with db.counter_batch() as batch:
        batch.add("views:1", 4)
        batch.add("likes:1", 2)
    page = db.create(Page(number=1))
    assert (page.views, page.likes) == (9, 2)
    db.counter("views:1").add(1)
    db.delete(Page, 1)
    db.drain()
    assert marked(db) == []
    db.counter("views:1").add(2)
    assert db.save(Page(number=1)).views == 12
    db.drain()
    assert db.get(Page, 1).views == 12


def test_a_deleted_counter_is_shown_as_0_and_followed_again(db):
    db.save(Page(number=1))
    db.counter("views:1").add(5)
    db.drain()
    db.counter("views:1").delete()
    assert db.get(Page, 1).views == 5
    db.drain()
    assert db.get(Page, 1).views == 0
    db.counter("views:1", shards=3).add(2, once="a")
    assert [(each.name, each.shards) for each in db.counters("views:")] == [("views:1", 3)]
    db.drain()
    assert db.get(Page, 1).views == 2
    db.counter("views:1").configure(shards=2, keep={"hour": 3})
    assert marked(db) == [], "the value is as it was"
    db.counter("views:1").add(1)
    db.drain()
    assert db.get(Page, 1).views == 3
    assert db.counter("views:1").windows("hour")[-1].value == 1


def test_the_own_version_stays(db):
    page = db.save(Page(number=1))
    db.counter("views:1").add()
    db.drain()
    assert db.version(db.get(Page, 1)) == db.version(page)
    assert db.save(Page(number=1, title="new"), if_version=db.version(page)).views == 1


def test_an_entity_that_cannot_show_its_counter_delays_no_others(url, caplog):
    class Strict(Model[int]):
        number: Key[int]
        views: int = rollup(counter("views:{number}"))

        def check(self):
            if self.views > 5:
                raise ValueError("too many")

    with connect(url, Schema(Strict), workers=0) as db:
        for number in range(3):
            db.save(Strict(number=number))
            db.counter(f"views:{number}").add(9 if number == 1 else 2)
        db.drain()
        assert [db.get(Strict, number).views for number in range(3)] == [2, 0, 2]
        assert "could not show counter 'views:1'" in caplog.text
        assert marked(db) == [name_key("views:1")]
        db.counter("views:1").add(-5)
        db.drain()
        assert (db.get(Strict, 1).views, marked(db)) == (4, [])


def test_what_is_not_copied_now_is_due_again_after_an_interval(url, clock):
    class Strict(Model[int]):
        number: Key[int]
        views: int = rollup(counter("views:{number}"), every=10)

        def check(self):
            if self.views > 5:
                raise ValueError("too many")

    with connect(url, Schema(Strict), workers=0, clock=clock) as db:
        db.save(Strict(number=1))
        db.counter("views:1").add(9)
        clock.now += 10_000
        tried = db.operations.copies._sources.groups
        asked = []
        db.operations.copies._sources.groups = lambda name: asked.append(name) or tried(name)
        for _ in range(3):
            db.run(db.operations.copies.step())
        assert asked == ["views:1"]


def run_slowly(db, plan, before):
    """Runs a plan that sleeps for no time; `before` is called with each request."""
    answer, failure = None, None
    while True:
        try:
            asked = plan.send(answer) if failure is None else plan.throw(failure)
        except StopIteration as stop:
            return stop.value
        answer = failure = None
        if not isinstance(asked, Sleep):
            before(asked)
            try:
                answer = db.run(asked.__iter__())
            except OnereadError as error:
                failure = error


def test_a_counter_that_is_added_to_all_the_time_delays_no_others(db, caplog):
    """Its rows are changed between each look at them and each attempt."""
    for number in (1, 2):
        db.save(Page(number=number))
        db.counter(f"views:{number}", shards=1).add(1)
    row = shard_key(name_key("views:1"), 0)

    def before(asked):
        if isinstance(asked, CheckAndMutate) and asked.mutation.key == row:
            db.counter("views:1", shards=1).add(1)

    assert run_slowly(db, db.operations.copies.copy_all(), before) is True
    assert [db.get(Page, number).views for number in (1, 2)] == [0, 1]
    assert "could not show counter 'views:1'" in caplog.text
    db.drain()
    assert db.get(Page, 1).views == db.counter("views:1").read() > ATTEMPTS


class Poll(Model[int]):
    number: Key[int]
    votes: int = rollup(counter("votes:{number}"))


class Answer(Model[int, int]):
    child_of = Poll
    number: Key[int]
    answer: Key[int]
    votes: int = rollup(counter("votes:{number}/{answer}"))


class AnswersByVotes(Index[Answer]):
    votes: int = descending(Answer.votes)


def test_a_child_shows_a_counter(url):
    with connect(url, Schema(Poll, Answer, AnswersByVotes), workers=0) as db:
        db.counter("votes:1/2").add(3)
        db.save(Poll(number=1))
        db.transact(lambda tx: [tx.save(Answer(number=1, answer=answer)) for answer in (1, 2)])
        assert [row.votes for row in db.page(AnswersByVotes)] == [3, 0]
        db.counter("votes:1/1").add(5)
        db.counter("votes:1").add(8)
        db.drain()
        assert [row.votes for row in db.page(AnswersByVotes)] == [5, 3]
        assert db.get(Poll, 1).votes == 8
        db.delete(Answer, 1, 2)
        db.counter("votes:1/2").add(1)
        db.drain()
        assert marked(db) == []
        db.save(Answer(number=1, answer=2))
        assert [row.votes for row in db.page(AnswersByVotes)] == [5, 4]


def test_commits_at_their_commit_point_and_bulk(url):
    db = connect(url, ONE, workers=1, wait="commit")
    with db.bulk() as bulk:
        for number in range(5):
            bulk.save(Shown(number=number))
    for number in range(5):
        db.counter(f"views:{number}").add(number)
    db.drain()
    assert [row.views for row in db.page(ShownByViews)] == [4, 3, 2, 1, 0]
    db.close()


# Other programs.


def test_programs_that_remember_a_counter_mark_it_once_it_is_shown(url):
    """Both remember its settings, and rows of it."""
    with connect(url, ONE, workers=0) as db, connect(url, Schema(Shown, ShownByViews), workers=0) as other:
        for each in (db, other):
            each.counter("views:1", shards=4).add(1)
            each.counter("views:1", shards=4).add(1, once=f"{id(each)}")
        db.save(Shown(number=1))
        for each in (other, db, other):
            each.counter("views:1").add(10)
            each.drain()
        assert db.get(Shown, 1).views == 34


def test_every_row_of_a_counter_that_is_shown_says_so(db):
    db.counter("views:1", shards=4).configure(shards=4)
    db.save(Page(number=1))
    for number in range(30):
        db.counter("views:1").add(1, once=f"{number}")
    db.drain()
    rows = db.run(Read("counts", [shard_key(name_key("views:1"), each) for each in range(4)], "dm").__iter__())
    assert [row[SHOWN].value for row in rows] == [b"\0"] * 4
    (row,) = db.run(Read("counts", [SETTINGS + name_key("views:1")], "dm").__iter__())
    assert read_settings_row(name_key("views:1"), row).is_shown
    assert db.get(Page, 1).views == 30


def test_two_workers_do_not_copy_twice(db):
    db.save(Page(number=1))
    db.counter("views:1").add(1)
    operations = db.operations
    other = ShardCopier(operations.committer, operations.catalog.counters)
    ((key, mark),) = db.run(Scan("counts", MARKED, 9).__iter__())
    assert db.run(other.copy_all())
    shown = db.run(Read("roots", [operations.root(Page, (1,))], "dm").__iter__())
    assert db.run(operations.copies.copy({"views:1": mark})) == 1  # it saw the mark before the other took it away
    assert db.run(Read("roots", [operations.root(Page, (1,))], "dm").__iter__()) == shown
    assert key == MARKS + name_key("views:1")


def test_rows_with_one_sum_of_numbers_differ():
    """The rows of a scan are not of one moment, so two workers may see any two states."""
    name = name_key("a")
    counter = CounterRows(shards_of(name), SETTINGS + name, b"", show_in_settings)

    def state(*writes):
        with connect(f"memory://{uuid4()}?span=row", ONE, workers=0) as db:
            for number, each in enumerate(writes):
                change = ShardChange(ShardRow(shard_key(name, number)), each)
                change.mark(marked=False)
                assert db.run(change.request().__iter__())
            return db.run(show_counter(counter))[1]

    assert state(5, 7) == state(5, 7)
    assert len({state(5, 7), state(6, 6), state(7, 5), state(5, 7, 0)}) == 4


def test_a_field_that_becomes_a_counter_is_built(url):
    before, after = schemas()
    with connect(url, before, workers=0) as old:
        for number in range(3):
            old.save(before.models[0](number=number, views=77))
        old.counter("views:1").add(5)
        post, by_views = after.models[0], after.views[0]
        with connect(url, after, workers=0) as db:
            assert not hasattr(db.get(post, 1), "views")
            assert db.backfill().done
            assert [(row.views, row.source.key) for row in db.page(by_views)] == [(5, (1,)), (0, (0,)), (0, (2,))]
            old.counter("views:2").add(9)  # a program that does not know that it is shown, and its first add
            old.counter("views:1").add(1)
            db.drain()
            assert [(row.views, row.source.key) for row in db.page(by_views)] == [(9, (2,)), (6, (1,)), (0, (0,))]


def test_a_counter_that_is_no_longer_shown_stays_marked(url):
    """It costs what it did before it was shown: a row that has marked asks for nothing more."""
    _before, after = schemas()
    with connect(url, after, workers=0) as db:
        db.save(after.models[0](number=1))
        db.counter("views:1").add(5)

    class Post(Model[int]):
        number: Key[int]
        views: int = rollup(counter("seen:{number}"), every=10)

    class PostsByViews(Index[Post]):
        views: int = descending(Post.views)

    with connect(url, Schema(Post, PostsByViews), workers=0) as db:
        db.backfill()
        assert db.drain() == 0
        assert db.get(Post, 1).views == 0
        db.counter("views:1").add(5)
        assert marked(db) == [name_key("views:1")]

    class Post(Model[int]):
        number: Key[int]
        views: int = rollup(counter("seen:{number}"), every=10)
        shown_again: int = rollup(counter("views:{number}"), every=10)

    class PostsByViews(Index[Post]):
        views: int = descending(Post.views)

    with connect(url, Schema(Post, PostsByViews), workers=0) as db:
        db.backfill()
        db.counter("views:1").add(1)
        db.drain()
        assert (db.get(Post, 1).shown_again, marked(db)) == (11, [])


def test_a_load_restores_counters_that_entities_show(db):
    for number in range(3):
        db.save(Page(number=number, title="abc"[number]))
    db.counter("views:1").add(5)
    db.drain()
    lines = []
    end = db.dump(lines.append)
    assert end.counters == 1, "those that nothing was added to are left out"
    with connect(f"memory://{uuid4()}?span=row", PAGES, workers=0) as other:
        reader = DumpReader(other.operations.catalog, parse_head(lines[0]))
        made = [reader.change(line) for line in lines[1:-1]]
        restored = [each for each in made if isinstance(each, RestoreCounter)]
        for each in made:
            if each not in restored:
                other.run(other.operations.commit([each]))
        for each in restored:
            other.run(each.plan(other.operations.parts))
        other.run(other.operations.outbox.finish_waiting())
        other.run(other.operations.copies.copy_all())
        assert [row.views for row in other.page(PagesByViews)] == [5, 0, 0]
