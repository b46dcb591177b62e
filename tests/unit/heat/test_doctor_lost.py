"""The doctor names what loses compare-and-sets to other programs; nothing is lost where transactions span rows.

On servers a program reads again what others have changed meanwhile, so that none loses as often as is wanted here.
"""

import itertools

import pytest

from oneread import connect
from tests.unit.heat.doctored import START, Meeting, Site, made, towns

READS = 4
"""A call reads other rows before the one that it compares, and gives up where it loses very often."""


class Lossy(Site):
    """A site where another program changes what this one has read, before this one writes it."""

    def __init__(self, url, schema, table, change):
        self.meeting = Meeting(connect(url, schema, workers=0), table, change)
        super().__init__(url, schema, observers=(self.meeting,))

    def lose(self, call, wanted):
        """Calls until so many compare-and-sets are lost, or a few more; returns how many calls that were."""
        for number in range(1, 1 if self.spans_rows else 200):
            self.meeting.change(self.meeting.other)  # of what this program remembers
            self.meeting.left = READS
            call()
            self.meeting.left = 0
            if sum([each.lost for each in self.db.hot_spots().rows]) >= wanted:
                return number
        call()
        return 200

    def close(self):
        super().close()
        self.meeting.other.close()


@pytest.mark.parametrize(("lost", "is_found"), [(24, True), (10, False)])
def test_a_group_that_loses_one_of_twenty_gets_shards(url, lost, is_found):
    """Far fewer than five writes a second, of forty towns; nothing is lost where transactions span rows."""
    schema, numbers = made(), itertools.count(1 << 50)
    vote = schema.named()["Vote"]

    def make(number, town="Ghent"):
        return vote(number=number, town=town, cast_at=START)

    site = Lossy(url, schema, "counts", lambda other: other.save(make(next(numbers))))
    site.vote([(0, town) for town in towns(60)])
    site.lose(lambda: site.db.save(make(next(numbers))), lost)
    found = site.findings("shards")
    assert bool(found) == (is_found and not site.spans_rows)
    for each in found:
        assert (each.declared, each.severity) == ("VotesOfTown", "act")
        assert any("lost to others" in one for one in each.evidence)
        assert any(one.endswith("lost by this process") for one in each.evidence)
    site.close()


@pytest.mark.parametrize(("alone", "is_found"), [(1, True), (300, False)])
def test_a_counter_that_loses_one_of_ten_gets_shards(url, alone, is_found):
    schema = made()

    def site():
        return Lossy(url, schema, "counts", lambda other: other.counter("votes").add(1))

    def lose(site):
        return site.lose(lambda: site.db.counter("votes").add(1), 24)

    before = site()
    votes = before.db.counter("votes", shards=1)
    for _ in range(alone):
        votes.add(1)
    calls = lose(before)
    found = before.findings("counter shards")
    assert bool(found) == (is_found and not before.spans_rows)
    for each in found:
        assert (each.declared, each.severity) == ("votes", "act")
        shards = int(each.change.removeprefix("db.counter('votes').configure(shards=").removesuffix(")"))
        assert shards >= 4
        assert f"a read costs {shards} rows in 1 request" in each.costs
        votes.configure(shards=shards)
        after = site()
        assert lose(after) > 2 * calls
        after.close()
    before.close()


@pytest.mark.parametrize(("lost", "is_found"), [(24, True), (10, False)])
def test_a_root_whose_commits_wait_for_each_other_is_named(url, lost, is_found):
    schema = made()
    thread, comment = schema.named()["Thread"], schema.named()["Comment"]
    site = Lossy(url, schema, "roots", lambda other: other.create(comment(name="t")))
    site.db.save(thread(name="t"))
    site.lose(lambda: site.db.create(comment(name="t")), lost)
    found = site.findings("smaller root")
    assert bool(found) == (is_found and not site.spans_rows)
    for each in found:
        assert (each.declared, each.what) == ("Thread", "commits wait for each other in Thread('t')")
        assert each.change.endswith("\n    # without child_of = Thread")
        assert each.change.startswith("class Comment(Model[str, int]):")
    site.close()
