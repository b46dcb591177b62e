"""Whatever is written, built and asked by several programs, each answer is wholly that of one of two views."""

from datetime import UTC, datetime, timedelta

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from oneread import connect
from oneread.testing.clock import Clock
from tests.unit.database.test_replaced_views import (
    BEFORE,
    SCHEMA,
    Calendar,
    CalendarByScore,
    Event,
    Membership,
    NewSlugs,
    PopularSums,
    Slugs,
    Sums,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS, GROUPS = st.integers(0, 9), st.sampled_from("ab")
EVENTS = st.builds(
    lambda number, group, score: Event(
        number=number, group=group, starts=START + timedelta(hours=number), score=score, slug=f"s{number}"
    ),
    NUMBERS,
    GROUPS,
    st.integers(0, 4),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), st.sampled_from(["old", "new", "other"]), EVENTS),
        st.tuples(st.just("delete"), st.sampled_from(["old", "new", "other"]), NUMBERS),
        st.tuples(st.just("walk"), st.sampled_from([Calendar, CalendarByScore]), st.integers(1, 4)),
        st.tuples(st.just("build")),
        st.tuples(st.just("wait"), st.floats(0, 3)),
    ),
    max_size=30,
)


class History:
    """Three programs: one of before, and two with both views, of which one builds."""

    def __init__(self, url):
        self.clock, self.programs, self.events, self.is_built = Clock(), {}, {}, False
        for name, schema in {"old": BEFORE, "new": SCHEMA, "other": SCHEMA}.items():
            self.programs[name] = connect(url, schema, workers=0, clock=self.clock)
            if name == "old":  # a view of a model without entities is built at once, and ends older programs
                self.save("old", Event(number=0, group="a", starts=START, score=1, slug="s0"))
                self.programs["old"].save(Membership(number=1, member=7, group="a"))

    def save(self, program, event):
        if not (self.is_built and program == "old"):
            self.programs[program].save(event)
            self.events[event.number] = event

    def delete(self, program, number):
        if number in self.events and not (self.is_built and program == "old"):
            self.programs[program].delete(Event, number)
            del self.events[number]

    def build(self):
        self.programs["other"].drain()
        assert self.programs["other"].backfill(fence=True, quiet=0, wait=0).done
        self.is_built = True

    def wait(self, seconds):
        self.clock.tick(round(seconds, 3))

    def walk(self, view, limit):
        """All pages, with a build between the first two: they are those of one side."""
        db, cursor, found = self.programs["new"], None, []
        while True:
            page = db.page(view, "a", limit=limit, cursor=cursor)
            assert all(type(row) is view for row in page)
            found += [row.source.key[0] for row in page]
            cursor = page.next
            if cursor is None:
                break
            self.build()
        assert found in self.orders()

    def orders(self):
        mine = [each for each in self.events.values() if each.group == "a"]
        by_time = sorted(mine, key=lambda each: each.starts, reverse=True)
        by_score = sorted(mine, key=lambda each: (-each.score, -each.starts.timestamp()))
        return [[each.number for each in order] for order in (by_time, by_score)]

    def look(self):
        """All reads, by the program that learns of the build by itself."""
        db, (by_time, by_score) = self.programs["new"], self.orders()
        sides = [by_score] if self.is_settled() else [by_time, by_score]
        for view in (Calendar, CalendarByScore):
            assert [row.source.key[0] for row in db.page(view, "a")] in sides
        for group in "ab":
            events = sum(each.group == group for each in self.events.values())
            assert db.get(Sums, group).events == events
        for number in range(10):
            found, event = db.find(Slugs, f"s{number}"), self.events.get(number)
            assert (found and found.score) == (event and event.score)
        if self.is_settled():
            assert db.get(PopularSums, "a").best == max((self.events[each].score for each in by_time), default=None)
            assert [row and row.starts for row in db.get_many(NewSlugs, [("s1",)])] == [
                self.events[1].starts if 1 in self.events else None
            ]

    def is_settled(self):
        return self.programs["new"].operations.fence.is_readable(CalendarByScore)

    def close(self):
        for program in ("new", "other"):
            self.programs[program].drain()
        assert self.programs["new"].verify().clean
        for each in self.programs.values():
            each.close()


def test_each_answer_is_that_of_one_side(new_url):
    @settings(max_examples=60, deadline=None, phases=[Phase.generate])
    @given(STEPS)
    def holds(steps):
        history = History(new_url())
        for verb, *values in steps:
            getattr(history, verb)(*values)
            history.look()
        history.build()
        history.wait(2.5)
        history.look()
        assert history.is_settled()
        history.close()

    holds()
