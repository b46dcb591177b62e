"""The doctor finds nothing in a load that is even, or slow; what it proposes makes the others cooler as it says."""

import random

import pytest

from oneread import field
from oneread.heat import doctor_rules
from oneread.heat.doctor import find_all
from tests.unit.heat.doctored import Site, made, towns


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_found_in_an_even_load(url, monkeypatch, seed):
    """However fast it is, near or far: rates are no reason here."""
    monkeypatch.setattr(doctor_rules, "ROW_RATE", 0.1)
    monkeypatch.setattr(doctor_rules, "READ_RATE", 0.1)
    monkeypatch.setattr(doctor_rules, "PASSED_RATE", 0.1)
    chance = random.Random(seed)
    site = Site(url, made())
    votes = [(chance.randrange(1 << 30), f"town {chance.randrange(60)}") for _ in range(150)]
    site.vote(votes, seed)
    threads = [f"{chance.random()}" for _ in range(60)]
    for name in threads:
        site.db.save(site.named["Thread"](name=name))
    keys = [each.number for each in site.db.page(site.named["Vote"], limit=150).rows]
    for _ in range(300):
        site.db.get(site.named["Vote"], chance.choice(keys))
        site.db.get(site.named["VotesOfTown"], chance.choice(votes)[1])
        site.db.create(site.named["Comment"](name=chance.choice(threads)))
        site.db.counter(f"votes {chance.randrange(20)}").add(1)
    for first in range(6):
        site.db.page(site.named["Vote"], limit=60, where=field(site.named["Vote"].town) >= f"town {first // 2}")
    checkup = site.checkup()
    assert 10 < checkup.pages["Vote"].skipped < checkup.pages["Vote"].shown
    for remote in (checkup, checkup._replace(is_local=False, spans_rows=False)):
        assert find_all(remote, doctor_rules.RULES) == []
    site.close()


@pytest.mark.parametrize(("votes", "is_found"), [(300, False), (301, True)])
def test_five_new_rows_a_second_are_not_spread(url, votes, is_found):
    site = Site(url, made())
    site.vote([(place, f"town {place % 60}") for place in range(votes)])
    assert [each.remedy for each in site.db.doctor()] == ["spread"] * is_found
    site.close()


@pytest.mark.parametrize(("votes", "is_found"), [(300, False), (301, True)])
def test_a_group_of_five_a_second_is_not_hot(url, votes, is_found):
    site = Site(url, made())
    site.vote([(0, "Ghent")] * votes)
    assert [each.remedy for each in site.findings("shards")] == ["shards"] * is_found
    site.close()


def test_rows_that_are_spread_are_as_much_cooler_as_promised(new_url):
    plain, spread = Site(new_url(), made()), Site(new_url(), made(spread=4))
    for site in (plain, spread):
        site.vote(list(enumerate(towns(330))))
    (found,) = plain.db.doctor()
    assert found.change.endswith("spread = 4")
    assert "a range gets 1.4 a second" in found.gain
    assert spread.db.doctor() == []
    assert spread.hottest("NewestVotes") == pytest.approx(plain.hottest("NewestVotes") / 4, rel=0.3)
    plain.close()
    spread.close()


def test_a_group_with_shards_is_as_much_cooler_as_promised(new_url):
    plain, divided = Site(new_url(), made()), Site(new_url(), made(shards=8))
    for site in (plain, divided):
        site.vote([(0, town) for town in towns(660, 6)])
    (found,) = plain.findings("shards")
    assert found.change.endswith("shards = 8")
    assert "a row gets 0.8 a second" in found.gain
    assert divided.findings("shards") == []
    if not plain.spans_rows:  # elsewhere a group has one row
        assert divided.hottest_group() == pytest.approx(plain.hottest_group() / 8, rel=0.3)
    plain.close()
    divided.close()


@pytest.mark.parametrize(("hot", "is_found"), [(60, True), (40, False)])
def test_a_group_of_a_fifth_is_not_hot(url, monkeypatch, hot, is_found):
    """40 of 220 votes are less than a fifth, 60 of 240 are more."""
    monkeypatch.setattr(doctor_rules, "ROW_RATE", 0.5)
    site = Site(url, made())
    site.vote([(0, "Ghent")] * hot + [(0, f"town {number % 40}") for number in range(180)])
    assert [each.remedy for each in site.findings("shards")] == ["shards"] * is_found
    site.close()
