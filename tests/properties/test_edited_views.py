"""Whatever programs of two releases write, build and ask, each answer is wholly that of one generation of a view."""

from datetime import UTC, datetime, timedelta
from types import new_class

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from oneread import Aggregate, Index, Key, Model, Schema, by, connect, count, descending, field, greatest, newest, shown
from oneread.testing.clock import Clock
from tests.unit.evolution.stores import drop_formers, former_generations

START = datetime(2026, 1, 1, tzinfo=UTC)


class Event(Model[int]):
    number: Key[int]
    group: str
    starts: datetime
    score: int
    slug: str


def declared(name, base, rules, **options):
    space = {"__module__": __name__, "__annotations__": {key: rule[0] for key, rule in rules.items()}, **options}
    return new_class(name, (base,), {}, lambda into: into.update(space | {key: rule[1] for key, rule in rules.items()}))


class Release:
    """The classes of one release; the second has another order, condition, number and list of groups."""

    def __init__(self, *, is_edited):
        group = {"group": (str, by(Event.group))}
        by_time = {"starts": (datetime, newest(Event.starts)), "score": (int, shown(Event.score))}
        by_score = {"score": (int, descending(Event.score)), "starts": (datetime, newest(Event.starts))}
        slug = {"slug": (str, by(Event.slug))}
        numbers = {"events": (int, count()), "best": (int | None, greatest(Event.score))}
        above = {"where": field(Event.score) > 1} if is_edited else {}
        self.home = declared("Home", Index[Event], group | (by_score if is_edited else by_time))
        self.some = declared("Some", Index[Event], group | by_time, **above)
        shows = {} if is_edited else {"score": (int, shown(Event.score))}
        self.slugs = declared("Slugs", Index[Event], slug | shows, unique=True)
        self.sums = declared("Sums", Aggregate[Event], group | numbers, **above)
        events, named = (int, descending(self.sums.events)), (str, shown(self.sums.group))
        self.groups = declared("Groups", Index[self.sums], {"events": events, "group": named})
        self.schema = Schema(Event, self.home, self.some, self.slugs, self.sums, self.groups)


BEFORE, AFTER = Release(is_edited=False), Release(is_edited=True)
NUMBERS = st.integers(0, 9)
EVENTS = st.builds(
    lambda number, group, score: Event(
        number=number, group=group, starts=START + timedelta(hours=number), score=score, slug=f"s{number}"
    ),
    NUMBERS,
    st.sampled_from("ab"),
    st.integers(0, 4),
)
PROGRAMS = st.sampled_from(["old", "new", "other"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), PROGRAMS, EVENTS),
        st.tuples(st.just("delete"), PROGRAMS, NUMBERS),
        st.tuples(st.just("start"), PROGRAMS),
        st.tuples(st.just("walk"), st.integers(1, 4)),
        st.tuples(st.just("build")),
        st.tuples(st.just("drop")),
        st.tuples(st.just("wait"), st.floats(0, 3)),
    ),
    max_size=30,
)


class History:
    """Three programs: one of the release before, and two of the next one, of which one builds."""

    def __init__(self, url):
        self.url, self.clock, self.programs, self.events = url, Clock(), {}, {}
        self.is_built = self.is_dropped = False
        self.start("old")
        self.save("old", Event(number=0, group="a", starts=START, score=1, slug="s0"))
        self.start("new")
        self.start("other")

    def may_write(self, program):
        return not (self.is_built and program == "old")

    def start(self, program):
        if self.may_write(program):
            if program in self.programs:
                self.programs.pop(program).close()
            schema = BEFORE.schema if program == "old" else AFTER.schema
            self.programs[program] = connect(self.url, schema, workers=0, clock=self.clock)

    def save(self, program, event):
        if self.may_write(program):
            self.programs[program].save(event)
            self.events[event.number] = event

    def delete(self, program, number):
        if number in self.events and self.may_write(program):
            self.programs[program].delete(Event, number)
            del self.events[number]

    def build(self):
        if self.is_dropped:  # programs that still write what was dropped are replaced before a backfill ends that
            self.start("new")
        self.programs["other"].drain()
        assert self.programs["other"].backfill(fence=True, quiet=0, wait=0).done
        self.is_built = True

    def drop(self):
        """As an operator does once the views are built; programs that run go on."""
        formers = former_generations(self.programs["other"])
        if self.is_built and formers:
            self.wait(2)  # so long after the backfill: see `LOOK_SECONDS`
            drop_formers(self.url, AFTER.schema, formers, clock=self.clock)
            self.start("other")
            self.is_dropped = True

    def wait(self, seconds):
        self.clock.tick(round(seconds, 3))

    def walk(self, limit):
        """All pages, with a build between the first two: they are those of one generation."""
        cursor, found = None, []
        while True:
            page = self.programs["new"].page(AFTER.home, "a", limit=limit, cursor=cursor)
            found += [row.source.key[0] for row in page]
            cursor = page.next
            if cursor is None:
                break
            self.build()
        assert found in self.homes()

    def of(self, group):
        return [each for each in self.events.values() if each.group == group]

    def homes(self):
        by_time = sorted(self.of("a"), key=lambda each: each.starts, reverse=True)
        by_score = sorted(self.of("a"), key=lambda each: (-each.score, -each.number))
        return [[each.number for each in order] for order in (by_time, by_score)]

    def sums(self, *, is_edited):
        counted = {group: [each.score for each in self.of(group) if not is_edited or each.score > 1] for group in "ab"}
        return {group: (len(scores), max(scores, default=None)) for group, scores in counted.items()}

    def look(self):
        for db in self.programs.values():
            db.drain()
        self.ask(self.programs["new"], AFTER, [False, True])
        if not self.is_built:
            self.ask(self.programs["old"], BEFORE, [False])

    def ask(self, db, release, generations):
        """All reads of a program: each is as one of these generations says."""
        home = [row.source.key[0] for row in db.page(release.home, "a")]
        assert home in [self.homes()[is_edited] for is_edited in generations]
        some = [row.source.key[0] for row in db.page(release.some, "a")]
        listed = [each for each in self.homes()[0] if self.events[each].score > 1]
        assert some in [listed if is_edited else self.homes()[0] for is_edited in generations]
        found = {group: db.get(release.sums, group) for group in "ab"}
        sums = [self.sums(is_edited=is_edited) for is_edited in generations]
        assert {group: (row.events, row.best) for group, row in found.items()} in sums
        groups = [(row.events, row.group) for row in db.page(release.groups)]
        assert groups in [
            sorted([(n, name) for name, (n, _best) in each.items() if n], key=lambda one: (-one[0], one))
            for each in sums
        ]
        for number in range(10):
            assert (db.find(release.slugs, f"s{number}") is not None) == (number in self.events)

    def close(self):
        for each in self.programs.values():
            each.close()


def test_each_answer_is_that_of_one_generation(new_url):
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
        history.ask(history.programs["new"], AFTER, [True])
        history.drop()
        history.look()
        history.build()
        found = history.programs["other"].verify()
        assert found.clean, found
        history.ask(history.programs["other"], AFTER, [True])
        history.close()

    holds()
