"""Variants: one never replaces another, references to one refuse the others, and a transaction changes one."""

import io
from typing import Annotated

import pytest
from msgspec import Meta

from oneread import (
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    reference,
    shown,
    within,
)
from oneread.errors import AlreadyExists, InvalidDeclaration, InvalidValue, MissingReference, NotFound, StillReferenced
from oneread.transfer.load import DumpReader, parse_head
from tests.unit.database.faces import FACES


class Asked(Copy["Question"]):
    title: str
    text: str


class Cleared(Copy["Question"]):
    on_delete = "clear"
    title: str


class Awaited(Copy["Question"]):
    missing_ok = True
    title: str


class Shown(Copy["Post"]):
    text: str


class Post(Model[int]):
    number: Key[int]
    text: str = ""


class Question(Post):
    title: str = ""
    subject: str = "s"


class Poll(Question):
    choices: int = 2


class Answer(Post):
    to: Ref[Question] | None = None


class Note(Model[int]):
    number: Key[int]
    asked: Asked | None = None
    cleared: Cleared | None = None
    awaited: Awaited | None = None
    post: Shown | None = None
    plain: Ref[Question] | None = reference(missing_ok=True)


class Titles(Index[Question]):
    title: str = by(Question.title)


class BySubject(Index[Answer]):
    subject: str = by(within(Answer.to, Question.subject))


class ByTitleOfNote(Index[Note]):
    title: str = by(within(Note.asked, Asked.title))
    text: str | None = shown(within(Note.asked, Asked.text))


SCHEMA = Schema(Post, Question, Poll, Answer, Note, Titles, BySubject, ByTitleOfNote)


@pytest.fixture(params=sorted(FACES))
def db(url, request):
    db = FACES[request.param](url, SCHEMA, workers=0)
    db.save(Question(number=1, title="T", text="?"))
    yield db
    assert db.verify().clean
    db.close()


WRITES = {
    "save": lambda db, entity: db.save(entity),
    "save_all": lambda db, entity: db.save_all([entity]),
    "create": lambda db, entity: db.create(entity),
    "get_or_create": lambda db, entity: db.get_or_create(entity),
    "upsert": lambda db, entity: db.upsert(entity, text="x"),
}


@pytest.mark.parametrize("entity", [Answer(number=1), Poll(number=1)], ids=["a sibling", "a variant of it"])
@pytest.mark.parametrize("verb", WRITES)
def test_no_verb_replaces_another_variant(db, verb, entity):
    with pytest.raises(AlreadyExists) as refusal:
        WRITES[verb](db, entity)
    assert refusal.value.facts["owner"] == "Post(1)"
    assert "another variant has this key" in refusal.value.message
    assert (refusal.value.facts["stored"], refusal.value.facts["variant"]) == ("Question", type(entity).__name__)
    assert db.get(Question, 1) == Question(number=1, title="T", text="?")
    assert [row.title for row in db.page(Titles)] == ["T"]


def test_the_model_does_not_replace_its_variant(db):
    with pytest.raises(AlreadyExists):
        db.save(Post(number=1))
    assert db.get_or_create(Post(number=1)) == (db.get(Question, 1), False)
    assert db.upsert(Post(number=1), text="new") == Question(number=1, title="T", text="new")


def test_a_patch_sets_what_the_named_class_declares(db):
    assert db.patch(Post, 1, text="new") == Question(number=1, title="T", text="new")
    with pytest.raises(InvalidValue, match="patch that variant") as refusal:
        db.patch(Post, 1, title="U")
    assert refusal.value.facts["variants"] == ["Question"]
    with pytest.raises(InvalidValue, match="no such field"):
        db.patch(Post, 1, titel="U")
    with pytest.raises(NotFound):
        db.patch(Answer, 1, text="U")
    assert db.patch(Question, 1, title="U").title == "U"


