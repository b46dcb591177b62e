"""Each limit of the doctor's rules, by what was recorded just below it and just above."""

from datetime import datetime

import pytest

from oneread import Feed, Index, Key, Model, Schema, by, expires, newest, on
from oneread.derivations.expiry import ExpiryIndex
from oneread.heat import doctor_feeds, doctor_rules
from oneread.heat.cells import Amounts, CellKey, HeatPlace
from oneread.heat.doctor_feeds import FeedOwner, read_owners
from oneread.heat.doctor_rules import growing_end, hot_owner, hot_reads, passing_pages
from oneread.heat.loads import READ_VERBS, PageLoad, PlaceLoad
from tests.unit.heat.doctored import START, Site, made

MINUTE = 60


def declared(**options):
    """Models and indexes that a doctor may spread, or not, and a feed."""

    class Note(Model[int]):
        locals().update(options.get("note", {}))
        number: Key[int]
        group: int
        at: datetime

    class Newest(Index[Note]):
        locals().update(options.get("index", {}))
        at: datetime = newest(Note.at)

    class Membership(Model[int, int]):
        group: Key[int]
        member: Key[int]

    class Home(Feed[Note]):
        member: int = by(Membership.member)
        at: datetime = newest(Note.at)
        joined = on(Note.group, Membership.group)

    return Schema(Note, Newest, Membership, Home)


@pytest.fixture
def open_site(url):
    opened = []

    def open_it(schema):
        opened.append(Site(url, schema))
        return opened[-1]

    yield open_it
    for site in opened:
        site.close()


def place_of(site, name):
    """Where a model or view has its rows."""
    catalog, cls = site.db.operations.catalog, site.named[name]
    view = catalog.views.get(cls)
    return HeatPlace("roots", catalog.kinds[cls].prefix) if view is None else HeatPlace("views", view.prefix)


def load_of(site, name, *, place=None, cells=None, put=0, outside=0):
    """What was recorded of it within a minute."""
    found = place_of(site, name) if place is None else place
    return PlaceLoad(found, name, site.named[name], MINUTE, cells or {}, (), put, outside)


def found_by(rule, site, *loads, **more):
    return [*rule(site.checkup()._replace(loads=loads, is_local=False, **more))]


@pytest.mark.parametrize(
    ("name", "options", "is_found"),
    [
        ("Note", {}, True),
        ("Note", {"note": {"spread": 2}}, False),
        ("Newest", {}, True),
        ("Newest", {"index": {"spread": 2}}, False),
        ("Newest", {"index": {"unique": True}}, False),
    ],
)
def test_what_is_spread_already_or_may_not_be_is_left(open_site, name, options, is_found):
    site = open_site(declared(**options))
    found = found_by(growing_end, site, load_of(site, name, put=400, outside=400))
    assert [each.declared for each in found] == [name] * is_found


def test_only_the_rows_of_an_index_itself_are_spread(open_site):
    site = open_site(declared())
    elsewhere = HeatPlace("views", b"\xff\xff\xff\xff")
    assert found_by(growing_end, site, load_of(site, "Newest", place=elsewhere, put=400, outside=400)) == []
    assert found_by(growing_end, site, load_of(site, "Home", put=400, outside=400)) == []


def test_the_index_of_what_expires_is_left(open_site):
    """It is added by the library, so there is no declaration of it."""
    site = open_site(declared(note={"ttl": expires("at")}))
    added = [each for each in site.db.operations.catalog.views.values() if issubclass(each.cls, ExpiryIndex)]
    assert added
    for each in added:
        load = load_of(site, "Newest", place=HeatPlace("views", each.prefix), put=400, outside=400)
        assert found_by(growing_end, site, load._replace(cls=each.cls)) == []


@pytest.mark.parametrize(("put", "outside", "is_found"), [(300, 300, False), (301, 301, True), (400, 360, False)])
def test_nine_of_ten_rows_and_five_a_second_are_not_spread(open_site, put, outside, is_found):
    site = open_site(declared())
    found = found_by(growing_end, site, load_of(site, "Newest", put=put, outside=outside))
    assert bool(found) == is_found


@pytest.mark.parametrize(
    ("share", "members", "is_found"), [(0.3, 200, False), (0.31, 200, True), (0.31, 199, False), (1.0, 200, True)]
)
def test_an_owner_of_three_tenths_or_few_members_is_left(open_site, share, members, is_found):
    site = open_site(declared())
    owners = {site.named["Home"]: FeedOwner("7", 30, members, share)}
    assert bool(found_by(hot_owner, site, owners=owners)) == is_found


