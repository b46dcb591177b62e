"""Fields that show counters: what may be declared, what each write asks of the store, and what becomes of them."""

from typing import Annotated
from uuid import UUID

import pytest
from msgspec import Meta

from oneread import (
    Aggregate,
    Index,
    Key,
    Model,
    Schema,
    by,
    connect,
    count,
    counter,
    descending,
    rollup,
    to_json,
)
from oneread.counters.dumping import RestoreCounter
from oneread.counters.rows import MARKED, SETTINGS, name_key, settings_of
from oneread.errors import InvalidDeclaration, InvalidValue
from oneread.store.requests import Read, Scan
from oneread.store.rows import Cell
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
from tests.unit.database.test_costs import MEASURES

LINK = UUID(int=1)


@pytest.fixture
def db(url):
    with connect(url, PAGES, workers=0) as opened:
        yield opened


def test_a_list_shows_and_sorts_by_counters(db):
    db.save(Site(name="x"))
    db.save_all([Page(number=number, title="abc"[number], site=Site.at("x")) for number in range(3)])
    db.save(Link(id=LINK, place=1, page=PageTitle.of(1)))
    for number, views in enumerate((3, 8, 5)):
        db.counter(f"views:{number}").add(views)
    db.counter("likes:1").add(2)
    db.counter("visits:x").add(7)
    db.counter(f"clicks:1/{LINK}").add(4)
    assert [(row.title, row.views) for row in db.page(PagesByViews)] == [("a", 0), ("b", 0), ("c", 0)]
    db.drain()
    assert [(row.title, row.views, row.likes) for row in db.page(PagesByViews)] == [
        ("b", 8, 2),
        ("c", 5, 0),
        ("a", 3, 0),
    ]
    assert [(row.views, row.visits) for row in db.page(SitesByViews)] == [(16, 7)]
    assert [row.clicks for row in db.page(LinksByViews, 1)] == [4]
    assert db.get(Link, LINK, 1).page.views == 8
    db.counter("views:1").add(-6)
    db.drain()
    assert [row.title for row in db.page(PagesByViews)] == ["c", "a", "b"]
    assert db.get(Link, LINK, 1).page.views == 2
    assert db.verify().clean
    assert db.drain() == 0


def test_an_entity_shows_what_was_counted_before_it(db):
    db.counter("views:1").add(5)
    assert db.create(Page(number=1)).views == 5
    db.delete(Page, 1)
    db.counter("views:1").add(2)
    db.drain()
    assert db.save(Page(number=1)).views == 7
    assert db.verify().clean


def test_the_own_version_stays_and_the_field_cannot_be_set(db):
    page = db.save(Page(number=1))
    db.counter("views:1").add()
    db.drain()
    seen = db.get(Page, 1)
    assert db.version(seen) == db.version(page)
    assert db.save(Page(number=1, title="new"), if_version=db.version(page)).views == 1
    with pytest.raises(InvalidValue, match=r"add to that counter: db\.counter.*counter='views:\{number\}'"):
        db.patch(Page, 1, views=3)
    with pytest.raises(InvalidValue, match="add to that counter"):
        db.upsert(Page(number=1), views=3)
    assert to_json(db.get(Page, 1)) == b'{"number":1,"title":"new","site":null,"views":1,"likes":0}'


def test_a_deleted_counter_is_shown_as_0_and_followed_again(db):
    db.save(Page(number=1))
    db.counter("views:1").add(5)
    db.drain()
    db.counter("views:1").delete()
    assert db.get(Page, 1).views == 5
    assert db.verify().clean
    db.drain()
    assert db.get(Page, 1).views == 0
    db.counter("views:1", shards=3).add(2)
    assert [each.shards for each in db.counters("views:")] == [3]
    db.drain()
    assert db.get(Page, 1).views == 2
    assert db.verify().clean


