"""The part of the suite of engines that is about requests which are sent before the answers of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from oneread.errors import InvalidKey, Unsupported
from oneread.store.engine import Engine, SendsAhead, finish
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Replace, Request, Scan
from oneread.store.rows import RowMutation, Table
from oneread.testing.local_conformance import ALL, put


def sending(engine: Engine) -> SendsAhead:
    """The engine as one that sends requests ahead; skips the test when it does not."""
    if not isinstance(engine, SendsAhead):
        pytest.skip("the engine sends nothing ahead")
    return engine


def of_each_kind(table: Table) -> Sequence[Request[Any]]:
    return (
        Mutate(table, [put(b"a", b"1")]),
        Mutate(table, [put(b"b", b"2"), put(b"c", b"3")]),
        Read(table, [b"a"]),
        Read(table, [b"c", b"x", b"a"], "dm"),
        Read(table, []),
        Scan(table, ALL, 2),
        Scan(table, ALL, 0),
        CheckAndMutate(table, b"d:b", b"9", put(b"a", b"4", 2)),
        CheckAndMutate(table, b"d:b", b"1", put(b"a", b"4", 2)),
        Mutate(table, [RowMutation(b"b", delete_row=1)]),
        Mutate(table, []),
        Scan(table, ALL, 9),
        Increment(table, b"n", b"d:n", 5),
    )


class SendsAheadConformance:
    """What an engine has to do that sends requests ahead."""

    def test_what_is_sent_ahead_is_answered_as_what_is_asked_alone(self, engine: Engine) -> None:
        ahead = sending(engine)
        alone = [engine.answer(each) for each in of_each_kind("roots")]
        assert [finish(ahead.begin(each)) for each in of_each_kind("views")] == alone
        with pytest.raises(Unsupported):
            finish(ahead.begin(Replace("roots", {b"a": None})))
        with pytest.raises(InvalidKey):
            finish(ahead.begin(Mutate("roots", [put(b"", b"1")])))

    def test_several_requests_are_under_way_at_the_same_time(self, engine: Engine) -> None:
        ahead = sending(engine)
        engine.answer(Mutate("roots", [put(b"a", b"1"), put(b"b", b"2")]))
        begun = [ahead.begin(Read("roots", [key])) for key in (b"a", b"b", b"x")]
        assert all(next(each) for each in begun)
        given_up = ahead.begin(Scan("roots", ALL, 10))
        assert next(given_up)
        given_up.close()
        (none,), (two,), (one,) = [finish(each) for each in reversed(begun)]
        assert (one[b"d:b"].value, two[b"d:b"].value, none) == (b"1", b"2", None)
