"""Indexes over the groups of an aggregate: what may be declared, what pages show, and what a commit costs exactly."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    any_of,
    ascending,
    bucket,
    by,
    connect,
    connect_async,
    count,
    descending,
    each,
    field,
    greatest,
    least,
    mean,
    rollup,
    shown,
    to_json,
    total,
    within,
)
from oneread.costs import declared as costs
from oneread.costs.budgets import budget
from oneread.derivations.group_indexes import IndexedGroups
from oneread.errors import InvalidCursor, InvalidDeclaration, InvalidKey, InvalidQuery, UsageError
from oneread.models.json_form import form
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from tests.unit.derivations.carts import Item, Items, Paid, Price

MAY, JUNE = datetime(2019, 5, 1, tzinfo=UTC), datetime(2019, 6, 1, tzinfo=UTC)


class Asker(Copy["User"]):
    name: str


class Question(Model[int]):
    number: Key[int]
    asker: Asker
    posted_at: datetime
    score: int = 0
    tags: Annotated[list[Ref["Tag"]], msgspec.Meta(max_length=5)]


class QuestionsOfTag(Aggregate[Question]):
    month: datetime = bucket(Question.posted_at, "month")
    tag: Ref["Tag"] = by(each(Question.tags))
    questions: int = count()
    score: int = total(Question.score)
    best: int | None = greatest(Question.score)
    worst: int | None = least(Question.score)


class TagsOfMonth(Index[QuestionsOfTag]):
    month: datetime = by(QuestionsOfTag.month)
    questions: int = descending(QuestionsOfTag.questions)
    tag: Ref["Tag"] = shown(QuestionsOfTag.tag)


class QuestionsOfAsker(Aggregate[Question]):
    asker: Asker = by(Question.asker)
    questions: int = count()
    score: int = total(Question.score)
    mean: Decimal | None = mean(Question.score)
    best: int | None = greatest(Question.score)


class BestAskers(Index[QuestionsOfAsker]):
    best: int | None = descending(QuestionsOfAsker.best, none="last")
    asker: Asker = shown(QuestionsOfAsker.asker)
    mean: Decimal | None = shown(QuestionsOfAsker.mean)


class AskersOfAsker(Index[QuestionsOfAsker]):
    asker: Asker = by(QuestionsOfAsker.asker)
    score: int = ascending(QuestionsOfAsker.score)


class Tag(Model[str]):
    word: Key[str]


class User(Model[int]):
    number: Key[int]
    name: str
    questions: int = rollup(QuestionsOfAsker.questions)


SITE = Schema(Question, QuestionsOfTag, TagsOfMonth, QuestionsOfAsker, BestAskers, AskersOfAsker, Tag, User)


@pytest.fixture
def db(url):
    with connect(url, SITE, workers=0) as database:
        database.save_all([User(number=number, name=name) for number, name in enumerate(("Ada", "Bea", "Cid"))])
        database.save_all([Tag(word=word) for word in "abc"])
        database.save_all([question(number) for number in range(6)])
        yield database


def question(number, **more):
    tags = [Tag.at(word) for place, word in enumerate("abc") if number % (place + 1) == 0]
    fields = {"asker": Asker.of(number % 2), "posted_at": MAY + timedelta(days=number), "score": number, "tags": tags}
    return Question(number=number, **fields | more)


def spent(call, *given, **named):
    with budget() as cost:
        call(*given, **named)
    return cost.cost.requests, cost.cost.rows


def listed(page):
    return [(row.tag.key[0], row.questions) for row in page]


# What a page shows.


def test_a_list_of_groups_is_one_range_read(db):
    page = db.page(TagsOfMonth, MAY, limit=2)
    assert listed(page) == [("a", 6), ("b", 3)]
    assert page.cost.requests == 1
    assert page.cost.rows == 3
    assert listed(db.page(TagsOfMonth, MAY, limit=2, cursor=page.next)) == [("c", 2)]
    assert listed(db.page(TagsOfMonth, MAY, backward=True, limit=2)) == [("b", 3), ("c", 2)]


def test_any_instant_finds_its_bucket(db):
    for instant in (MAY, MAY + timedelta(days=30, hours=23), datetime(2019, 6, 1, 1, tzinfo=UTC).astimezone(None)):
        found = listed(db.page(TagsOfMonth, instant))
        assert found == ([] if instant.astimezone(UTC) >= JUNE else [("a", 6), ("b", 3), ("c", 2)])
    db.patch(Question, 5, posted_at=JUNE + timedelta(days=3))
    assert listed(db.page(TagsOfMonth, JUNE + timedelta(days=20))) == [("a", 1)]
    assert listed(db.page(TagsOfMonth, any_of(MAY, JUNE))) == [("a", 5), ("b", 3), ("c", 2), ("a", 1)]


def test_bounds_and_conditions(db):
    assert listed(db.page(TagsOfMonth, MAY, since=3)) == [("a", 6), ("b", 3)]
    assert listed(db.page(TagsOfMonth, MAY, after=3)) == [("a", 6)]
    assert listed(db.page(TagsOfMonth, MAY, until=3)) == [("c", 2)]
    assert listed(db.page(TagsOfMonth, MAY, through=3)) == [("b", 3), ("c", 2)]
    assert listed(db.page(TagsOfMonth, where=field(TagsOfMonth.questions) < 4)) == [("b", 3), ("c", 2)]
    assert listed(db.page(TagsOfMonth, where=field(TagsOfMonth.tag) == Tag.at("b"))) == [("b", 3)]
    source = db.page(TagsOfMonth, MAY)[1].source
    assert listed(db.page(TagsOfMonth, where=field(TagsOfMonth.source) == source)) == [("b", 3)]
    for wrong in (Ref(("b",)), Ref((MAY, 3)), "b"):
        with pytest.raises(InvalidQuery):
            db.page(TagsOfMonth, where=field(TagsOfMonth.source) == wrong)
    with pytest.raises(InvalidQuery, match="only refers"):
        db.page(BestAskers, where=field(within(BestAskers.asker, Asker.name)) == "Ada")


@pytest.mark.parametrize("view", [TagsOfMonth, BestAskers, AskersOfAsker])
def test_the_json_of_a_page_is_that_of_its_rows(db, view):
    page = db.page(view)
    written = to_json(page)  # of rows that are not settled, where it would be the same
    assert written == b'{"rows":%b,"next":null,"previous":null}' % to_json(page.rows)
    assert to_json(page) == written


def test_a_row_refers_to_its_group(db):
    row = db.page(TagsOfMonth, MAY)[1]
    assert repr(row.source).startswith("QuestionsOfTag.at(datetime.datetime(2019, 5, 1")
    group = db.get(QuestionsOfTag, row.source)
    assert (group.tag, group.questions, group.best, group.worst) == (Tag.at("b"), 3, 4, 0)
    assert [each.questions for each in db.get_many(QuestionsOfTag, [each.source for each in db.page(TagsOfMonth)])] == [
        6,
        3,
        2,
    ]
    with pytest.raises(InvalidKey):
        db.get(Tag, row.source)


def test_copies_only_refer(db):
    rows = db.page(BestAskers).rows
    assert [(row.asker.ref, row.best, row.mean) for row in rows] == [
        (User.at(1), 5, Decimal(3)),
        (User.at(0), 4, Decimal(2)),
    ]
    assert not hasattr(rows[0].asker, "name")
    assert db.get(User, rows[0].asker).name == "Bea"
    assert [row.score for row in db.page(AskersOfAsker, User.at(1))] == [9]
    db.patch(User, 1, name="Bel")
    assert db.page(BestAskers).rows == rows


def test_json_and_its_schema(db):
    assert to_json(db.page(TagsOfMonth, MAY)[1]) == (
        b'{"source":["2019-05-01T00:00:00Z","b"],"month":"2019-05-01T00:00:00Z","questions":3,"tag":"b"}'
    )
    assert to_json(db.page(BestAskers)[0]) == b'{"source":1,"best":5,"asker":{"ref":1},"mean":"3"}'
    schema = form(TagsOfMonth).schema().schema["properties"]
    assert schema["source"]["prefixItems"] == [{"type": "string", "format": "date-time"}, {"type": "string"}]
    assert form(BestAskers).schema().schema["properties"]["source"] == {"type": "integer"}


def test_explain_and_survey_and_dump(db):
    assert db.explain.page(TagsOfMonth, MAY, limit=10).plan[0].startswith("scan views for 11 rows of TagsOfMonth(")
    parts = {(part.table, part.name): part.rows for part in db.survey(exact=True).parts}
    assert (parts["views", "TagsOfMonth"], parts["counts", "QuestionsOfTag"]) == (3, 3)
    lines = []
    db.dump(lines.append)
    assert b"TagsOfMonth" not in b"".join(lines)


def test_a_cursor_of_another_list_is_refused(db):
    cursor = db.page(TagsOfMonth, MAY, limit=1).next
    with pytest.raises(InvalidCursor):
        db.page(TagsOfMonth, JUNE, limit=1, cursor=cursor)


def test_wrong_arguments(db):
    with pytest.raises(InvalidQuery, match="read a page of this index"):
        db.get(TagsOfMonth, MAY, 3)
    with pytest.raises(InvalidKey):
        db.page(TagsOfMonth, "May")
    with pytest.raises(InvalidKey):
        db.page(TagsOfMonth, MAY, 3, 4)
    with pytest.raises(UsageError):
        db.page(QuestionsOfTag, Asker.of(1))


def test_the_asynchronous_face_lists_groups(url):
    async def run():
        async with await connect_async(url, SITE, workers=0) as database:
            await database.save_all([User(number=number, name="Ada") for number in range(2)])
            await database.save_all([Tag(word=word) for word in "abc"])
            await database.save_all([question(number) for number in range(6)])
            await database.delete(Question, 3)
            return listed(await database.page(TagsOfMonth, MAY))

    assert asyncio.run(run()) == [("a", 5), ("b", 3), ("c", 1)]


# When rows change.


def test_an_empty_group_has_no_row(db):
    for number in (0, 3):
        db.patch(Question, number, tags=[])
    assert listed(db.page(TagsOfMonth, MAY)) == [("a", 4), ("b", 2)]
    db.save(question(3))
    assert listed(db.page(TagsOfMonth, MAY)) == [("a", 5), ("b", 2), ("c", 1)]


def test_a_new_greatest_value_moves_a_row_although_no_sum_changes(db):
    db.patch(Question, 4, score=9)
    db.patch(Question, 2, score=-3)
    assert [(row.asker.ref.key, row.best) for row in db.page(BestAskers)] == [((0,), 9), ((1,), 5)]
    assert db.get(QuestionsOfAsker, 0).score == 6
    assert db.verify().clean


def test_a_transaction_that_fails_changes_no_row(db):
    def body(tx):
        tx.delete(Question, 1)
        tx.save(question(9))
        raise ZeroDivisionError

    before = db.page(TagsOfMonth).rows
    with pytest.raises(ZeroDivisionError):
        db.transact(body)
    assert db.page(TagsOfMonth).rows == before
    assert db.transact(lambda tx: (tx.delete(Question, 1), tx.save(question(9)), tx.delete(Question, 9))) is not None
    assert listed(db.page(TagsOfMonth)) == [("a", 5), ("b", 3), ("c", 2)]
    assert db.verify().clean


class CartsByAmount(Index[Items]):
    amount: int = descending(Items.amount)


CARTS = (Price, Item, Items, CartsByAmount)
HUGE = 10**600
"""More digits than fit into a key."""


def carts(db):
    return [(row.source.key[0], row.amount) for row in db.page(CartsByAmount)]


def test_numbers_that_cannot_be_in_a_key_refuse_the_commit(url):
    with connect(url, Schema(*CARTS), workers=0) as db:
        db.save_all([Price(number=1, amount=2), Price(number=2, amount=HUGE), Price(number=3, amount=-HUGE)])
        with pytest.raises(InvalidKey) as refused:
            db.save_all([Item(number=1, price=Paid.of(1), cart=1), Item(number=2, price=Paid.of(2), cart=1)])
        assert refused.value.facts["field"] == "amount"
        assert db.find(Item, 1) is None
        db.save_all([Item(number=number, price=Paid.of(number), cart=1) for number in (1, 2, 3)])
        assert carts(db) == [(1, 2)]
        told = []
        with db.bulk(on_refused=told.append) as bulk:
            for number, price, cart in ((4, 1, 2), (5, 2, 2), (6, 1, 2), (7, 3, 1)):
                bulk.save(Item(number=number, price=Paid.of(price), cart=cart))
        assert [refusal.given[0][1].number for refusal in told] == [5, 7]
        assert carts(db) == [(2, 4), (1, 2)]
        assert db.verify().clean


@pytest.mark.parametrize("inline", [0, 1000])
def test_holders_whose_change_cannot_be_listed_are_set_aside(url, inline):
    with connect(url, Schema(*CARTS, inline=inline), workers=0) as db:
        db.save(Price(number=1, amount=2))
        db.save_all([Item(number=number, price=Paid.of(1), cart=number % 2) for number in range(3)])
        db.patch(Price, 1, amount=HUGE)
        db.drain()
        assert db.survey().set_aside == 3
        assert carts(db) == [(0, 4), (1, 2)]
        db.patch(Price, 1, amount=5)
        db.drain()
        assert carts(db) == [(0, 10), (1, 5)]
        assert db.verify().clean


# What a commit costs.


class Vote(Model[int]):
    number: Key[int]
    on: int
    value: int


class VotesOf(Aggregate[Vote]):
    on: int = by(Vote.on)
    votes: int = count()
    score: int = total(Vote.value)
    best: int | None = greatest(Vote.value)


class MostVotes(Index[VotesOf]):
    votes: int = descending(VotesOf.votes)


class BestVotes(Index[VotesOf]):
    best: int | None = descending(VotesOf.best, none="last")


PLAIN, LISTED, BOTH = (
    Schema(Vote, VotesOf),
    Schema(Vote, VotesOf, MostVotes),
    Schema(Vote, VotesOf, MostVotes, BestVotes),
)


def votes(url, schema):
    return connect(url, schema, workers=0)


def test_a_commit_without_such_an_index_costs_what_it_did(url):
    with votes(url, PLAIN) as db:
        assert spent(db.save, Vote(number=1, on=1, value=1)) == (6, 6)


def test_an_index_of_sums_costs_its_rows_and_no_request(url):
    with votes(url, LISTED) as db:
        assert spent(db.save, Vote(number=1, on=1, value=1)) == (6, 7)  # a new group: one row more
        assert spent(db.save, Vote(number=2, on=1, value=1)) == (6, 8)  # it moves: one row goes, one comes
        assert spent(db.patch, Vote, 1, value=5) == (6, 7)  # nothing that is shown changes
        assert spent(db.patch, Vote, 1, on=2) == (6, 12)  # one group moves, one begins


def test_an_extremum_costs_one_scan_for_each_changed_group(url):
    with votes(url, BOTH) as db:
        assert spent(db.save, Vote(number=1, on=1, value=1)) == (7, 8)
        assert spent(db.save, Vote(number=2, on=1, value=5))[0] == 7
        assert spent(db.patch, Vote, 1, on=2)[0] == 8
        bound = costs.of(BOTH).save(Vote)
        assert spent(db.save, Vote(number=1, on=3, value=8)) <= (bound.requests, bound.rows)


def test_a_batch_writes_one_row_for_each_group(url, monkeypatch):
    with votes(url, BOTH) as db:
        prefix = db.operations.catalog.views[MostVotes].prefix
        written = []
        rows_of_group = IndexedGroups.rows

        def noted(self, key, numbers):
            written.extend([] if numbers.sums is None else [key])
            return rows_of_group(self, key, numbers)

        monkeypatch.setattr(IndexedGroups, "rows", noted)
        few = spent(db.save_all, [Vote(number=number, on=number % 2, value=1) for number in range(10)])
        assert len(written) == 2
        more = spent(db.save_all, [Vote(number=number, on=number % 2, value=1) for number in range(10, 1010)])
        assert len(written) == 2 + 4
        assert few[0] == more[0] == 8
        rows = db.run(Scan("views", RowRange.under(prefix), 1000, families="dm").__iter__())
        assert len(rows) == 2
        assert [row.votes for row in db.page(MostVotes)] == [505, 505]


def test_the_bound_names_the_rows_and_the_scans():
    bound = costs.of(BOTH).save(Vote)
    terms = [(term.act, term.what, term.because, term.rows) for term in bound.terms]
    assert ("write", "index rows of groups", "MostVotes", 4) in terms
    assert ("scan", "extremum", "VotesOf.best", 6) in terms
    assert costs.of(LISTED).save(Vote).requests == costs.of(PLAIN).save(Vote).requests
    assert costs.of(BOTH).page(MostVotes, limit=10).rows == 11
    with pytest.raises(UsageError, match="this view only has pages"):
        costs.of(BOTH).get(MostVotes)


# What may be declared.


def refusal(*declarations):
    with pytest.raises(InvalidDeclaration) as error:
        Schema(Question, Tag, User, QuestionsOfAsker, QuestionsOfTag, *declarations)
    return str(error.value)


def test_an_index_of_an_index_is_refused():
    class Again(Index[TagsOfMonth]):
        tag: Ref[Tag] = by(TagsOfMonth.tag)

    assert "not the rows of another index" in refusal(TagsOfMonth, Again)


def test_an_aggregate_of_an_aggregate_is_refused():
    class Again(Aggregate[QuestionsOfTag]):
        tag: Ref[Tag] = by(QuestionsOfTag.tag)
        months: int = count()

    assert "let an entity show them with rollup(...)" in refusal(Again)


def test_the_aggregate_is_in_the_schema():
    with pytest.raises(InvalidDeclaration, match="the aggregate of this view is not in the schema"):
        Schema(Question, Tag, User, QuestionsOfAsker, TagsOfMonth)


def test_what_a_group_refers_to_is_not_shown():
    class Named(Index[QuestionsOfAsker]):
        name: str = shown(within(QuestionsOfAsker.asker, Asker.name))

    class Far(Index[QuestionsOfTag]):
        word: str = by(within(QuestionsOfTag.tag, Tag.word))

    class Chosen(Index[QuestionsOfAsker]):
        where = field(within(QuestionsOfAsker.asker, Asker.name)) == "Ada"

        questions: int = descending(QuestionsOfAsker.questions)

    for index in (Named, Far, Chosen):
        assert "a group only refers to an entity" in refusal(index)


def test_a_reference_of_a_copy_is_shown(url):
    class Referring(Index[QuestionsOfAsker]):
        asker: Ref[User] = by(within(QuestionsOfAsker.asker, Asker.ref))

    schema = Schema(Question, Tag, User, QuestionsOfAsker, Referring)
    with connect(url, schema, workers=0) as db:
        db.save_all([User(number=1, name="Ada"), question(1, tags=[])])
        assert [row.asker for row in db.page(Referring, 1)] == [User.at(1)]


def test_other_mistakes():
    class Unique(Index[QuestionsOfTag]):
        unique = True

        tag: Ref[Tag] = by(QuestionsOfTag.tag)

    class WrongType(Index[QuestionsOfTag]):
        questions: str = descending(QuestionsOfTag.questions)

    class OfEntity(Index[QuestionsOfTag]):
        score: int = descending(Question.score)

    class Total(Index[QuestionsOfTag]):
        score: int = total(QuestionsOfTag.score)

    class NeverNone(Index[QuestionsOfTag]):
        best: int = shown(QuestionsOfTag.best)

    class All(Aggregate[Question]):
        questions: int = count()

    class One(Index[All]):
        questions: int = shown(All.questions)

    assert "is never unique" in refusal(Unique)
    assert "another type than its source" in refusal(WrongType)
    assert "this path starts at another model" in refusal(OfEntity)
    assert "an index has no totals" in refusal(Total)
    assert "this value may be None" in refusal(NeverNone)
    assert "this aggregate has one group only" in refusal(All, One)


def test_an_index_without_a_key_rule_lists_groups_in_their_order(url):
    class Groups(Index[QuestionsOfTag]):
        questions: int = shown(QuestionsOfTag.questions)

    with connect(url, Schema(Question, Tag, User, QuestionsOfAsker, QuestionsOfTag, Groups), workers=0) as db:
        db.save_all([User(number=0, name="Ada"), User(number=1, name="Bea"), *[Tag(word=word) for word in "abc"]])
        db.save_all([question(number) for number in range(3)])
        assert [(row.source.key[1], row.questions) for row in db.page(Groups)] == [("a", 3), ("b", 2), ("c", 1)]