@pytest.mark.parametrize("name", ["asked", "cleared"])
def test_a_copy_of_a_variant_refuses_the_others(db, name):
    db.save(Answer(number=2))
    cls = {"asked": Asked, "cleared": Cleared}[name]
    with pytest.raises(MissingReference, match="another variant") as refusal:
        db.save(Note(number=1, **{name: cls.of(2)}))
    assert (refusal.value.facts["expected"], refusal.value.facts["variant"]) == (Question, Answer)
    with pytest.raises(MissingReference, match="does not exist"):
        db.save(Note(number=1, **{name: cls.of(3)}))
    db.save(Poll(number=4, title="P"))
    assert getattr(db.save(Note(number=1, **{name: cls.of(4)})), name).title == "P"
    with pytest.raises(MissingReference, match="another variant"):
        db.patch(Note, 1, **{name: cls.of(2)})


def test_a_reference_to_a_variant_refuses_the_others(db):
    db.save(Answer(number=2))
    with pytest.raises(MissingReference, match="another variant"):
        db.save(Answer(number=3, to=Question.at(2)))
    db.save(Answer(number=3, to=Question.at(1)))
    assert [row.subject for row in db.page(BySubject)] == ["s"]


def test_missing_ok_waits_for_the_variant(db):
    db.save(Answer(number=2))
    note = db.save(Note(number=1, awaited=Awaited.of(2), plain=Question.at(2)))
    assert (note.awaited.title, note.awaited.deleted) == (None, True)
    db.patch(Answer, 2, text="changed")
    assert db.get(Note, 1).awaited.title is None
    db.delete(Answer, 2)
    db.save(Question(number=2, title="now"))
    assert (db.get(Note, 1).awaited.title, db.get(Note, 1).awaited.deleted) == ("now", False)


def test_a_copy_shows_fields_of_its_variant_and_follows_them(db):
    db.save(Note(number=1, asked=Asked.of(1)))
    db.patch(Question, 1, title="U")
    assert [(row.title, row.text) for row in db.page(ByTitleOfNote)] == [("U", "?")]
    db.patch(Post, 1, text="!")
    assert [(row.title, row.text) for row in db.page(ByTitleOfNote)] == [("U", "!")]
    db.save(Answer(number=2, text="an answer has no title"))


def test_a_deleted_entity_of_another_variant_leaves_nothing(db):
    """The last values of an answer are not those of the question that had its key before."""
    db.save(Note(number=1, asked=Asked.of(1), cleared=Cleared.of(1), post=Shown.of(1)))
    db.delete(Question, 1)
    db.save(Answer(number=1, text="answer"))
    for _ in range(2):
        note = db.get(Note, 1)
        assert (note.asked.title, note.asked.text, note.asked.deleted) == ("T", "?", True)
        assert (note.cleared.title, note.cleared.deleted) == (None, True)
        assert note.post.text == "answer"
        db.delete(Answer, 1)
    assert db.get(Note, 1).post.deleted
    db.save(Question(number=1, title="V", text="."))
    assert (db.get(Note, 1).asked.title, db.get(Note, 1).cleared.title) == ("V", "V")


def in_transaction(db, *steps):
    """The steps (verb, arguments) in one transaction."""
    return db.transact([(verb, given, {}) for verb, given in steps])


def test_a_transaction_changes_the_variant(db):
    db.save(Note(number=1, asked=Asked.of(1), post=Shown.of(1)))
    in_transaction(db, ("delete", (Question, 1)), ("save", (Answer(number=1, text="moved"),)))
    assert db.get(Post, 1) == Answer(number=1, text="moved")
    assert [*db.page(Titles)] == []
    note = db.get(Note, 1)
    assert (note.asked.title, note.asked.deleted, note.post.text) == ("T", True, "moved")
    assert not note.post.deleted


def test_a_transaction_refuses_to_replace_a_variant(db):
    with pytest.raises(AlreadyExists):
        in_transaction(db, ("save", (Answer(number=1),)))
    in_transaction(db, ("delete", (Answer, 1)))
    with pytest.raises(AlreadyExists):
        in_transaction(db, ("delete", (Answer, 1)), ("save", (Answer(number=1),)))
    assert db.get(Question, 1).title == "T"


def dumped(db):
    text = io.BytesIO()
    if hasattr(db, "runner"):
        db.runner.run(db.db.dump(text.write))
    else:
        db.dump(text.write)
    return text.getvalue()


def load(db, text):
    head, *lines, _end = text.splitlines()
    reader = DumpReader(db.operations.catalog, parse_head(head))
    with db.bulk() as bulk:
        for line in lines:
            bulk.apply(reader.change(line), len(line))


