"""Whatever two releases write, mark and build of an edited feed: numbers of new entries are those of a plain list."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.unit.database.test_edited_feeds import Membership, Site, post
from tests.unit.database.test_edited_marks import EDITS, Marked

PROGRAMS, MEMBERS, POSTS = st.sampled_from(["old", "new", "other"]), range(3), range(16)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), PROGRAMS, st.sampled_from(POSTS), st.sampled_from("ab"), st.integers(0, 9)),
        st.tuples(st.just("save"), PROGRAMS, st.sampled_from(POSTS), st.sampled_from("ab"), st.integers(0, 9)),
        st.tuples(st.just("delete"), PROGRAMS, st.sampled_from(POSTS)),
        st.tuples(st.just("join"), PROGRAMS, st.sampled_from(MEMBERS), st.sampled_from("ab")),
        st.tuples(st.just("leave"), PROGRAMS, st.integers(0, 8)),
        st.tuples(st.just("mark"), PROGRAMS, st.sampled_from(MEMBERS), st.sampled_from([True, 0, 1, 4])),
        st.tuples(st.just("mark"), PROGRAMS, st.sampled_from(MEMBERS), st.sampled_from([True, 0, 1, 4])),
        st.tuples(st.just("build"), PROGRAMS),
    ),
    min_size=5,
    max_size=20,
)


class History:
    def __init__(self, new_url, views):
        self.site, self.marked, self.views = Site(new_url, *[(view,) for view in views]), Marked(), views
        before = self.site.fill()
        self.programs = {"old": (before, views[0])}
        self.programs |= {name: (self.site.open(1), views[1]) for name in ("new", "other")}

    def save(self, db, _view, number, group, score):
        db.save(post(number, group=group, score=score))

    def delete(self, db, _view, number):
        db.delete(type(post(0)), number)

    def join(self, db, _view, member, group):
        db.save(Membership(number=6 + member, member=member, group=group))

    def leave(self, db, _view, number):
        db.delete(Membership, number)

    def mark(self, db, view, member, place):
        found = db.page(view, member, limit=100).rows
        if found:
            place = place if place is True else min(place, len(found) - 1)
            self.marked.mark(db, view, member, seen=place)
            self.marked.mark(db, view, member, read=place)

    def build(self, db, view):
        """Ends the older program."""
        if view is self.views[1]:
            self.drain()
            self.programs.pop("old", None)
            assert db.backfill(fence=True, quiet=0, wait=0).done
            self.site.clock.tick(2.5)

    def drain(self):
        for db, _view in self.programs.values():
            db.drain()

    def run(self, steps):
        for verb, program, *values in steps:
            if program in self.programs:
                getattr(self, verb)(*self.programs[program], *values)
                self.drain()
                for db, view in self.programs.values():
                    self.marked.expect(db, view)
        self.build(*self.programs["other"])
        for db, view in self.programs.values():
            self.marked.expect(db, view)
            assert db.verify().clean

    def close(self):
        for db in self.site.opened:
            db.close()


@pytest.mark.parametrize("edit", ["a condition", "fewer entries", "large groups", "no large groups"])
def test_numbers_are_those_of_the_entries_that_a_page_lists(new_url, edit):
    @settings(max_examples=25, deadline=None, phases=[Phase.generate])
    @given(STEPS)
    def holds(steps):
        history = History(new_url, EDITS[edit])
        history.run(steps)
        history.close()

    holds()
