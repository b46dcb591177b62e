"""Whatever programs write while the share of a launched view changes: each answer is right, and the end is complete."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Schema,
    any_of,
    by,
    connect,
    count,
    descending,
    greatest,
    shown,
    total,
    within,
)
from oneread.errors import UsageError
from oneread.evolution import writing_shares
from oneread.testing.clock import Clock
from tests.unit.evolution.stores import end_leases


class Author(Model[int]):
    number: Key[int]
    name: str


class OfAuthor(Copy[Author]):
    name: str


class Event(Model[int]):
    number: Key[int]
    group: str
    score: int
    author: OfAuthor


class Home(Index[Event]):
    group: str = by(Event.group)
    score: int = shown(Event.score)
    author: str = shown(within(Event.author, Author.name))


class HomeByScore(Index[Event]):
    replaces = Home
    group: str = by(Event.group)
    score: int = descending(Event.score)
    author: str = shown(within(Event.author, Author.name))


class Sums(Aggregate[Event]):
    group: str = by(Event.group)
    events: int = count()


class OtherSums(Aggregate[Event]):
    replaces = Sums
    group: str = by(Event.group)
    events: int = count()
    score: int = total(Event.score)
    best: int | None = greatest(Event.score)


BEFORE = Schema(Author, Event, Home, Sums)
AFTER = Schema(Author, Event, Home, Sums, HomeByScore, OtherSums)
NAMES = st.sampled_from(["HomeByScore", "OtherSums"])
NUMBERS, PROGRAMS = st.integers(0, 9), st.sampled_from(["one", "other"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), PROGRAMS, NUMBERS, st.sampled_from("ab"), st.integers(0, 4)),
        st.tuples(st.just("patch"), PROGRAMS, NUMBERS, st.integers(0, 4)),
        st.tuples(st.just("delete"), PROGRAMS, NUMBERS),
        st.tuples(st.just("rename"), PROGRAMS, st.integers(0, 1), st.sampled_from("xyz")),
        st.tuples(st.just("share"), PROGRAMS, NAMES, st.sampled_from([0, 10, 50, 90, 99.99, 100, 100])),
        st.tuples(st.just("reads"), PROGRAMS, NAMES, st.sampled_from([0, 50, 100])),
        st.tuples(st.just("stop"), PROGRAMS, NAMES),
        st.tuples(st.just("build"), PROGRAMS),
        st.tuples(st.just("start"), PROGRAMS),
        st.tuples(st.just("wait")),
    ),
    min_size=10,
    max_size=40,
)


class History:
    """Two programs of one schema, on a store that an older program began; `events` and `names` are what it holds."""

    def __init__(self, url):
        self.url, self.clock, self.programs, self.leases = url, Clock(), {}, 0
        self.names, self.events = {0: "x", 1: "y"}, {}
        with connect(url, BEFORE, workers=0, clock=self.clock) as before:
            for number, name in self.names.items():
                before.save(Author(number=number, name=name))
            for number in range(4):
                before.save(self.made(number, "a", number))
        for program in ("one", "other"):
            self.start(program)

    def made(self, number, group, score):
        self.events[number] = (group, score)
        return Event(number=number, group=group, score=score, author=OfAuthor.of(Author.at(number % 2)))

    def start(self, program):
        if program in self.programs:
            self.programs.pop(program).close()
        self.programs[program] = connect(self.url, AFTER, workers=0, clock=self.clock)

    def save(self, program, number, group, score):
        self.programs[program].save(self.made(number, group, score))

    def patch(self, program, number, score):
        if number in self.events:
            self.programs[program].patch(Event, number, score=score)
            self.events[number] = (self.events[number][0], score)

    def delete(self, program, number):
        self.programs[program].delete(Event, number)
        self.events.pop(number, None)

    def rename(self, program, number, name):
        self.programs[program].patch(Author, number, name=name)
        self.names[number] = name

    def share(self, program, name, percent):
        launches = self.programs[program].launches
        if percent < 100 and launches.report(name).reads:
            with pytest.raises(UsageError, match="set reads and shadow to 0"):
                launches.set(name, writes=percent)
        else:
            launches.set(name, writes=percent)

    def reads(self, program, name, percent):
        launches = self.programs[program].launches
        report = launches.report(name)
        if report.phase in ("shadow", "live"):
            launches.set(name, reads=percent)

    def stop(self, program, name):
        report = self.programs[program].launches.stop(name)
        assert (report.writes, report.reads) == (0, 0)

    def wait(self):
        """So long that each program looks at the fence again."""
        self.clock.tick(2)

    def build(self, program):
        for db in self.programs.values():
            db.drain()
        self.leases += 1
        for db in self.programs.values():
            end_leases(db, self.leases)
        assert self.programs[program].backfill(fence=True, quiet=0, wait=0).done

    def look(self):
        """Each program answers as one side does, whoever changed the share."""
        for db in self.programs.values():
            db.drain()
        self.wait()
        for db in self.programs.values():
            for view in (Home, HomeByScore):
                self.ask(db, view)

    def of(self, group):
        found = [(score, number) for number, (at, score) in self.events.items() if at == group]
        return [(number, score, self.names[number % 2]) for score, number in found]

    def ask(self, db, view):
        for group in "ab":
            rows = [(row.source.key[0], row.score, row.author) for row in db.page(view, group)]
            listed = self.of(group)
            assert rows in (sorted(listed), sorted(listed, key=lambda row: (-row[1], row[0])))
            found = db.find(Sums, group)
            assert (0 if found is None else found.events) == len(listed)

    def ask_new(self, db):
        assert db.verify().clean
        assert not db.verify().building
        for group in "ab":
            listed = self.of(group)
            rows = [(row.source.key[0], row.score, row.author) for row in db.page(HomeByScore, group)]
            assert rows == sorted(listed, key=lambda row: (-row[1], row[0]))
            scores = [score for _number, score, _name in listed]
            row = db.find(OtherSums, group)
            shows = (0, 0, None) if row is None else (row.events, row.score, row.best)
            assert shows == (len(scores), sum(scores), max(scores, default=None))
        assert len(db.page(HomeByScore, any_of("a", "b"))) == len(self.events)

    def close(self):
        for each in self.programs.values():
            each.close()


def test_after_all_is_written_and_built_the_views_are_those_of_all_entities(new_url, monkeypatch):
    monkeypatch.setattr(writing_shares, "UNREAD_SECONDS", 0.0)

    @settings(max_examples=60, deadline=None, phases=[Phase.generate])
    @given(STEPS)
    def holds(steps):
        history = History(new_url())
        for verb, *values in steps:
            getattr(history, verb)(*values)
            history.look()
        for name in ("HomeByScore", "OtherSums"):
            history.share("one", name, 100)
        history.build("other")
        history.wait()
        for db in history.programs.values():
            history.ask_new(db)
        history.close()

    holds()
