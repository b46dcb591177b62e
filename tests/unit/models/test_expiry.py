"""`expires(...)`: the arithmetic of an expiry."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from oneread import Key, Model, expires
from oneread.models.expiry import NEVER, ExpiryRule, is_living_row, rule_of


class Session(Model[int]):
    number: Key[int]
    until: datetime | None = None


AT = datetime(2024, 1, 1, tzinfo=UTC)
MILLISECONDS = 1_704_067_200_000


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (None, MILLISECONDS),
        (timedelta(milliseconds=1), MILLISECONDS + 1),
        (timedelta(days=30), MILLISECONDS + 30 * 86_400_000),
        (timedelta(microseconds=1999), MILLISECONDS + 1),
        (timedelta.max, MILLISECONDS + timedelta.max // timedelta(milliseconds=1)),
    ],
)
def test_an_expiry_is_a_field_and_a_life(after, expected):
    assert rule_of(expires("until", after=after)).of(Session(number=1, until=AT)) == expected


def test_other_zones_and_fractions_of_milliseconds():
    rule = rule_of(expires("until"))
    local = AT.astimezone(timezone(timedelta(hours=5))) + timedelta(microseconds=999)
    assert rule.of(Session(number=1, until=local)) == MILLISECONDS
    assert rule.of(Session(number=1, until=datetime.min.replace(tzinfo=UTC))) == 0
    assert rule.of(Session(number=1, until=datetime.max.replace(tzinfo=UTC))) == 253_402_300_799_999


def test_without_an_instant_nothing_expires():
    rule = rule_of(expires("until"))
    assert rule.of(Session(number=1)) == NEVER
    assert not rule.is_expired(Session(number=1), 2**62)


def test_the_instant_itself_is_expired():
    rule, session = rule_of(expires("until")), Session(number=1, until=AT)
    assert not rule.is_expired(session, MILLISECONDS - 1)
    assert rule.is_expired(session, MILLISECONDS)


@pytest.mark.parametrize("after", [0, 1, 999, 1000, 86_400_000_000])
@pytest.mark.parametrize("microseconds", [0, 1, 999, 1000])
def test_a_sweep_finds_what_reads_leave_out(after, microseconds):
    rule, since = ExpiryRule("until", after), AT + timedelta(microseconds=microseconds)
    now = rule.end(since)
    assert since < rule.first_living(now)
    assert since >= rule.first_living(now - 1)


def test_nothing_has_lived_longer_than_there_are_dates():
    assert rule_of(expires("until", after=timedelta.max)).first_living(MILLISECONDS) is None


def test_a_row_ends_in_its_expiry():
    assert is_living_row(b"row" + (7).to_bytes(8, "big"), 6)
    assert not is_living_row(b"row" + (7).to_bytes(8, "big"), 7)