def owners_of(site, entries, items=20):
    """The owner that is found where so many entries were written, and these items of one owner."""
    catalog = site.db.operations.catalog
    view = catalog.views[site.named["Home"]]
    entry = CellKey("views", view.prefix, True, "follow", "")
    item = CellKey("views", view.items.prefix + view.group_codec.encode((7,)), True, "save", "Note")
    place = HeatPlace("views", view.items.prefix)
    loads = [
        load_of(site, "Home", cells={entry: Amounts(1, entries)}),
        load_of(site, "Home", place=place, cells={item: Amounts(1, items)}),
    ]
    return site.db.run(read_owners(catalog, loads))


@pytest.mark.parametrize(("entries", "is_found"), [(3_000, False), (3_001, True)])
def test_owners_are_looked_for_where_more_than_fifty_entries_a_second_are_written(open_site, entries, is_found):
    site = open_site(declared())
    assert bool(owners_of(site, entries)) == is_found


@pytest.mark.parametrize(("most", "members"), [(10, 6), (5, 5)])
def test_members_are_counted_up_to_a_limit(open_site, monkeypatch, most, members):
    monkeypatch.setattr(doctor_feeds, "MOST_MEMBERS", most)
    site = open_site(declared())
    for number in range(6):
        site.db.save(site.named["Membership"](group=7, member=number))
    site.db.save(site.named["Membership"](group=8, member=1))
    site.db.save(site.named["Note"](number=1, group=7, at=START))
    site.db.drain()
    assert owners_of(site, 6_000) == {site.named["Home"]: FeedOwner("7", 20, members, 20 * members / 6_000)}


def reads(site, verb, requests, others):
    """Reads of one range of votes, and of others."""
    prefix = place_of(site, "Vote").prefix
    return load_of(
        site,
        "Vote",
        cells={
            CellKey("roots", prefix + b"\x01", False, verb, "Vote"): Amounts(requests, requests),
            CellKey("roots", prefix + b"\x02", False, "save", "Vote"): Amounts(10_000, 10_000),
            CellKey("roots", prefix + b"\x03", True, verb, "Vote"): Amounts(10_000, 10_000),
        }
        | {
            CellKey("roots", prefix + bytes([number]), False, verb, "Vote"): Amounts(others // 20, others // 20)
            for number in range(10, 30)
        },
    )


@pytest.mark.parametrize("verb", ["get", "find", "get_many", "page", "together"])
@pytest.mark.parametrize(
    ("requests", "others", "is_found"), [(600, 0, False), (601, 0, True), (1_000, 4_000, False), (1_001, 4_000, True)]
)
def test_a_fifth_of_what_is_read_and_ten_reads_a_second_are_not_cached(open_site, verb, requests, others, is_found):
    site = open_site(made())
    assert bool(found_by(hot_reads, site, reads(site, verb, requests, others))) == is_found


def test_no_other_verb_is_there_to_read():
    assert frozenset({"get", "find", "get_many", "page", "together"}) == READ_VERBS


@pytest.mark.parametrize("name", ["Note", "Newest"])
@pytest.mark.parametrize(
    ("skipped", "shown", "is_found"),
    [(3_000, 0, False), (3_001, 0, True), (3_001, 3_000, True), (3_001, 3_001, False), (3_001, 9_000, False)],
)
def test_half_of_what_is_read_and_fifty_rows_a_second_may_be_passed_over(open_site, name, skipped, shown, is_found):
    site = open_site(declared())
    found = found_by(passing_pages, site, pages={name: PageLoad(MINUTE, shown, skipped)})
    assert [(each.declared, each.change.partition(":")[0]) for each in found] == [
        (name, f"class Some{name}(Index[Note])")
    ] * is_found


def test_pages_of_feeds_and_of_what_is_not_declared_any_more_are_left(open_site):
    site = open_site(declared())
    load = PageLoad(MINUTE, 0, 9_000)
    assert found_by(passing_pages, site, pages={"Home": load, "Gone": load}) == []


def test_only_servers_are_asked_less(open_site, kind_of_store):
    site = open_site(made())
    checkup = site.checkup()
    assert checkup.is_local == (kind_of_store in ("memory", "lmdb"))
    loads = (reads(site, "get", 1_000, 0),)
    assert [*hot_reads(checkup._replace(loads=loads, is_local=True))] == []
    assert len([*hot_reads(checkup._replace(loads=loads, is_local=False))]) == 1


def test_limits_are_those_that_the_guide_says():
    assert (doctor_rules.HOT_READS, doctor_rules.HOT_OWNER, doctor_rules.LARGE) == (0.2, 0.3, 200)
    assert (doctor_feeds.ENTRY_RATE, doctor_feeds.MOST_MEMBERS) == (50.0, 10_000)
