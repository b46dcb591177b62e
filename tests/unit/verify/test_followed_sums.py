"""Sums are compared and mended while others add to them all the time, on a store that changes one row at a time."""

from __future__ import annotations

import msgspec
import pytest

from oneread import Aggregate, Key, Model, Schema, by, connect, count, total
from oneread.errors import OutcomeUnknown
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import VALUE, WRITES, Cell, RowMutation, RowRange
from oneread.transactions.deltas import decode_amounts, encode_amounts
from oneread.transactions.journal import TOKENS as TOKENS_COLUMN
from oneread.transactions.journal import Token
from oneread.transactions.system_commits import REPAIRED
from oneread.verify import followed_sums, looks, sums
from oneread.verify.logical_scanner import LogicalScanner


class Thread(Model[int]):
    number: Key[int]
    forum: str = "all"


class Reply(Model[int, int]):
    child_of = Thread
    number: Key[int]
    reply: Key[int]
    author: str = "Ada"
    likes: int = 0


class Vote(Model[int]):
    number: Key[int]
    option: str
    weight: int = 1


class VotesOf(Aggregate[Vote]):
    option: str = by(Vote.option)
    votes: int = count()
    weight: int = total(Vote.weight)


class RepliesOf(Aggregate[Reply]):
    author: str = by(Reply.author)
    replies: int = count()
    likes: int = total(Reply.likes)


SCHEMA = Schema(Thread, Reply, Vote, VotesOf, RepliesOf)


@pytest.fixture
def db(monkeypatch):
    monkeypatch.setattr(looks, "APART", 0.0)
    monkeypatch.setattr(sums, "APART", 0.0)
    monkeypatch.setattr(LogicalScanner, "batch", 10)
    with connect("memory://?span=row", SCHEMA, workers=0) as db:
        db.save_all([Thread(number=number) for number in range(4)])
        db.save_all([Vote(number=number, option="yes" if number % 3 else "no") for number in range(200)])
        db.save_all([Reply(number=number % 4, reply=number) for number in range(200)])
        yield db


class Interrupted:
    """An engine that lets something happen before every so many requests of what is under way."""

    def __init__(self, db, between, every, when=lambda _asked: True):
        self._engine, self._db, self._between, self._every, self._when = db._driver.engine, db, between, every, when
        self.asked = self.times = 0

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def __enter__(self):
        self._db._driver.engine = self
        return self

    def __exit__(self, *_error):
        self._db._driver.engine = self._engine

    def answer(self, asked):
        if self._when(asked):
            self.asked += 1
            if self.asked % self._every == 0:
                self.times += 1
                self._db._driver.engine = self._engine
                try:
                    self._between(self.times)
                finally:
                    self._db._driver.engine = self
        return self._engine.answer(asked)


def vote(db):
    """Votes, changes and withdraws votes, of the options that have most."""

    def change(times):
        number = 1_000 + times
        db.save(Vote(number=number, option="yes", weight=times))
        if times % 3 == 0:
            db.patch(Vote, 1 + times % 20 * 3, weight=times)
        if times % 4 == 0:
            db.delete(Vote, number)

    return change


def reply(db):
    def change(times):
        db.save(Reply(number=times % 4, reply=1_000 + times, likes=times))
        if times % 3 == 0:
            db.patch(Reply, times % 4, times % 4, likes=times)
        if times % 4 == 0:
            db.delete(Reply, times % 4, 1_000 + times)

    return change


def row_of(db, option):
    rows = db.run(Scan("counts", RowRange(b"", b""), 100, families="dm").__iter__())
    return next((key, row) for key, row in rows if option.encode() in key)


def damage(db, option, by=3):
    key, row = row_of(db, option)
    amounts = [each + by for each in decode_amounts(row[VALUE].value)]
    db.run(Mutate("counts", [RowMutation(key, {VALUE: Cell(encode_amounts(amounts), row[VALUE].stamp)})]).__iter__())
    return key


@pytest.mark.parametrize(("writes", "every"), [(vote, 1), (vote, 2), (vote, 7), (reply, 7)])
def test_sums_that_change_all_the_time_are_compared(db, writes, every):
    with Interrupted(db, writes(db), every) as busy:
        found = db.verify()
    assert busy.times > 10
    assert (found.faults, found.skipped, found.clean) == ((), (), True)


