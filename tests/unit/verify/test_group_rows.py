"""Damaged rows of indexes over groups, and damaged groups: exactly what is wrong is reported, and mended."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec
import pytest

from oneread import (
    Aggregate,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    bucket,
    by,
    connect,
    count,
    descending,
    each,
    field,
    greatest,
    newest_values,
    rollup,
    shown,
)
from oneread.errors import InvalidValue
from oneread.store.rows import VALUE, Cell
from oneread.transactions.deltas import encode_amounts
from oneread.transactions.outbox import group_root
from oneread.transactions.root import BODY, EMITTED, VERSION
from oneread.transactions.shown_groups import decode_listed, encode_listed
from oneread.transactions.total_follower import TotalFollower
from oneread.verify import looks, sums
from tests.unit.verify.hands import STORES, put, rows, stored_rows, url_of


class Question(Model[int]):
    number: Key[int]
    posted_at: datetime
    score: int
    tags: Annotated[list[Ref["Tag"]], msgspec.Meta(max_length=5)]


class QuestionsOfTag(Aggregate[Question]):
    month: datetime = bucket(Question.posted_at, "month")
    tag: Ref["Tag"] = by(each(Question.tags))
    questions: int = count()
    best: int | None = greatest(Question.score)
    newest: list[int] = newest_values(Question.score, by=Question.posted_at, most=2)


class TagsOfMonth(Index[QuestionsOfTag]):
    month: datetime = by(QuestionsOfTag.month)
    questions: int = descending(QuestionsOfTag.questions)
    tag: Ref["Tag"] = shown(QuestionsOfTag.tag)


class TagsByBest(Index[QuestionsOfTag]):
    where = field(QuestionsOfTag.questions) > 1

    best: int | None = descending(QuestionsOfTag.best, none="last")
    newest: list[int] = shown(QuestionsOfTag.newest)


class TagUse(Aggregate[Question]):
    tag: Ref["Tag"] = by(each(Question.tags))
    questions: int = count()


class TagsByUse(Index[TagUse]):
    questions: int = descending(TagUse.questions)


class Tag(Model[str]):
    word: Key[str]
    questions: int = rollup(TagUse.questions)


SITE = Schema(Question, QuestionsOfTag, TagsOfMonth, TagsByBest, TagUse, TagsByUse, Tag)
TABLES = ("roots", "views", "counts")


@pytest.fixture(params=STORES)
def db(request, tmp_path, monkeypatch):
    monkeypatch.setattr(looks, "APART", 0.0)
    monkeypatch.setattr(sums, "APART", 0.0)
    with connect(url_of(request.param, tmp_path), SITE, workers=0) as database:
        database.save_all([Tag(word=word) for word in "abc"])
        for number in range(9):
            tags = [Tag.at(word) for place, word in enumerate("abc") if number % (place + 1) == 0]
            posted_at = datetime(2019, 5 + number // 6, 1 + number, tzinfo=UTC)
            database.save(Question(number=number, posted_at=posted_at, score=number, tags=tags))
        yield database


def values(db):
    """Everything but stamps of groups, which a mended one has anew; and versions, where rows are committed again."""
    found = {table: rows(db, table) for table in TABLES}
    if not db.operations.spans_rows:
        found["roots"] = [(key, {BODY: row[BODY]}) for key, row in found["roots"] if BODY in row]
    return {
        table: [(key, {name: cell.value for name, cell in row.items()}) for key, row in each]
        for table, each in found.items()
    }


def prefix(db, view):
    return db.operations.catalog.views[view].prefix


def found_in(db):
    return [(fault.kind, fault.row, fault.text) for fault in db.verify().faults]


def test_a_whole_store_has_no_faults(db):
    assert db.verify().clean
    assert [len(rows(db, "views", prefix(db, view))) for view in (TagsOfMonth, TagsByBest, TagsByUse)] == [6, 5, 3]


@pytest.mark.parametrize("view", [TagsOfMonth, TagsByBest, TagsByUse])
def test_each_row_that_is_missing_is_found_and_comes_back_as_it_was(db, view):
    before = {table: rows(db, table) for table in TABLES}
    for key, _row in rows(db, "views", prefix(db, view)):
        put(db, "views", key, None)
        ((kind, name, text),) = found_in(db)
        assert (kind, name.partition("(")[0]) == ("missing", view.__name__)
        assert text.endswith(": the row is missing")
        repaired = db.repair()
        assert (repaired.clean, repaired.mended) == (True, 1)
        assert values(db)["views"] == [(key, {VALUE: row[VALUE].value}) for key, row in before["views"]]


def test_each_row_that_differs_is_said_by_field(db):
    before = values(db)
    for key, row in rows(db, "views", prefix(db, TagsOfMonth)):
        source, month, questions, _tag = msgspec.msgpack.decode(row[VALUE].value)
        wrong = msgspec.msgpack.encode([source, month, questions + 70, [["zzz"]]])
        put(db, "views", key, {VALUE: Cell(wrong, row[VALUE].stamp)})
    faults = db.verify().faults
    assert [fault.kind for fault in faults] == ["different"] * 6
    assert faults[0].text == (
        "TagsOfMonth 2019-05-01T00:00:00+00:00/6 of QuestionsOfTag 2019-05-01T00:00:00+00:00/a: "
        "questions: 76 -> 6, tag: zzz -> a"
    )
    assert faults[0].row == "TagsOfMonth(2019-05-01T00:00:00+00:00, 6)"
    assert faults[0].entity == "QuestionsOfTag(2019-05-01T00:00:00+00:00, 'a')"
    assert db.repair().clean
    assert values(db) == before


def test_a_row_that_no_group_has_is_found_and_removed(db):
    before = values(db)
    key, row = rows(db, "views", prefix(db, TagsByUse))[0]
    catalog = db.operations.catalog
    for wrong in (catalog.views[TagsByUse].key.codec.encode((70,)), key[4:-3], b"\x00", b""):
        put(db, "views", prefix(db, TagsByUse) + wrong + (b"" if wrong != key[4:-3] else b"zz\x00"), row)
        assert [(kind, text.endswith("no group has this row")) for kind, _name, text in found_in(db)] == [
            ("dangling", True)
        ]
        assert db.repair().clean
        assert values(db) == before


def test_an_unreadable_row_is_found_and_written_again(db):
    before = values(db)
    key, row = rows(db, "views", prefix(db, TagsByUse))[1]
    put(db, "views", key, row | {b"d:z": Cell(b"", 1)})
    assert [kind for kind, *_ in found_in(db)] == ["unreadable"]
    put(db, "views", key, {VALUE: Cell(b"\xc4\xc4", 1)})
    assert [kind for kind, *_ in found_in(db)] == ["different"]
    assert db.repair().clean
    assert values(db) == before


# A fault that a damaged group explains is not reported twice.


@pytest.mark.parametrize("view", [QuestionsOfTag, TagUse])
def test_a_wrong_sum_is_one_fault(db, view):
    before = values(db)
    for key, row in rows(db, "counts", prefix(db, view)):
        put(db, "counts", key, {VALUE: Cell(encode_amounts([50]), row[VALUE].stamp)})
        assert [(kind, name.partition("(")[0]) for kind, name, _text in found_in(db)] == [("different", view.__name__)]
        assert db.repair().clean
        put(db, "counts", key, None)
        assert [(kind, name.partition("(")[0]) for kind, name, _text in found_in(db)] == [("missing", view.__name__)]
        assert db.repair().clean
        assert values(db) == before


def test_a_group_that_nothing_counts_in_is_one_fault(db):
    before = values(db)
    key = prefix(db, TagUse) + db.operations.catalog.views[TagUse].key.codec.encode(("zz",))
    put(db, "counts", key, {VALUE: Cell(encode_amounts([5]), 1)})
    assert [(kind, name) for kind, name, _text in found_in(db)] == [("dangling", "TagUse('zz')")]
    assert db.repair().clean
    assert values(db) == before


@pytest.mark.parametrize(("place", "field"), [(0, "best"), (1, "newest")])
def test_a_wrong_greatest_or_newest_value_is_one_fault(db, place, field):
    before = values(db)
    hidden = db.operations.catalog.views[QuestionsOfTag].extrema[place].prefix
    for key, _row in rows(db, "views", hidden):
        put(db, "views", key, None)
        assert [(kind, name.partition("(")[0]) for kind, name, _text in found_in(db)] == [
            ("missing", f"QuestionsOfTag.{field}")
        ]
        assert db.repair().clean
        assert values(db) == before


def test_commits_on_a_wrong_sum_leave_rows_that_a_repair_removes(db):
    key, row = rows(db, "counts", prefix(db, TagUse))[0]
    before = values(db)
    question = db.get(Question, 0)
    put(db, "counts", key, {VALUE: Cell(encode_amounts([50]), row[VALUE].stamp)})
    db.patch(Question, 0, tags=[])
    db.patch(Question, 0, tags=question.tags)
    # Where rows are changed one at a time the root row of the group remembers its index rows.
    assert len(rows(db, "views", prefix(db, TagsByUse))) == (4 if db.operations.spans_rows else 3)
    assert db.repair().clean
    after = values(db)
    assert (after["views"], after["counts"]) == (before["views"], before["counts"])


def test_everything_wrong_at_once_is_mended(db):
    before = values(db)
    for view in (QuestionsOfTag, TagUse):
        for key, row in rows(db, "counts", prefix(db, view)):
            put(db, "counts", key, {VALUE: Cell(encode_amounts([50]), row[VALUE].stamp)})
    found = [row for view in (TagsOfMonth, TagsByBest, TagsByUse) for row in rows(db, "views", prefix(db, view))]
    for place, (key, row) in enumerate(found):
        put(db, "views", key, None if place % 2 else {VALUE: Cell(b"\x90", row[VALUE].stamp)})
    assert db.repair().clean
    assert values(db) == before


# What is compared.


def test_an_index_is_compared_together_with_its_groups(db):
    (key, row), *_ = rows(db, "counts", prefix(db, TagUse))
    put(db, "counts", key, {VALUE: Cell(encode_amounts([50]), row[VALUE].stamp)})
    (gone, _row), *_ = rows(db, "views", prefix(db, TagsOfMonth))
    put(db, "views", gone, None)
    assert [fault.view for fault in db.verify(TagsByUse).faults] == ["TagUse"]
    assert [fault.view for fault in db.verify(TagsOfMonth).faults] == ["TagsOfMonth"]
    assert [fault.view for fault in db.verify(TagUse).faults] == ["TagUse"]
    assert db.verify(QuestionsOfTag).clean
    assert {fault.view for fault in db.verify(Question).faults} == {"TagUse", "TagsOfMonth"}


def test_a_dropped_entity_leaves_its_groups_and_their_rows(db):
    kind = db.operations.catalog.kinds[Question]
    ((key, row),) = stored_rows(db, "roots", kind.key((4,)))
    put(db, "roots", key, row | {b"d:b": Cell(row[b"d:b"].value[:5], row[b"d:b"].stamp)})
    (fault,) = db.verify().faults
    assert fault.droppable
    assert db.drop(fault)
    db.drain()
    assert db.verify().clean
    assert [(row.source.key, row.questions) for row in db.page(TagsByUse)] == [(("a",), 8), (("b",), 4), (("c",), 3)]
    assert db.get(Tag, "b").questions == 4


# Root rows of groups, on a store that changes one row at a time.


@pytest.fixture
def one_row(monkeypatch):
    monkeypatch.setattr(looks, "APART", 0.0)
    monkeypatch.setattr(sums, "APART", 0.0)
    with connect("memory://?span=row", SITE, workers=0) as database:
        database.save_all([Tag(word=word) for word in "ab"])
        posted_at = datetime(2019, 5, 1, tzinfo=UTC)
        for number in range(3):
            tags = [Tag.at(word) for word in "ab"[: 1 + number % 2]]
            database.save(Question(number=number, posted_at=posted_at, score=number, tags=tags))
        yield database


def root_of(db, view, *key):
    """The root row of a group, and its key."""
    place = group_root(prefix(db, view) + db.operations.catalog.views[view].key.codec.encode(key))
    ((_key, row),) = stored_rows(db, "roots", place)
    return place, row


def a_record_without_a_row(db):
    place, row = root_of(db, TagUse, "a")
    put(db, "roots", place, {**row, EMITTED: Cell(encode_listed({}), row[EMITTED].stamp)})
    return "different", "record", "TagUse a: its record: rows: nothing -> TagsByUse(3)"


def a_record_with_a_row_too_many(db):
    place, row = root_of(db, TagUse, "a")
    listed = decode_listed(row[EMITTED].value)
    (known,) = listed
    other = prefix(db, TagsByUse) + db.operations.catalog.views[TagsByUse].key.codec.encode((9,)) + known[-3:]
    put(db, "roots", place, {**row, EMITTED: Cell(encode_listed({**listed, other: b"?"}), row[EMITTED].stamp)})
    return "different", "record", "TagUse a: its record: rows: TagsByUse(9) -> nothing"


def a_record_that_cannot_be_read(db):
    place, row = root_of(db, TagUse, "b")
    put(db, "roots", place, {**row, EMITTED: Cell(b"\xc4\xc4", row[EMITTED].stamp)})
    return "unreadable", "record", "TagUse b: its record cannot be read"


def a_record_that_is_missing(db):
    place, row = root_of(db, TagUse, "b")
    put(db, "roots", place, {column: cell for column, cell in row.items() if column != EMITTED})
    return "missing", "record", "TagUse b: its record is missing"


def a_root_row_that_is_missing(db):
    place, _row = root_of(db, TagUse, "b")
    put(db, "roots", place, None)
    return "missing", "record", "TagUse b: its record is missing"


def a_version_that_is_not_its_own(db):
    place, row = root_of(db, TagUse, "a")
    put(db, "roots", place, {**row, VERSION: Cell((7).to_bytes(8, "big"), row[VERSION].stamp)})
    return "different", "version", "TagUse a"


def a_version_that_is_missing(db):
    place, row = root_of(db, TagUse, "a")
    put(db, "roots", place, {column: cell for column, cell in row.items() if column != VERSION})
    return "missing", "version", "TagUse a"


OF_ROOT_ROWS = [
    a_record_without_a_row,
    a_record_with_a_row_too_many,
    a_record_that_cannot_be_read,
    a_record_that_is_missing,
    a_root_row_that_is_missing,
    a_version_that_is_not_its_own,
    a_version_that_is_missing,
]


@pytest.mark.parametrize("damage", OF_ROOT_ROWS, ids=lambda damage: damage.__name__)
def test_a_wrong_root_row_of_a_group_is_found_and_mended(one_row, damage):
    before = values(one_row)
    kind, view, text = damage(one_row)
    faults = one_row.verify().faults
    assert [(fault.kind, fault.view) for fault in faults] == [(kind, view)]
    assert faults[0].text.startswith(text)
    assert one_row.repair().clean
    assert values(one_row) == before
    one_row.patch(Question, 1, tags=[])
    assert one_row.verify().clean


def test_a_root_row_of_no_group_is_a_stray(one_row):
    _place, row = root_of(one_row, TagUse, "a")
    put(one_row, "roots", group_root(prefix(one_row, TagUse)) + b"\xff\xff", row)
    (fault,) = one_row.verify().faults
    assert (fault.kind, fault.view, fault.droppable) == ("dangling", "stray", True)
    assert one_row.drop(fault) == (fault,)
    assert one_row.verify().clean


def test_index_rows_that_are_to_follow_their_group_are_not_faults_and_others_are(one_row):
    """The task of a group waits, as no worker runs: only those rows are judged that it leaves as they are."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TotalFollower, "follow_groups", lambda _committer, _groups: iter(()))
        patched.setattr(TotalFollower, "_do", _leave)
        one_row.patch(Question, 1, tags=[Tag.at("a")])
    assert one_row.verify().clean
    key, row = next(each for each in rows(one_row, "views", prefix(one_row, TagsByUse)) if each[0].endswith(b"a\x00"))
    put(one_row, "views", key, None)
    assert [(fault.kind, fault.row) for fault in one_row.verify().faults] == [("missing", "TagsByUse(3)")]
    put(one_row, "views", key, row)
    one_row.drain()
    assert one_row.verify().clean


def _leave(_committer, waiting, _changes, _commits=1):
    yield from ()
    return list(waiting)


def test_what_an_index_cannot_list_is_a_task_that_cannot_be_done(one_row):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TotalFollower, "_list", _refuse)
        one_row.patch(Question, 1, tags=[Tag.at("a")])
    found = one_row.verify().faults
    assert {fault.view for fault in found} >= {"task"}
    assert one_row.repair().clean
    assert not one_row.set_aside()


def _refuse(*_given, **_options):
    yield from ()
    raise InvalidValue("this cannot be listed")
