"""What totals cost on a store that changes one row at a time, and what is left to workers."""

from datetime import datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest

from oneread import (
    CREATED,
    GENERATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    descending,
    expires,
    greatest,
    reference,
    rollup,
    total,
    within,
)
from oneread.costs.budgets import budget
from oneread.database.purge import Purge
from oneread.derivations.emitted_record import RecordedPointers
from oneread.errors import StaleCopies
from oneread.store.limits import GRACE
from oneread.store.requests import Mutate
from oneread.store.rows import VALUE, Cell, RowMutation
from oneread.testing.clock import Clock
from oneread.transactions import outbox
from oneread.transactions.leases import LEASE, LeaseHolder, encode_lease
from oneread.transactions.outbox import GROUP_TASKS, SET_ASIDE
from oneread.transactions.tasks import TaskStepResult
from oneread.transactions.versioned_tasks import RowTaskRunner
from tests.simulation.row_totals import TOTALS, Question, answer, vote
from tests.unit.transactions.test_journal_commits import Store


class Play(Model[int]):
    number: Key[int]
    song: Ref["Song"] = reference(missing_ok=True)
    seconds: int = 0


class PlaysOf(Aggregate[Play]):
    song: Ref["Song"] = by(Play.song)
    plays: int = count()
    seconds: int = total(Play.seconds)


class Song(Model[int]):
    number: Key[int]
    plays: int = rollup(PlaysOf.plays)
    seconds: int = rollup(PlaysOf.seconds)


class SongsByPlays(Index[Song]):
    plays: int = descending(Song.plays)


class TopSongs(Index[PlaysOf]):
    plays: int = descending(PlaysOf.plays)


PLAIN = Schema(Play, PlaysOf, Song)
INDEXED = Schema(Play, PlaysOf, Song, SongsByPlays)
LISTED = Schema(Play, PlaysOf, Song, TopSongs)
LEVELS = Schema(*TOTALS.models, *TOTALS.views)


def play(number, song=1, seconds=5):
    return Play(number=number, song=Song.at(song), seconds=seconds)


@pytest.fixture
def plain():
    store = Store(PLAIN)
    store.save(Song(number=1))
    return store


def described(store):
    return [f"{type(asked).__name__} {asked.table}" for _round, asked in store.made]


def test_a_save_with_one_total(plain):
    plain.save(play(1))
    assert described(plain) == [
        "Read roots", "Mutate system",  # the play, its marker
        "Read roots", "Read counts",  # the song, the group
        "CheckAndMutate roots", "CheckAndMutate counts", "Mutate system",  # the group's task
        "Mutate roots", "Mutate system",  # the play's intents are cleared
        "Read roots", "Read counts", "CheckAndMutate roots",  # the song
        "Mutate system",  # the task
    ]  # fmt: skip
    assert plain.find(Song, 1) == Song(number=1, plays=1, seconds=5)
    assert plain.rows("system", GROUP_TASKS) == []


def test_what_does_not_change_a_total_costs_nothing_more(plain):
    plain.save(play(1))
    plain.save(play(1))
    assert plain.requests == 6
    plain.patch(Play, 1, seconds=5)
    assert plain.requests == 2


COSTS = {
    "of an index by the total": (INDEXED, lambda store: store.save(play(1)), 17),
    "of a group that an index lists": (LISTED, lambda store: store.save(play(1)), 20),
    "of an entity that is not there": (PLAIN, lambda store: store.save(play(1, song=2)), 12),
    "of two groups": (PLAIN, lambda store: store.patch(Play, 9, song=Song.at(1)), 16),
    "of a new entity": (PLAIN, lambda store: store.save(Song(number=3)), 5),
    "of an entity that is saved again": (PLAIN, lambda store: store.save(Song(number=1)), 2),
    "of two levels, with greatest values": (LEVELS, lambda store: store.save(vote(1, 1, 7)), 49),
}


