"""`oneread verify` and `oneread repair` of totals and lists of groups, on a store that changes one row at a time."""

from uuid import uuid4

from oneread import connect
from oneread.engines.one_row_memory import forget
from tests.properties.votes_and_answers import SITE, Answer, Author, Question, User
from tests.unit.verify.hands import damage_document

SCHEMA = ("--schema", "tests.properties.votes_and_answers:SITE")


def test_a_wrong_total_is_printed_and_mended(bare):
    name = f"x{uuid4().hex[:12]}"
    url = f"memory://{name}?span=row"
    with connect(url, SITE, workers=0) as db:
        db.save(User(number=0, name="Ada"))
        db.save(Question(number=1, tags=[]))
        db.save(Answer(number=1, question=Question.at(1), author=Author.of(0)))
        damage_document(db, Question, (1,), answers=7)
    ran = bare("verify", *SCHEMA, "--db", url)
    assert (ran.code, "different: Question 1: answers: 7 -> 1" in ran.out) == (1, True), ran
    assert bare("repair", *SCHEMA, "--db", url).code == 0
    assert bare("verify", *SCHEMA, "--db", url).code == 0
    forget(name)