def test_a_dump_holds_copies_of_a_variant_that_is_another_now(new_url, db):
    db.save(Note(number=1, asked=Asked.of(1), awaited=Awaited.of(1)))
    in_transaction(db, ("delete", (Question, 1)), ("save", (Answer(number=1, text="moved"),)))
    with connect(new_url(), SCHEMA) as copy:
        load(copy, dumped(db))
        assert copy.get(Note, 1) == db.get(Note, 1)
        assert copy.get(Post, 1) == db.get(Post, 1)
        assert copy.verify().clean
        assert dumped(copy) == dumped(db)


def test_a_load_does_not_replace_another_variant(new_url, db):
    with connect(new_url(), SCHEMA) as other:
        other.save(Answer(number=1, text="other"))
        with pytest.raises(AlreadyExists):
            load(other, dumped(db))
        assert other.get(Answer, 1).text == "other"


def test_a_variant_held_by_refuse_is_not_changed(url):
    class Held(Copy[Question]):
        on_delete = "refuse"
        title: str

    class Keeper(Model[int]):
        number: Key[int]
        held: Held

    with connect(url, Schema(Post, Question, Poll, Answer, Keeper)) as db:
        db.save(Question(number=1, title="T"))
        db.save(Keeper(number=1, held=Held.of(1)))
        with pytest.raises(StillReferenced):
            db.transact(lambda work: (work.delete(Question, 1), work.save(Answer(number=1))))
        assert db.get(Question, 1).title == "T"


def test_a_value_too_long_for_an_index_over_a_variant_is_refused_at_the_source(db):
    db.save(Answer(number=2, to=Question.at(1)))
    with pytest.raises(InvalidValue, match="cannot hold the new value"):
        db.patch(Question, 1, subject="x" * 300)


def test_a_path_through_a_field_of_a_variant_has_a_bound(url):
    class Box(Model[int]):
        number: Key[int]
        post: Ref[Answer]

    class ByTitle(Index[Box]):
        title: str = by(within(Box.post, within(Answer.to, Question.title)))

    with connect(url, Schema(Post, Question, Poll, Answer, Box, ByTitle), workers=0) as db:
        db.save(Question(number=1, title="T"))
        db.save(Answer(number=2, to=Question.at(1)))
        db.save(Box(number=1, post=Answer.at(2)))
        bound = db.explain.patch(Question, 1, title="U").bound
        cost = db.cost(db.patch(Question, 1, title="U"))
        assert (cost.requests, cost.rows) <= (bound.requests, bound.rows)
        assert [row.title for row in db.page(ByTitle)] == ["U"]
        assert db.verify().clean


def test_a_bound_knows_the_declared_size_of_a_field_of_a_variant(url):
    class Thing(Model[int]):
        number: Key[int]

    class Short(Thing):
        label: Annotated[str, Meta(max_length=10)]

    class Long(Thing):
        label: Annotated[str, Meta(max_length=5_000)]

    class Label(Copy[Short]):
        label: str

    class Labels(Copy[Long]):
        label: str

    class Holder(Model[int]):
        number: Key[int]
        short: Label | None = None
        long: Labels | None = None

    with connect(url, Schema(Thing, Short, Long, Holder)) as db:
        terms = db.explain.delete(Thing, 1).bound.terms
        (written,) = [each for each in terms if (each.act, each.what) == ("write", "entity")]
        assert 5_000 * 4 < written.bytes < 60_000


def test_one_name_with_two_types_cannot_be_copied_from_both_variants(url):
    class Thing(Model[int]):
        number: Key[int]

    class Box(Thing):
        size: int

    class Sack(Thing):
        size: str

    class OfBox(Copy[Box]):
        size: int

    class OfSack(Copy[Sack]):
        size: str

    class Holder(Model[int]):
        number: Key[int]
        box: OfBox | None = None
        sack: OfSack | None = None

    with pytest.raises(InvalidDeclaration, match="give one another name"):
        connect(url, Schema(Thing, Box, Sack, Holder))


def test_a_lookup_of_a_variant_costs_nothing_more(db):
    if hasattr(db, "runner"):
        pytest.skip("both faces ask the same")
    saved = db.save(Note(number=1, asked=Asked.of(1)))
    assert db.cost(saved).requests == 4