@pytest.mark.parametrize("name", COSTS)
def test_requests(name):
    schema, run, requests = COSTS[name]
    store = Store(schema)
    if schema is LEVELS:
        store.save(Question(number=1))
        store.save(answer(1, 1))
    else:
        store.save(Song(number=1))
        store.save(play(9, song=2))
    run(store)
    assert store.requests == requests
    assert waiting(store) == []


def waiting(store):
    """The tasks of groups that are to be done; leases stay."""
    return [key for key, row in store.rows("system", GROUP_TASKS) if outbox.waiting_cells(row)]


class Comment(Model[int]):
    number: Key[int]
    reply_to: Ref["Comment"] | None = None
    replies: int = rollup(lambda: Replies.replies)


class Replies(Aggregate[Comment]):
    comment: Ref[Comment] = by(Comment.reply_to)
    replies: int = count()


def test_an_entity_that_counts_itself_is_returned_with_its_total():
    with connect("memory://?span=row", Schema(Comment, Replies)) as db:
        db.save(Comment(number=1))
        saved = db.patch(Comment, 1, reply_to=Comment.at(1))
        assert saved.replies == db.get(Comment, 1).replies == 1
        assert db.version(saved) == db.version(db.get(Comment, 1))


def test_more_groups_than_a_save_does_are_left_to_workers():
    store = Store(Schema(Play, PlaysOf, Song, inline=1))
    for number in (1, 2):
        store.save(Song(number=number))
    store.save(play(1, song=1))
    _saved, tasks = store.patch(Play, 1, song=Song.at(2))
    assert tasks == waiting(store)
    assert len(tasks) == 1
    assert store.run(store.operations.outbox.have_ended(tasks)) is False
    store.settle()
    assert store.run(store.operations.outbox.have_ended(tasks)) is True
    assert [store.find(Song, number).plays for number in (1, 2)] == [0, 1]


class Band(Model[int]):
    number: Key[int]
    country: str = ""


class Played(Copy[Band]):
    country: str


class Gig(Model[int]):
    number: Key[int]
    band: Played


class GigsIn(Aggregate[Gig]):
    country: str = by(within(Gig.band, Played.country))
    gigs: int = count()


class Country(Model[str]):
    country: Key[str]
    gigs: int = rollup(GigsIn.gigs)


TOURS = Schema(Band, Gig, GigsIn, Country)


def test_a_page_of_holders_that_change_groups_leaves_one_task_for_each():
    store = Store(TOURS)
    for each in (Country(country="NO"), Country(country="IS"), Band(number=1, country="NO")):
        store.save(each)
    for number in range(40):
        store.save(Gig(number=number, band=Played.of(1)))
    store.patch(Band, 1, country="IS")
    shown = [asked for _round, asked in store.made if type(asked).__name__ == "CheckAndMutate"]
    assert sum(asked.table == "roots" for asked in shown) == 1 + 40 + 2  # the band, its gigs, both countries once
    assert [store.find(Country, name).gigs for name in ("NO", "IS")] == [0, 40]
    assert waiting(store) == []


def test_groups_that_the_holders_of_a_batch_change_are_shown_when_it_returns():
    with connect("memory://?span=row", TOURS, workers=0) as db:
        db.save_all([Country(country=name) for name in ("NO", "IS", "SE")])
        db.save_all([Band(number=number, country="NO") for number in (1, 2)])
        db.save_all([Gig(number=number, band=Played.of(number)) for number in (1, 2)])
        with db.bulk() as bulk:
            bulk.save(Band(number=1, country="IS"))
            bulk.save(Band(number=2, country="SE"))
        assert [db.get(Country, name).gigs for name in ("NO", "IS", "SE")] == [0, 1, 1]
        assert db.survey().tasks == 0