def test_names_that_only_look_alike_are_not_shown(db):
    db.save_all([Page(number=7), Page(number=-7)])
    for name in (
        "views:07",
        "views: 7",
        "views:7 ",
        "views:+7",
        "views:",
        "views:x",
        "Views:7",
        "views:7\n",
        "xviews:7",
    ):
        db.counter(name).add(100)
    db.counter("views:-7").add(1)
    db.drain()
    assert [db.get(Page, number).views for number in (7, -7)] == [0, 1]
    assert db.verify().clean


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_what_each_call_asks(face, url):
    asked = []
    observe = lambda request, answer: asked.append(  # noqa: E731
        f"{type(request).__name__} {request.table} {MEASURES[type(request)](request, answer)}"
    )

    def ask(call):
        asked.clear()
        call()
        return asked.copy()

    opened = face(url, ONE, workers=0, observers=(observe,))
    made = ["Read system 1", "Read roots 1", "Read counts 1", "Scan counts 0"]
    assert ask(lambda: opened.create(Shown(number=1))) == [
        *made,
        "Replace roots 1",
        "Replace views 1",
        "Replace counts 1",
    ]
    assert ask(lambda: opened.save(Shown(number=1))) == ["Read system 1", "Read roots 1", "Replace roots 1"]
    add = lambda: opened.run(adding(opened, "views:1"))  # noqa: E731
    assert ask(add) == ["Read counts 2", "Read counts 1", "Replace counts 3"], "settings and shard; mark"
    assert ask(add) == ["Read counts 3", "Replace counts 1"], "settings, shard and mark; the shard"
    no_tasks = ["Scan system 0", "Scan system 0"]
    copy = ["Read counts 2", "Read system 1", "Read roots 1", "Scan counts 1"]
    copy += ["Replace roots 1", "Replace views 2", "Replace counts 1"]
    assert ask(opened.drain) == [*no_tasks, "Scan counts 1", *copy, *no_tasks, "Scan counts 0"]
    other = lambda: opened.run(adding(opened, "other"))  # noqa: E731
    ask(other)
    assert ask(other) == ["Read counts 2", "Replace counts 1"], "a counter that is not shown costs what it did"
    opened.close()


def adding(face, name):
    counters = face.db.operations.counters
    return counters.add(name_key(name), counters.declared(1, None), 1, None)


class Shown(Model[int]):
    number: Key[int]
    views: int = rollup(counter("views:{number}"))


class ShownByViews(Index[Shown]):
    views: int = descending(Shown.views)


ONE = Schema(Shown, ShownByViews)


def test_costs_stay_below_bounds(db):
    bound = db.explain.create(Page(number=1)).bound
    cost = db.cost(db.create(Page(number=1)))
    assert cost.requests <= bound.requests
    assert cost.rows <= bound.rows
    assert "shards of counters shown (views:{number})" in str(bound)


def test_copies_and_adds_stay_below_bounds(url):
    asked = []
    observe = lambda request, answer: asked.append(MEASURES[type(request)](request, answer))  # noqa: E731
    with connect(url, PAGES, workers=0, observers=(observe,)) as db:
        bounds = {bound.name: bound for bound in db.explain.costs.table()}
        db.save(Site(name="x"))
        db.save(Page(number=1, title="a", site=Site.at("x")))
        db.save_all([Link(id=LINK, place=place, page=PageTitle.of(1)) for place in range(3)])
        for name, once in (("add", None), ("add(once)", "t"), ("add", None)):
            asked.clear()
            db.counter("views:1", shards=1).add(1, once=once)
            bound = bounds[f"{name} counter views:{{number}}"]
            assert len(asked) <= bound.requests
            assert sum(asked) <= bound.rows
        bound = bounds["copy counter views:{number}"]
        asked.clear()
        assert db.run(db.operations.copies.copy_all())
        assert len(asked) <= bound.requests
        assert sum(asked) <= bound.rows
        assert db.get(Link, LINK, 2).page.views == 3
        shown, other = db.explain.counter_add("views:1").bound, db.explain.counter_add("views:x").bound
        assert (shown.target, other.target) == ("counter views:{number}", "counter")
        assert shown.rows == other.rows + 2


@pytest.mark.parametrize("refusal", [ValueError, ZeroDivisionError])
def test_an_entity_that_cannot_show_its_counter_delays_no_others(url, caplog, refusal):
    class Strict(Model[int]):
        number: Key[int]
        views: int = rollup(counter("views:{number}"))

        def check(self):
            if self.views > 5:
                raise refusal("too many")

    class OfViews(Aggregate[Strict]):
        views: int = by(Strict.views)
        many: int = count()

    with connect(url, Schema(Strict, OfViews), workers=0) as db:
        db.save_all([Strict(number=number) for number in range(3)])
        for number in range(3):
            db.counter(f"views:{number}").add(9 if number == 1 else 2)
        db.drain()
        assert [db.get(Strict, number).views for number in range(3)] == [2, 0, 2]
        assert "could not show counter 'views:1'" in caplog.text
        assert len(db.run(Scan("counts", MARKED, 9).__iter__())) == 1
        assert db.verify().clean, "it is marked"
        db.counter("views:1").add(-5)
        db.drain()
        assert db.get(Strict, 1).views == 4


