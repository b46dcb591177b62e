"""Damaged totals and groups: exactly what is wrong is reported, and a repair does not spread it."""

import msgspec
import pytest

from oneread import connect
from oneread.derivations.entity_type import EntityType
from oneread.store.rows import VALUE, Cell
from oneread.transactions.deltas import encode_amounts
from oneread.verify import looks, sums
from tests.properties.votes_and_answers import (
    SITE,
    Answer,
    AnswersOf,
    Author,
    Badge,
    Comment,
    Day,
    Points,
    Question,
    Replies,
    Tag,
    User,
    Visit,
    Vote,
    VotesOf,
    Winner,
)
from tests.unit.derivations.twin import decide_in_python
from tests.unit.verify.hands import STORES, damage_document, put, rows, url_of


@pytest.fixture(params=STORES)
def db(request, tmp_path, monkeypatch):
    monkeypatch.setattr(looks, "APART", 0.0)
    monkeypatch.setattr(sums, "APART", 0.0)
    with connect(url_of(request.param, tmp_path), SITE, workers=0) as database:
        database.save_all([User(number=number, name=name) for number, name in enumerate(("Ada", "Bea", "Cid"))])
        database.save(Tag(word="a"))
        database.save_all([Question(number=number, tags=[Tag.at("a")]) for number in range(3)])
        for number in range(6):
            database.save(Answer(number=number, question=Question.at(number % 2), author=Author.of(number % 3)))
            votes = [Vote(on=number, voter=voter, answer=Answer.at(number), value=voter + 1) for voter in range(number)]
            database.save_all(votes)
        database.save(Badge(number=1, winner=Winner.of(2)))
        database.save_all([Comment(number=1), Comment(number=2, reply_to=Comment.at(1))])
        database.save_all([Visit(number=1, user=1, day=1), Day(user=1, day=1)])
        yield database


def everything(db):
    models = (User, Tag, Question, Answer, Badge, Comment, Day)
    return {model: [row for page in db.scan(model) for row in page] for model in models}


def a_total_that_lists_show(db):
    damage_document(db, Question, (1,), answers=77)
    return [("total", "Question(1)", "answers 3", "answers 77")]


def a_total_that_is_summed_and_copied(db):
    damage_document(db, Answer, (4,), score=77)
    return [("total", "Answer(4)", "score 10", "score 77")]


def a_total_that_nothing_depends_on(db):
    damage_document(db, Answer, (4,), votes=77)
    return [("total", "Answer(4)", "votes 4", "votes 77")]


def a_total_of_its_own_kind(db):
    damage_document(db, Comment, (1,), replies=7)
    return [("total", "Comment(1)", "replies 1", "replies 7")]


def a_total_by_the_parts_of_a_key(db):
    damage_document(db, Day, (1, 1), visits=7)
    return [("total", "Day(1, 1)", "visits 1", "visits 7")]


def damage_group(db, view, number, numbers=(50,) * 5):
    key, row = rows(db, "counts", db.operations.catalog.views[view].prefix)[number]
    put(db, "counts", key, {VALUE: Cell(encode_amounts(list(numbers)), row[VALUE].stamp)})


def a_group_whose_total_is_summed(db):
    damage_group(db, VotesOf, 3)
    return [("VotesOf", "VotesOf(4)", None, None)]


def a_group_with_too_few_numbers(db):
    damage_group(db, VotesOf, 2, (50,))
    return [("VotesOf", "VotesOf(3)", None, None)]


def a_group_at_the_top(db):
    damage_group(db, Points, 1)
    return [("Points", "Points(1)", None, None)]


def a_group_of_the_entitys_own_kind(db):
    damage_group(db, Replies, 0)
    return [("Replies", "Replies(1)", None, None)]


def the_greatest_value_of_a_group(db):
    hidden = next(each for each in db.operations.catalog.views[AnswersOf].extrema if each.field == "best")
    key, _row = rows(db, "views", hidden.prefix)[0]
    put(db, "views", key, None)
    return [("AnswersOf.best", "AnswersOf.best(0)", None, None)]


def an_entity_that_missed_a_change(db):
    """Its record says what its document says: only the group knows better."""
    right = EntityType.with_totals

    def wrong(self, key, entity, before, numbers):
        found = right(self, key, entity, before, numbers)
        return msgspec.structs.replace(found, answers=77) if type(found) is Question else found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(EntityType, "with_totals", wrong)
        decide_in_python(patched)
        db.patch(Question, 1, asker=None, tags=[])
    return [("total", "Question(1)", "answers 3", "answers 77")]


DAMAGES = [
    a_total_that_lists_show,
    a_total_that_is_summed_and_copied,
    a_total_that_nothing_depends_on,
    a_total_of_its_own_kind,
    a_total_by_the_parts_of_a_key,
    a_group_whose_total_is_summed,
    a_group_with_too_few_numbers,
    a_group_at_the_top,
    a_group_of_the_entitys_own_kind,
    the_greatest_value_of_a_group,
    an_entity_that_missed_a_change,
]


def test_a_whole_store_has_no_faults(db):
    assert db.verify().clean


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_exactly_what_is_wrong_is_found_and_mended(db, damage):
    before = everything(db)
    wanted = damage(db)
    faults = db.verify().faults
    assert [(each.view, each.row) for each in faults] == [(view, row) for view, row, *_values in wanted]
    for fault, (_view, _row, expected, found) in zip(faults, wanted, strict=True):
        assert expected is None or (fault.expected, fault.found) == (expected, found)
    assert db.repair().clean
    after = everything(db)
    if damage is an_entity_that_missed_a_change:
        assert [each.answers for each in after[Question]] == [each.answers for each in before[Question]]
    else:
        assert after == before


def test_several_damages_at_once_are_mended(db):
    before = everything(db)
    for damage in DAMAGES[:-1]:
        damage(db)
    assert db.repair().clean
    assert everything(db) == before


def test_a_damaged_total_is_said_by_field(db):
    damage_document(db, Question, (0,), answers=7)
    (fault,) = db.verify().faults
    assert fault.text == "Question 0: answers: 7 -> 3"