def test_what_a_worker_lets_follow_is_shown_by_workers():
    with connect("memory://?span=row", Schema(Band, Gig, GigsIn, Country, inline=5), workers=0) as db:
        db.save_all([Country(country="NO"), Country(country="IS"), Band(number=1, country="NO")])
        db.save_all([Gig(number=number, band=Played.of(1)) for number in range(20)])
        db.patch(Band, 1, country="IS")
        assert db.get(Country, "IS").gigs == 0
        db.run(db.operations.outbox.step(10))
        assert [(lag.waiting, kind) for kind, lag in db.survey().lag.items()] == [
            (1, "follow"),
            (0, "feed"),
            (2, "total"),
        ]
        assert db.drain() > 0
        assert [db.get(Country, name).gigs for name in ("NO", "IS")] == [0, 20]
        assert db.survey().tasks == 0
        assert db.set_aside() == []


def test_a_commit_that_is_applied_later_shows_totals_to_those_that_include_it():
    with connect(
        "memory://?span=row", Schema(Play, PlaysOf, Song, SongsByPlays, TopSongs), workers=0, wait="commit"
    ) as db:
        db.save_all([Song(number=1), Song(number=2)])
        db.drain()
        saved = db.save(play(1))
        assert (db.get(Song, 1).plays, [row.plays for row in db.page(TopSongs)]) == (0, [])
        assert [row.plays for row in db.page(SongsByPlays, includes=saved)] == [1, 0]
        assert db.get(Song, 1).plays == 1
        token = db.tasks(db.save(play(2))).token
        assert [row.plays for row in db.page(TopSongs, includes=token)] == [2]
        tasks = db.tasks(db.patch(Play, 2, song=Song.at(2)))
        db.drain()
        tasks.wait()
        assert [db.get(Song, number).plays for number in (1, 2)] == [1, 1]
        assert db.survey().commits.roots == 0


def test_what_others_have_committed_is_shown_by_those_that_include_it():
    url = f"memory://{uuid4()}?span=row"
    with (
        connect(url, INDEXED, workers=0, wait="commit") as writer,
        connect(url, INDEXED, workers=0) as reader,
    ):
        reader.save(Song(number=1))
        token = writer.tasks(writer.save(play(1))).token
        assert [row.plays for row in reader.page(SongsByPlays)] == [0]
        assert [row.plays for row in reader.page(SongsByPlays, includes=token)] == [1]


class Post(Model[int, int]):
    child_of = "Blog"
    number: Key[int]
    post: Key[int] = GENERATED
    claps: int = rollup(lambda: ClapsOf.claps)


class Clap(Model[int]):
    number: Key[int]
    post: Ref[Post] = reference(missing_ok=True)


class ClapsOf(Aggregate[Clap]):
    post: Ref[Post] = by(Clap.post)
    claps: int = count()


class PostsOf(Aggregate[Post]):
    number: int = by(Post.number)
    posts: int = count()
    claps: int = total(Post.claps)


class Blog(Model[int]):
    number: Key[int]
    posts: int = rollup(PostsOf.posts)
    claps: int = rollup(PostsOf.claps)


BLOGS = Schema(Post, Clap, ClapsOf, PostsOf, Blog)


def test_children_show_totals_and_are_counted():
    with connect("memory://?span=row", BLOGS) as db:
        db.save(Blog(number=1))
        first = db.create(Post(number=1))
        assert (first.claps, first.post) == (0, 1)
        db.save(Clap(number=1, post=Post.at(1, 1)))
        db.save(Clap(number=2, post=Post.at(1, 2)))
        second = db.create(Post(number=1))
        assert (second.post, second.claps, db.get(Post, 1, 1).claps) == (2, 1, 1)
        assert (db.get(Blog, 1).posts, db.get(Blog, 1).claps) == (2, 2)

        def writes(work):
            work.delete(Post, 1, 1)
            work.create(Post(number=1))
            return work.get(Blog, 1).posts

        assert db.transact(writes) == 2  # totals follow behind the commit
        assert (db.get(Blog, 1).posts, db.get(Blog, 1).claps) == (2, 1)
        db.delete(Clap, 2)
        assert (db.get(Post, 1, 2).claps, db.get(Blog, 1).claps) == (0, 0)