@pytest.mark.parametrize("many", [1, 2])
def test_an_error_that_does_not_come_back_refuses_no_counter(url, many, caplog):
    """As what a signal handler raises: it goes to the caller, and nothing is put off for it."""
    raised = []

    class Shown(Model[int]):
        number: Key[int]
        views: int = rollup(counter("views:{number}"))

        def check(self):
            if self.views and not raised:
                raised.append(self)
                raise TimeoutError("an alarm went off")

    with connect(url, Schema(Shown), workers=0) as db:
        db.save_all([Shown(number=number) for number in range(many)])
        for number in range(many):
            db.counter(f"views:{number}").add(2)
        with pytest.raises(TimeoutError):
            db.drain()
        db.drain()
        assert [db.get(Shown, number).views for number in range(many)] == [2] * many
        assert "could not show" not in caplog.text


# Damage.


def put(db, key, row):
    def write(store):
        store.replace("counts", {key: row})

    db.run(db.operations.committer.together(write))


def test_verify_finds_what_is_neither_marked_nor_shown_and_repair_mends_it(db):
    db.save_all([Page(number=number, title="abc"[number]) for number in range(3)])
    for number in range(3):
        db.counter(f"views:{number}").add(3)
    db.drain()
    db.counter("views:1").add(4)
    ((mark, _row),) = db.run(Scan("counts", MARKED, 9).__iter__())
    assert db.verify().clean
    put(db, mark, None)
    found = db.verify()
    assert [(each.kind, each.view, each.expected, each.found) for each in found.faults] == [
        ("different", "total", "views 7", "views 3")
    ]
    assert db.repair().clean
    assert [(row.title, row.views) for row in db.page(PagesByViews)] == [("b", 7), ("a", 3), ("c", 3)]


def test_a_repair_makes_adds_mark_the_counter_again(db):
    db.save(Page(number=1))
    place = SETTINGS + name_key("views:1")
    put(db, place, None)
    db.counter("views:1").add(4)
    assert not db.verify().clean
    assert db.repair().clean
    (row,) = db.run(Read("counts", [place]).__iter__())
    assert settings_of(row).shown
    db.counter("views:1").add(4)
    db.drain()
    assert db.get(Page, 1).views == 8


def test_a_shard_that_cannot_be_read_is_one_finding(db):
    db.save(Page(number=1))
    db.counter("views:1", shards=1).add(4)
    db.drain()
    shard = SETTINGS[:3] + b"\x02" + name_key("views:1") + b"\x00"
    put(db, shard, {b"d:b": Cell(b"nonsense", 1)})
    assert [(each.kind, each.view) for each in db.verify().faults] == [("unreadable", "counter")]


# Changed schemas.


def schemas():
    class Post(Model[int]):
        number: Key[int]
        views: int = 0

    class PostsByViews(Index[Post]):
        views: int = descending(Post.views)

    before = Schema(Post, PostsByViews)

    class Post(Model[int]):
        number: Key[int]
        views: int = rollup(counter("views:{number}"), every=10)

    class PostsByViews(Index[Post]):
        views: int = descending(Post.views)

    return before, Schema(Post, PostsByViews)


def test_a_field_that_becomes_a_counter_is_built(url):
    before, after = schemas()
    with connect(url, before, workers=0) as db:
        post = before.models[0]
        db.save_all([post(number=number, views=77) for number in range(3)])
        db.counter("views:1").add(5)
    post, by_views = after.models[0], after.views[0]
    with connect(url, before, workers=0) as old, connect(url, after, workers=0) as db:
        assert not hasattr(db.get(post, 1), "views")
        assert db.backfill().done
        assert [(row.views, row.source.key) for row in db.page(by_views)] == [(5, (1,)), (0, (0,)), (0, (2,))]
        assert db.verify().clean
        old.counter("views:2").add(9)  # a program that does not know that it is shown, and its first add
        old.counter("views:1").add(1)
        db.drain()
        assert [(row.views, row.source.key) for row in db.page(by_views)] == [(9, (2,)), (6, (1,)), (0, (0,))]
        assert db.verify().clean


