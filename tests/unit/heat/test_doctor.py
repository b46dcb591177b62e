"""The doctor names the declaration that does not fit a load, and what it proposes mends it."""

import random
from datetime import datetime, timedelta

import pytest

from oneread import Feed, Key, Model, Schema, by, field, newest, on
from oneread.errors import UsageError
from oneread.heat import doctor_feeds, doctor_rules
from oneread.heat.axis import measure_axes
from oneread.heat.doctor import declaration_with, find_all
from oneread.plans.progress import no_progress
from tests.unit.database.faces import FACES
from tests.unit.heat.doctored import START, Site, made, towns

ENOUGH = 40
"""Rows of one minute that are too many for one place, with thresholds of a tenth."""


@pytest.fixture
def site(url):
    found = Site(url, made())
    yield found
    found.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A tenth of the rates is enough, since a server takes long for more; test_doctor_at_rate.py has the others."""
    monkeypatch.setattr(doctor_rules, "ROW_RATE", doctor_rules.ROW_RATE / 10)
    monkeypatch.setattr(doctor_rules, "READ_RATE", doctor_rules.READ_RATE / 10)


@pytest.mark.parametrize("face", FACES)
def test_rows_that_all_go_to_one_end_are_spread(url, new_url, face):
    site = Site(url, made(), face)
    site.vote(list(enumerate(towns(ENOUGH))))
    (found,) = site.db.doctor()
    assert (found.declared, found.severity, found.remedy) == (
        "NewestVotes",
        "know" if site.spans_rows else "act",
        "spread",
    )
    assert found.evidence == ("98% of 40 rows", "0.7 a second")
    assert found.change.startswith("class NewestVotes(Index[Vote]):  # ")
    assert "doctored.py:" in found.change
    assert found.change.endswith("\n    spread = 4")
    assert "a page of 50 costs 204 rows in 4 requests of 1 round at most, before 51 in 1 of 1" in found.costs
    assert "a save costs what it did" in found.costs
    assert found.rebuilds is None
    assert "a range gets 0.2 a second" in found.gain
    other = Site(new_url(), made(spread=4), face)
    other.vote(list(enumerate(towns(ENOUGH))))
    assert other.db.doctor() == []
    other.close()
    site.close()


def test_rows_that_were_counted_say_how_long_it_takes(site):
    site.vote(list(enumerate(towns(ENOUGH))))
    site.db.run(measure_axes(None, no_progress))
    (found,) = site.db.doctor()
    assert found.rebuilds == timedelta(seconds=ENOUGH / 5_000)


@pytest.mark.parametrize(("elsewhere", "is_found"), [(2, True), (8, False)])
def test_rows_of_which_a_tenth_is_elsewhere_are_not_spread(site, elsewhere, is_found):
    """Of 60 votes some are cast before the others, after two that are at the ends."""
    site.vote([(-100, "a"), (0, "a")])
    site.vote([(-1 - place, "b") for place in range(elsewhere)], seed=8)
    site.vote([(1 + place, "c") for place in range(60 - elsewhere)], seed=9)
    assert bool(site.findings("spread")) == is_found


def test_entities_that_are_spread_need_another_store(site):
    thread = site.named["Thread"]
    for number in range(60):
        site.db.save(thread(name=f"{number:03}"))
    (found,) = site.findings("spread")
    assert found.declared == "Thread"
    assert "load them into a store that is new" in found.change
    assert found.rebuilds is None


@pytest.mark.parametrize("face", FACES)
def test_a_hot_group_gets_shards(url, new_url, face):
    site = Site(url, made(), face)
    votes = [(0, town) for town in towns(2 * ENOUGH, 6)]
    site.vote(votes)
    (found,) = site.findings("shards")
    assert (found.declared, found.severity) == ("VotesOfTown", "know" if site.spans_rows else "act")
    assert found.what == "one row takes the writes of VotesOfTown('Ghent')"
    assert found.evidence[0] == "60% of those of all groups"
    assert "TownsByVotes follows it, in a row that has no shards" in found.evidence
    assert found.rebuilds == timedelta(0)
    shards = int(found.change.rpartition("= ")[2])
    assert shards == 8
    assert f"{shards} rows" in found.costs or site.spans_rows
    other = Site(new_url(), made(shards=shards), face)
    other.vote(votes)
    assert other.findings("shards") == []
    other.close()
    site.close()


@pytest.mark.parametrize(("hot", "is_found"), [(8, True), (2, False)])
def test_what_readers_ask_for_is_cached_where_it_is_remote(site, hot, is_found):
    site.vote([(0, town) for town in towns(40)])
    vote, town = site.named["Vote"], site.named["VotesOfTown"]
    keys = [each.number for each in site.db.page(vote, limit=40).rows]
    for place in range(400):
        site.db.get(vote, keys[0] if place % 10 < hot else keys[place % 40])
        site.db.get(town, f"town {place % 40}")
    local = site.checkup()
    assert find_all(local._replace(is_local=True), [doctor_rules.hot_reads]) == []
    found = find_all(local._replace(is_local=False), [doctor_rules.hot_reads])
    assert bool(found) == is_found
    for each in found:
        assert (each.declared, each.severity, each.remedy) == ("Vote", "look", "cache")
        assert each.what == f"readers ask for the same: {keys[0]}"
        assert "max_age=1" in each.change
    assert [each.remedy for each in site.findings("cache")] == ["cache"] * (is_found and not local.is_local)


def test_a_page_that_all_readers_ask_for_is_named(site):
    site.vote(list(enumerate(towns(40))))
    for _ in range(80):
        site.db.page(site.named["NewestVotes"], limit=3)
    (found,) = find_all(site.checkup()._replace(is_local=False), [doctor_rules.hot_reads])
    assert (found.declared, found.what) == ("NewestVotes", "readers ask for the same: its first rows")


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", ["Vote", "NewestVotes"])
@pytest.mark.parametrize(("shown", "is_found"), [(40, True), (50, False)])
def test_pages_that_pass_over_more_than_they_show_get_another_index(url, monkeypatch, face, name, shown, is_found):
    """Of 90 votes a page shows some; a page without a condition passes over none."""
    monkeypatch.setattr(doctor_rules, "PASSED_RATE", 0.5)
    site = Site(url, made(), face)
    site.vote([(place, "a" if place < shown else "b") for place in range(90)])
    listed = site.named[name]
    for _ in range(2):
        condition = field(listed.cast_at) < START + timedelta(seconds=shown)
        assert len(site.db.page(listed, limit=90, where=condition)) == shown
        site.db.page(listed, limit=90)
    found = site.findings("another index")
    assert len(found) == is_found
    for each in found:
        assert (each.declared, each.severity) == (name, "look")
        assert each.evidence == (f"{2 * (90 - shown)} rows left out by where=, {2 * shown} shown", "1.7 a second")
        assert each.change.startswith(f"class Some{name}(Index[Vote]):\n    where = ...  # the condition")
        page = "a page of 50 costs 51 rows in 1 request of 1 round at most, before 151 in 3 of 3; " * (name != "Vote")
        assert each.costs == f"{page}a save writes a row more of each entity for which the condition holds"
        assert each.gain == "2 rows a second are not read"
    site.close()


@pytest.mark.parametrize("last", [timedelta(0), timedelta(days=15), 3])
def test_wrong_times_are_refused(site, last):
    with pytest.raises(UsageError):
        site.db.doctor(last=last)


def test_where_nothing_was_recorded_nothing_is_found(site):
    assert site.db.doctor() == []


def test_a_declaration_without_a_file_is_written_without_one():
    space = {}
    exec("from oneread import Key, Model\nclass Typed(Model[int]):\n    number: Key[int]\n", space)
    assert declaration_with(space["Typed"], "spread = 4") == "class Typed(Model[int]):\n    spread = 4"


def crowd(above=None):
    """Members of groups, and a feed of their posts."""

    class Membership(Model[int, int]):
        group: Key[int]
        member: Key[int]

    class Post(Model[int]):
        number: Key[int]
        group: int
        at: datetime

    class Home(Feed[Post]):
        member: int = by(Membership.member)
        at: datetime = newest(Post.at)
        joined = on(Post.group, Membership.group)
        locals()["large_group"] = above

    return Schema(Membership, Post, Home)


def publish(site, members, posts):
    """Joins members to the first group and two to each of ten others, and publishes posts in each."""
    membership, post = site.named["Membership"], site.named["Post"]
    joined = [membership(group=0, member=number) for number in range(members)]
    for each in [*joined, *(membership(group=1 + number % 10, member=number) for number in range(20))]:
        site.db.save(each)
    site.db.drain()
    numbers = random.Random(3).sample(range(10_000), posts + 20)
    for place, number in enumerate(numbers):
        group = 0 if place < posts else 1 + place % 10
        site.db.save(post(number=number, group=group, at=START - timedelta(seconds=number)))
    site.db.drain()


@pytest.fixture
def few(monkeypatch):
    """A large group has 20 members."""
    monkeypatch.setattr(doctor_rules, "LARGE", 20)
    monkeypatch.setattr(doctor_feeds, "ENTRY_RATE", 2.0)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("face", FACES)
def test_the_items_of_a_large_group_are_read(url, new_url, face):
    site = Site(url, crowd(), face)
    publish(site, 24, 8)
    (found,) = site.db.doctor()
    assert (found.declared, found.severity, found.remedy) == ("Home", "act", "large_group")
    assert found.what == "the items of 0 are written to each of its members"
    assert found.evidence[1] == "8 items for 24 members"
    assert found.change.endswith("\n    large_group = 12")
    assert "a page of 50 costs" in found.costs
    other = Site(new_url(), crowd(12), face)
    publish(other, 24, 8)
    assert other.db.doctor() == []
    assert entries(other) < entries(site) / 3
    other.close()
    site.close()


def entries(site):
    """The rows of the feed that were written."""
    catalog = site.db.operations.catalog
    prefix = catalog.views[site.named["Home"]].prefix
    return sum(load.written for load in site.checkup().loads if load.place.prefix == prefix)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("members", "posts"), [(19, 8), (24, 1)])
def test_smaller_groups_and_quiet_ones_are_written(url, members, posts):
    """19 members are no large group; one post for 24 of them is a third of what is written, and the others are too."""
    site = Site(url, crowd())
    publish(site, members, posts)
    assert site.findings("large_group") == []
    site.close()