def test_a_clap_costs_a_commit_of_the_child_and_one_of_its_root():
    store = Store(BLOGS)
    store.save(Blog(number=1))
    store.save(Post(number=1))
    store.save(Clap(number=1, post=Post.at(1, 1)))
    assert store.requests == 25
    assert waiting(store) == []


def test_a_bulk_writer_leaves_totals_right():
    with connect("memory://?span=row", INDEXED) as db:
        with db.bulk() as bulk:
            for number in range(30):
                bulk.save(play(number, song=number % 2))
            for number in range(2):
                bulk.save(Song(number=number))
        assert [db.get(Song, number).plays for number in range(2)] == [15, 15]


class Offer(Model[int]):
    ttl = expires("made", after=timedelta(hours=1))
    number: Key[int]
    made: datetime = CREATED
    shop: Ref["Shop"] = reference(missing_ok=True)
    price: int = 1


class OffersOf(Aggregate[Offer]):
    shop: Ref["Shop"] = by(Offer.shop)
    offers: int = count()
    dearest: int | None = greatest(Offer.price)


class Shop(Model[int]):
    ttl = expires("made", after=timedelta(hours=3))
    number: Key[int]
    made: datetime = CREATED
    offers: int = rollup(OffersOf.offers)
    dearest: int | None = rollup(OffersOf.dearest)


class ShopsByOffers(Index[OffersOf]):
    watched = timedelta(hours=9)

    offers: int = descending(OffersOf.offers)


def test_totals_of_what_expires_and_in_what_expires():
    clock = Clock()
    schema = Schema(Offer, OffersOf, Shop, ShopsByOffers)
    with connect("memory://?span=row", schema, clock=clock, workers=0) as db:
        cursor = db.changes_cursor(ShopsByOffers)
        db.save(Shop(number=1))
        for number in range(2):
            db.save(Offer(number=number, shop=Shop.at(1), price=number))
        clock.tick(3601)
        assert (db.get(Shop, 1).offers, db.get(Shop, 1).dearest) == (2, 1)  # until they are swept
        db.sweep()
        assert (db.get(Shop, 1).offers, db.get(Shop, 1).dearest, db.page(ShopsByOffers).rows) == (0, None, [])
        clock.tick(7200)
        db.save(Offer(number=5, shop=Shop.at(1)))
        assert db.find(Shop, 1) is None
        db.sweep()
        db.save(Shop(number=1))
        assert (db.get(Shop, 1).offers, db.get(Shop, 1).dearest) == (1, 1)
        found = next(db.changes(ShopsByOffers, cursor=cursor, wait=0))
        assert [(each.key, each.row and each.row.offers) for each in found] == [((2,), None), ((1,), 1)]


def test_a_budget_that_ends_behind_the_commit_leaves_totals_to_workers():
    with connect("memory://?span=row", PLAIN, workers=0) as db:
        db.save(Song(number=1))
        with budget(requests=9):
            saved = db.save(play(1))
        assert (db.get(Song, 1).plays, db.survey().lag["total"].waiting) == (0, 1)
        assert [each.source for each in db.run(db.operations.waiting(9))] == ["PlaysOf(1)"]
        db.drain()
        db.tasks(saved).wait()
        assert db.get(Song, 1).plays == 1


def test_a_purge_leaves_root_rows_and_leases_of_groups():
    store = Store(LISTED)
    store.save(Song(number=1))
    left_task(store)
    assert store.run(worker_of(store, "a").step(1)) is TaskStepResult.DONE
    store.run(iter_of(Mutate("views", [RowMutation(b"x", {VALUE: Cell(b"", 1)})])))
    kept = store.rows("roots"), store.rows("system", GROUP_TASKS)
    store.now += 10**9
    purge = Purge(store.operations.catalog, RecordedPointers(), GRACE)
    while store.run(purge.step()):
        pass
    assert (store.rows("roots"), store.rows("system", GROUP_TASKS)) == kept
    store.save(play(2))
    assert store.find(Song, 1).plays == 2