def test_a_counter_that_is_no_longer_shown_is_no_longer_marked(url):
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
        db.drain()
        assert db.get(Post, 1).views == 0
        db.counter("views:1").add(5)
        assert not db.run(Scan("counts", MARKED, 9).__iter__())
        assert (db.counter("views:1").read(), db.drain()) == (10, 0)
        assert db.verify().clean


def test_dumps_leave_shown_counters_to_the_counters(new_url, db):
    db.save_all([Page(number=number, title="abc"[number]) for number in range(3)])
    db.counter("views:1").add(5)
    db.drain()
    lines = []
    end = db.dump(lines.append)
    assert end.counters == 1, "those that nothing was added to are left out"
    with connect(new_url(), PAGES, workers=0) as other:
        load(other, lines)
        other.drain()
        assert [row.views for row in other.page(PagesByViews)] == [5, 0, 0]
        assert other.verify().clean


def load(db, lines):
    reader = DumpReader(db.operations.catalog, parse_head(lines[0]))
    for line in lines[1:-1]:
        made = reader.change(line)
        if isinstance(made, RestoreCounter):
            db.run(made.plan(db.operations.parts))
        else:
            db.run(db.operations.commit([made]))


# Declarations.


def declared(key, default, annotation=int, name="number"):
    namespace = {"__annotations__": {name: Key[key], "shown": annotation}, "shown": default, "__module__": __name__}
    return type(Model)("Declared", (Model,), namespace)


REFUSED = [
    (int, lambda: rollup(counter("views:{other}")), "each part of the key once"),
    (int, lambda: rollup(counter("views")), "each part of the key once"),
    (int, lambda: rollup(counter("views:{number}{number}")), "each part of the key once"),
    (int, lambda: rollup(counter("views:{number")), "each part of the key once"),
    (int, lambda: rollup(counter("views:{number}}")), "each part of the key once"),
    (int, lambda: rollup(counter("{number}")), "begins with text"),
    (int, lambda: rollup(counter("x" * 101 + "{number}")), "begins with text"),
    (str, lambda: rollup(counter("views:{number}/all")), "text of a key ends"),
    (float, lambda: rollup(counter("views:{number}")), "made of ints, UUIDs"),
    (int, lambda: rollup(counter(5)), "named by text"),
    (int, lambda: rollup(counter("views:{number}"), every=0), "1 to 86,400"),
    (int, lambda: rollup(counter("views:{number}"), every="soon"), "1 to 86,400"),
    (int, lambda: rollup(counter("views:{number}"), every=float("nan")), "1 to 86,400"),
    (int, lambda: rollup(counter("views:{number}"), every=True), "1 to 86,400"),
    (int, lambda: counter("views:{number}"), r"rollup\(counter\(\.\.\.\), every=10\)"),
    (int, lambda: rollup(Page.views, every=5), "every= is of a counter"),
]


@pytest.mark.parametrize(("key", "default", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_work_is_refused(key, default, message):
    with pytest.raises(InvalidDeclaration, match=message):
        Schema(declared(key, default()))


@pytest.mark.parametrize("annotation", [str, int | None, Annotated[int, Meta(ge=0)], float])
def test_a_counter_is_shown_by_a_plain_int(annotation):
    with pytest.raises(InvalidDeclaration, match="an int without a constraint"):
        Schema(declared(int, rollup(counter("views:{number}")), annotation))


def test_something_stands_between_the_parts_of_a_key():
    class Two(Model[int, int]):
        one: Key[int]
        two: Key[int]
        views: int = rollup(counter("views:{one}{two}"))

    with pytest.raises(InvalidDeclaration, match="stands between the parts"):
        Schema(Two)


def test_text_is_the_last_part():
    class Two(Model[str, int]):
        one: Key[str]
        two: Key[int]
        views: int = rollup(counter("views:{one}/{two}"))

    with pytest.raises(InvalidDeclaration, match="in the last place"):
        Schema(Two)


def test_text_of_any_kind_names_a_counter(db):
    for name in ("", "a:b", "{number}", "\n", "ä\x00", "x" * 90):
        db.save(Site(name=name))
        if len(name) < 80:
            db.counter(f"visits:{name}").add(3)
    db.drain()
    assert [db.get(Site, name).visits for name in ("", "a:b", "{number}", "\n", "ä\x00", "x" * 90)] == [3] * 5 + [0]
    assert db.verify().clean
