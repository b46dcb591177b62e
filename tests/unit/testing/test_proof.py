"""Proofs of schemas that the library takes: with marks, declared inside a function, with several writes in one step."""

from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings

from oneread import Aggregate, Feed, Index, Key, Model, Ref, Schema, by, count, newest, on, reference, rollup
from oneread.errors import AlreadyExists, NotUnique
from oneread.testing import strategies
from oneread.testing.crashes import survive
from oneread.testing.proof import Proof, prove
from oneread.testing.steps import BulkStep, DeleteStep, LookStep, PatchStep, SaveAllStep, SaveStep, TogetherStep

URLS = ("memory://", "memory://?span=row")
SOME = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


class Member(Model[int]):
    number: Key[int]


class Group(Model[int]):
    number: Key[int]


class Membership(Model[int, int]):
    of: Key[int]
    who: Key[int]
    group: Ref[Group]
    member: Ref[Member]


class Post(Model[int]):
    number: Key[int]
    group: Ref[Group]
    made_at: datetime


class Home(Feed[Post]):
    member: Ref[Member] = by(Membership.member)
    made_at: datetime = newest(Post.made_at)
    joined = on(Post.group, Membership.group)
    marks = True


SITE = Schema(Member, Group, Membership, Post, Home)


@pytest.mark.parametrize("url", URLS)
def test_histories_and_crashes_of_a_feed_with_marks_are_taken(url):
    @SOME
    @given(strategies.histories(SITE), strategies.crashes(SITE))
    def holds(history, crash):
        prove(SITE, history, url)
        survive(SITE, crash, span="row" if "row" in url else "rows")

    holds()


@pytest.mark.parametrize("url", URLS)
def test_a_model_inside_a_function_that_refers_to_itself_and_shows_totals(url):
    class Reply(Model[int]):
        number: Key[int]
        to: Ref["Reply"] | None = reference()
        replies: int = rollup(lambda: Replies.replies)

    class Replies(Aggregate[Reply]):
        to: Ref[Reply] = by(Reply.to)
        replies: int = count()

    site = Schema(Reply, Replies)
    prove(site, [SaveStep(Reply(number=1)), SaveStep(Reply(number=2, to=Reply.at(1))), LookStep()], url)


class Person(Model[int]):
    number: Key[int]
    mail: str = ""


class Mails(Index[Person]):
    unique = True

    mail: str = by(Person.mail)


PEOPLE = Schema(Person, Mails)
ADA, BEA = Person(number=1, mail="ada"), Person(number=2, mail="bea")


def test_several_writes_are_one_commit():
    with Proof(PEOPLE) as proof:
        swap = [PatchStep(Person, (1,), {"mail": "bea"}), PatchStep(Person, (2,), {"mail": "ada"})]
        assert proof.do(SaveAllStep([ADA, BEA])) == [ADA, BEA]
        assert proof.do(TogetherStep(swap)) == []
        refused = proof.do(TogetherStep([DeleteStep(Person, (1,)), SaveStep(ADA, "create")]))
        assert isinstance(refused, NotUnique)
        proof.look()
        assert proof.database.get(Person, 1).mail == "bea"


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("batch", [1, 2, 100])
def test_a_bulk_writer_leaves_out_what_is_refused(url, batch):
    with Proof(PEOPLE, url) as proof:
        step = BulkStep(
            [SaveStep(ADA), SaveStep(ADA, "create"), SaveStep(Person(number=3, mail="ada")), SaveStep(BEA)], batch
        )
        assert proof.do(step) == []
        assert {place: type(error) for place, error in step.refused.items()} == {1: AlreadyExists, 2: NotUnique}
        proof.look()
        assert [each.number for each in proof.database.page(Person)] == [1, 2]


@pytest.mark.parametrize("url", URLS)
def test_where_each_entity_is_a_commit_those_before_a_refused_one_are_stored(url):
    with Proof(Schema(Person, Mails, portable=True), url) as proof:
        refused = proof.do(SaveAllStep([ADA, Person(number=3, mail="ada"), BEA]))
        assert isinstance(refused, NotUnique)
        proof.look()
        assert [each.number for each in proof.database.page(Person)] == [1]