@pytest.mark.parametrize(("writes", "option", "every"), [(vote, "yes", 2), (vote, "yes", 7), (reply, "Ada", 7)])
def test_a_wrong_sum_is_found_and_mended_while_it_changes(db, writes, option, every):
    damage(db, option)
    with Interrupted(db, writes(db), every) as busy:
        found = db.verify()
        repaired = db.repair()
    assert busy.times > 20
    assert [(each.kind, each.row) for each in found.faults] == [
        ("different", {"yes": "VotesOf('yes')", "Ada": "RepliesOf('Ada')"}[option])
    ]
    assert (repaired.mended, repaired.clean, repaired.rounds) == (1, True, 2)
    assert db.verify().clean


def test_a_sum_to_which_more_is_added_than_is_known_is_left_to_be_compared_later(db, monkeypatch):
    monkeypatch.setattr(followed_sums, "KEPT_TOKENS", 2)
    monkeypatch.setattr(followed_sums, "POLLED", 0)
    with Interrupted(db, vote(db), every=1):
        found = db.verify(Vote)
    assert (found.faults, found.skipped) == ((), ("Vote",))
    assert db.verify(resume=found.cursor).clean


@pytest.mark.parametrize("writes", [vote, reply])
def test_groups_with_more_contributions_than_are_remembered(db, monkeypatch, writes):
    """Those that nobody changes are compared; of those that somebody changes it is not known what they had."""
    monkeypatch.setattr(followed_sums, "REMEMBERED", 5)
    damage(db, "no")
    with Interrupted(db, writes(db), every=7):
        found = db.verify()
    assert [each.text for each in found.faults] == ["VotesOf no: contributions: 70 -> 67, sum of Vote.weight: 70 -> 67"]
    assert found.skipped == (("Vote",) if writes is vote else ("Reply",))


def test_children_are_not_looked_for_where_a_hold_is_missing(db):
    """Their holds say which children a root row has; a sum that is judged by others would be made wrong."""
    rows = db.run(Scan("views", RowRange.under(b"\xff\xff"), 1_000).__iter__())
    assert len(rows) == 200
    db.run(Mutate("views", [RowMutation(key, deletes={VALUE: row[VALUE].stamp}) for key, row in rows[::10]]).__iter__())
    with Interrupted(db, reply(db), every=7):
        found = db.verify(Reply)
    assert {(each.kind, each.view) for each in found.faults} == {("missing", "hold")}
    assert found.skipped == ("Reply",)
    assert db.repair().clean


def test_a_root_row_with_many_children_is_not_followed(db, monkeypatch):
    monkeypatch.setattr(followed_sums, "CHILDREN", 10)
    with Interrupted(db, reply(db), every=7):
        assert db.verify(Reply).skipped == ("Reply",)


def move(db):
    """One vote that changes its weight and its option by turns."""

    def change(times):
        db.patch(Vote, 1, **({"weight": times} if times % 2 else {"option": "yes" if times % 4 else "no"}))

    return change


def move_child(db):
    """As `move`, of a reply: its weight is its likes."""

    def change(times):
        db.patch(Reply, 0, 0, **({"likes": times} if times % 2 else {"author": "Ada" if times % 4 else "Bea"}))

    return change


@pytest.mark.parametrize("every", [1, 2, 3, 5, 7])
@pytest.mark.parametrize(("writes", "model"), [(move, Vote), (move_child, Reply)])
def test_an_entity_that_is_committed_between_all_reads_makes_no_sum_wrong(db, writes, model, every, monkeypatch):
    monkeypatch.setattr(sums, "AGREEING", 0)  # one look decides
    with Interrupted(db, writes(db), every):
        found = db.verify(model)
    assert found.faults == ()
    assert db.verify().clean


TOKENS = [Token(version, b"root") for version in range(50)]


def sum_row(*tokens, repair=None):
    row = {VALUE: Cell(b"", 1), WRITES: Cell(b"", len(tokens)), TOKENS_COLUMN: Cell(msgspec.msgpack.encode(tokens), 1)}
    return row if repair is None else row | {REPAIRED: Cell(repair, 1)}


