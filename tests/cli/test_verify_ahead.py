"""`oneread verify` names what was written under a clock that was ahead, and calls it no fault."""

import time

import msgspec
import pytest

from oneread import connect
from tests.cli import notes

YEARS = 10 * 365 * 86_400_000


class Found(msgspec.Struct):
    clean: bool
    ahead_count: int
    ahead: list[dict[str, object]]


@pytest.fixture
def ahead(url):
    with connect(url, notes.NOTES, workers=0, clock=lambda: time.time_ns() // 1_000_000 + YEARS) as db:
        db.patch(notes.Person, notes.ADA, email="late@x")


@pytest.mark.usefixtures("ahead")
def test_a_version_ahead_is_named_and_the_store_is_right(oneread):
    ran = oneread("verify", "--json")
    found = ran.document(Found)
    assert (ran.code, found.clean, found.ahead_count) == (0, True, 1)
    assert found.ahead[0]["entity"] == "Person(1)"
    assert found.ahead[0]["ahead"] == pytest.approx(YEARS, rel=0.01)
    ran = oneread("verify")
    assert ran.code == 0
    assert "1 entity was written under a clock that was ahead, which is not a fault: Person(1) by 3,6" in ran.out


def test_a_store_without_one_does_not_mention_it(oneread):
    assert oneread("verify", "--json").document(Found).ahead_count == 0
    assert "ahead" not in oneread("verify").out
