"""Every error prints, is logged, copied and pickled, whatever the facts in it are, and within bounds."""

from __future__ import annotations

import asyncio
import copy
import io
import json
import logging
import pickle
import sys
import threading
import traceback
from contextlib import redirect_stdout
from decimal import Decimal
from types import SimpleNamespace

import msgspec
import pytest
from starlette.datastructures import Headers

from oneread import errors
from oneread.cli.failures import JSON, reporting
from oneread.errors import InvalidValue, OnereadError, shown
from oneread.models.references import Copy
from oneread.web.problems import problem

LONGEST = 1300
"""Characters of one fact, at most: 200 of its own, six for each that is escaped."""


def nested(kind, depth=20_000):
    found = kind()
    for _ in range(depth):
        found = {0: found} if kind is dict else kind([found])
    return found


class Raises:
    def __repr__(self):
        raise LookupError(self)


class ReturnsNoText:
    def __repr__(self):
        return 3


class Text(str):
    __slots__ = ()

    def __len__(self):
        raise LookupError

    __getitem__ = __str__ = __format__ = __len__


class ReturnsOddText:
    def __repr__(self):
        return Text("odd")


class Huge:
    def __repr__(self):
        return "x" * 10_000_000


class Surrogates:
    def __repr__(self):
        return "\ud800" * 300


class Meta(type):
    def __getattribute__(cls, name):
        raise LookupError(name)


class OddClass(metaclass=Meta):
    pass


class OddList(list):
    def __iter__(self):
        raise LookupError

    __len__ = __repr__ = __bool__ = __iter__


class Holder(msgspec.Struct):
    value: object


class Shown(Copy["Holder"]):
    name: str


FACTS = {
    "an int beyond what Python writes": 10**5000,
    "a negative one": -(10**100_000),
    "one inside a list": [10**5000],
    "one inside an object": Holder(10**5000),
    "lists in lists": nested(list),
    "tuples in tuples": nested(tuple),
    "dicts in dicts": nested(dict),
    "objects in objects": Holder(nested(list)),
    "itself": (loop := []) or loop.append(loop) or loop,
    "a repr that raises": Raises(),
    "one inside a dict": {1: Raises()},
    "a repr that returns no text": ReturnsNoText(),
    "a repr that returns odd text": ReturnsOddText(),
    "a huge repr": Huge(),
    "surrogates": "\ud800",
    "surrogates in a repr": Surrogates(),
    "a class": int,
    "a class whose attributes raise": OddClass,
    "a list whose methods raise": OddList(),
    "text whose methods raise": Text("odd"),
    "megabytes": b"\x00" * 5_000_000,
    "a huge list": list(range(100_000)),
    "a huge dict": dict.fromkeys(range(100_000)),
    "a huge set": set(range(100_000)),
    "a huge Decimal": Decimal("1" * 100_000),
    "a lock": threading.Lock(),
    "a function": lambda: None,
    "a generator": (each for each in ()),
    "a copy that only refers": Shown.of(10**5000),
    "an error": InvalidValue("inside", given=Raises()),
}
CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, OnereadError)]


@pytest.fixture(params=FACTS)
def error(request):
    return InvalidValue("it is wrong", field="a", given=FACTS[request.param], reason=FACTS[request.param])


def test_it_prints(error):
    text = str(error)
    assert text.startswith("it is wrong (field='a', given=")
    assert len(text) < 100 + 2 * LONGEST
    assert text.encode().decode() == text


def test_its_traceback_prints(error):
    assert "it is wrong" in "".join(traceback.format_exception(error))


def test_it_is_logged(error, monkeypatch):
    stream = io.StringIO()
    logger = logging.getLogger("tests.errors")
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(stream)])
    logger.error("failed: %s", error, exc_info=error)
    assert stream.getvalue().startswith("failed: it is wrong")


def test_it_is_pickled(error):
    assert str(pickle.loads(pickle.dumps(error))).startswith("it is wrong (field='a', given=")


def test_it_is_copied(error):
    error.add_note("and a note")
    shallow = copy.copy(error)
    assert shallow.facts["given"] is error.facts["given"]
    assert str(shallow) == str(error)
    assert str(copy.deepcopy(error)).startswith("it is wrong")
    assert shallow.__notes__ == copy.deepcopy(error).__notes__ == error.__notes__


def test_a_web_client_is_answered(error):
    error.facts |= {"limit": error.facts["given"], "bytes": error.facts["given"]}
    connection = SimpleNamespace(scope={"type": "http", "path": "/", "method": "GET"}, headers=Headers())
    answer = asyncio.run(problem(connection, error))
    assert answer.status_code == 422
    assert json.loads(answer.body)["detail"] == "it is wrong"


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_line_shows_it(error, as_json, monkeypatch):
    stderr, stdout = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with redirect_stdout(stdout), pytest.raises(Exception, match="2"), reporting(SimpleNamespace(meta={JSON: as_json})):
        raise error
    assert stderr.getvalue().startswith("error: it is wrong")
    if as_json:
        assert json.loads(stdout.getvalue())["error"]["message"] == "it is wrong"


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_prints_and_is_pickled(cls):
    again = pickle.loads(pickle.dumps(cls("static", given=Raises())))
    assert type(again) is cls
    assert "whose repr raises LookupError" in str(again)


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (1, "1"), ("a", "'a'"), (b"a", "b'a'"), ((1,), "(1,)"), ((), "()"), ([1, "a"], "[1, 'a']"), ({}, "{}"),
        ({"a": (1, 2)}, "{'a': (1, 2)}"), ({1}, "{1}"), (set(), "set()"), (frozenset({1}), "frozenset({1})"),
        (int, "int"), (None, "None"), (Decimal("1.0"), "Decimal('1.0')"), (1.5, "1.5"), (True, "True"),
    ],
)  # fmt: skip
def test_what_is_short_is_shown_as_its_repr(fact, text):
    assert shown(fact) == text


def test_what_is_left_out_is_said():
    assert shown("x" * 300) == f"'{'x' * 199}... (300 in all)"
    assert shown(["x" * 150, "y" * 150, "z"]) == f"['{'x' * 150}', '{'y' * 150}', ... (3 in all)]"
    assert shown(list(range(1000))).endswith(", 52, ... (1000 in all)]")
    assert shown(10**5000) == "<an int of 16610 bits>"
    assert shown([[[[[[]]]]]]) == "[[[[[... (1 in all)]]]]]"
    assert shown(Huge()) == f"{'x' * 200}... (10000000 characters)"


def test_the_work_is_bounded_for_wide_and_deep_facts():
    wide = "x" * 1000
    for _ in range(8):
        wide = [wide] * 1000
    assert len(shown(wide)) < LONGEST