@pytest.mark.parametrize(
    ("before", "now", "added"),
    [
        (sum_row(*TOKENS[:3]), sum_row(*TOKENS[:5]), TOKENS[3:5]),
        (sum_row(*TOKENS[:40]), sum_row(*TOKENS[9:41]), TOKENS[40:41]),
        (sum_row(*TOKENS[:5]), sum_row(*TOKENS[4:36]), TOKENS[5:36]),
        (None, sum_row(*TOKENS[:31]), TOKENS[:31]),
        (None, sum_row(*TOKENS[:32]), []),  # others may have been in front of them
        (sum_row(), sum_row(*TOKENS[:3]), TOKENS[:3]),
        (sum_row(*TOKENS[:5]), sum_row(*TOKENS[5:37]), []),
        (sum_row(*TOKENS[:5]), sum_row(TOKENS[4], *TOKENS[8:40]), []),  # it was left because it is needed still
        (sum_row(*TOKENS[:5]), sum_row(*TOKENS[:6], repair=b"1"), []),
        (sum_row(*TOKENS[:5], repair=b"1"), sum_row(*TOKENS[:6], repair=b"2"), []),
        (sum_row(*TOKENS[:5], repair=b"1"), sum_row(*TOKENS[:6], repair=b"1"), TOKENS[5:6]),
        (sum_row(*TOKENS[:5]), None, []),
        ({}, sum_row(*TOKENS[:5]), []),  # it could not be read
    ],
)
def test_what_was_added_between_two_reads_of_a_row(before, now, added):
    assert followed_sums._added(before, now) == added


@pytest.mark.parametrize("is_added", [False, True], ids=["not added", "added"])
def test_a_group_whose_tokens_cannot_be_read_is_mended_as_if_nothing_that_waits_were_added(db, is_added):
    """Who finishes the commit adds to it, for no token says that it did."""
    db.operations.apply_later()
    db.save(Vote(number=1_000, option="yes"))
    db.operations.committer.completion._later.clear()
    key, row = row_of(db, "yes")
    stamp = row[WRITES].stamp + 1
    puts = {TOKENS_COLUMN: Cell(b"{", stamp)}
    if is_added:
        puts[VALUE] = Cell(encode_amounts([134, 134]), stamp)
    db.run(Mutate("counts", [RowMutation(key, puts)]).__iter__())
    found = db.verify(Vote)
    assert [(fault.row, fault.mendable) for fault in found.faults] == [("VotesOf('yes')", True)]
    assert found.skipped == ()
    assert db.repair(Vote).clean
    assert decode_amounts(row_of(db, "yes")[1][VALUE].value) == [133, 133]
    db.run(db.operations.committer.recovery.recover(patience=0.0))
    assert decode_amounts(row_of(db, "yes")[1][VALUE].value) == [134, 134]
    assert db.verify().clean


def is_sum(asked):
    return isinstance(asked, CheckAndMutate) and asked.table == "counts"


@pytest.mark.parametrize("is_done", [False, True])
def test_a_sum_is_mended_once_when_answers_are_lost(db, is_done):
    key = damage(db, "yes")
    lost = []

    class Losing(Interrupted):
        def answer(self, asked):
            if is_sum(asked) and asked.mutation.key == key and len(lost) < 3:
                lost.append(asked)
                if is_done:
                    self._engine.answer(asked)
                raise OutcomeUnknown("on purpose")
            return self._engine.answer(asked)

    with Losing(db, None, 1):
        repaired = db.repair()
    assert (repaired.mended, repaired.clean, len(lost)) == (1, True, 1 if is_done else 3)
    assert db.verify().clean


def test_two_repairs_at_a_time_mend_a_sum_once(db):
    key = damage(db, "yes")
    others = []

    def repair(_times):
        if not others:
            others.append(True)
            assert db.repair().mended == 1

    with Interrupted(db, repair, every=1, when=is_sum) as busy:
        repaired = db.repair()
    assert (repaired.mended, repaired.clean, busy.times) == (0, True, 1)
    (row,) = db.run(Read("counts", [key], "dm").__iter__())
    assert len(row[REPAIRED].value) == 14
    assert db.verify().clean


def test_a_repair_during_a_verification_is_noticed(db):
    damage(db, "yes")
    with Interrupted(db, lambda times: times == 20 and db.repair(), every=1):
        found = db.verify(Vote)
    assert db.verify().clean
    assert found.skipped == ()


def test_a_sum_that_others_change_all_the_time_is_mended_in_a_later_round(db):
    damage(db, "yes")
    changes = vote(db)
    with Interrupted(db, lambda times: times < 15 and changes(times), every=1, when=is_sum):
        repaired = db.repair()
    assert (repaired.mended, repaired.clean, repaired.rounds) == (1, True, 3)