def left_task(store, source=b"s"):
    """A task of the group of the first song, as a writer that died leaves it."""
    store.save(play(1))
    ((group, _row),) = store.rows("counts")
    store.run(iter_of(Mutate("system", outbox.group_task_rows([(source, store.now, [group])]))))


def iter_of(request):
    yield request


def worker_of(store, name):
    leases = LeaseHolder(1.0, lambda: store.now / 1000, lambda: name)
    return RowTaskRunner(store.operations.committer, leases)


def test_a_lease_of_a_group_is_freed_and_stays(plain):
    left_task(plain)
    assert plain.run(worker_of(plain, "a").step(1)) is TaskStepResult.DONE
    ((_task, row),) = plain.rows("system", GROUP_TASKS)
    assert list(row) == [LEASE]
    left_task(plain)
    assert plain.run(worker_of(plain, "b").step(1)) is TaskStepResult.DONE
    assert waiting(plain) == []


def test_a_group_that_another_worker_has_is_held(plain):
    left_task(plain)
    ((task, _row),) = plain.rows("system", GROUP_TASKS)
    lease = LeaseHolder(1.0, lambda: plain.now / 1000, lambda: "other").renew(task, None, plain.now)
    held = Cell(encode_lease(lease), plain.now)
    plain.run(iter_of(Mutate("system", [RowMutation(task, {LEASE: held})])))
    assert plain.run(worker_of(plain, "a").step(1)) is TaskStepResult.HELD
    plain.now += 1_000
    assert plain.run(worker_of(plain, "a").step(1)) is TaskStepResult.DONE


class Payment(Model[int]):
    number: Key[int]
    account: Ref["Account"]
    amount: Decimal


class PaymentsOf(Aggregate[Payment]):
    account: Ref["Account"] = by(Payment.account)
    amount: Decimal = total(Payment.amount)


class Account(Model[int]):
    number: Key[int]
    amount: Decimal = rollup(PaymentsOf.amount)


class AccountsByAmount(Index[Account]):
    amount: Decimal = descending(Account.amount)


class GroupsByAmount(Index[PaymentsOf]):
    amount: Decimal = descending(PaymentsOf.amount)


def test_what_cannot_show_a_number_is_set_aside_until_it_can():
    store = Store(Schema(Payment, PaymentsOf, Account, AccountsByAmount, GroupsByAmount))
    store.save(Account(number=1))
    long = Payment(number=1, account=Account.at(1), amount=Decimal("1." + "1" * 600))
    _saved, tasks = store.save(long)
    task = outbox.group_task(store.rows("counts")[0][0])
    assert (tasks, waiting(store)) == ([task], [])
    aside = [shown for _key, shown in map(outbox.read_aside, store.rows("system", SET_ASIDE))]
    assert [store.operations.catalog.name_of(each.source) for each in aside] == ["PaymentsOf(1)"] * 2
    assert {each.error for each in aside} == {"InvalidKey"}
    with pytest.raises(StaleCopies):
        store.run(store.operations.outbox.have_ended([task]))
    assert store.find(Account, 1).amount == 0
    store.patch(Payment, 1, amount=Decimal(2))
    assert store.find(Account, 1).amount == 2
    store.run(store.operations.outbox.retry())
    assert [row for _key, row in store.rows("system", SET_ASIDE) if outbox.read_aside((_key, row)).shown] == []
    assert store.run(store.operations.outbox.have_ended([task])) is True


def test_what_lists_entities_does_not_meet_the_root_rows_of_groups():
    with connect("memory://?span=row", LISTED) as db:
        db.save_all([Song(number=1), play(1), play(2)])
        assert [(row.plays, row.source.key) for row in db.page(TopSongs)] == [(2, (1,))]
        lines = []
        assert db.dump(lines.append).entities == {"Play": 2, "Song": 1}
        assert db.survey(exact=True).tasks == 0
        db.delete(Play, 1)
        db.delete(Play, 2)
        assert db.page(TopSongs).rows == []
