"""Large groups on a store that changes one row at a time: the world, two processes that meet, and readers that walk."""

from datetime import datetime, timedelta
from random import Random

from oneread import Feed, by, each, newest, on, shown
from oneread.database.lists import listed
from oneread.database.pages import Query, page
from oneread.errors import Unavailable
from oneread.feeds.large_group_cells import GroupMode, rows_of_large_groups
from oneread.plans.effects import Together
from oneread.plans.trace import Trace
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing.processes import Violation
from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import CIPHER, DeleteStep, PatchStep, SaveStep, Step
from tests.simulation.feed_models import BEGINNING, Membership, Post
from tests.simulation.row_world import CALM, Harmless, RecoverStep, Switching, apply_later, pair, work_of
from tests.simulation.schema import compiled

WRITERS, ACTS, WORKS, MEMBERS = 3, 3, 20, 3


class Busy(Feed[Post]):
    """Three memberships are not many, four are, until one is left; a page merges one group."""

    expires_after = None
    large_group = 3
    merged_groups = 1
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(each(Post.groups), Membership.group)


class Roomy(Feed[Post]):
    """Any two memberships are many; a page merges all there are."""

    expires_after = None
    large_group = 1
    merged_groups = 3
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(each(Post.groups), Membership.group)


class Both(Feed[Post]):
    """Of few entries, too."""

    expires_after = None
    at_most = 2
    large_group = 3
    merged_groups = 1
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    joined = on(each(Post.groups), Membership.group)


def post(chance):
    """An item has one time for ever, so that it has one place in every walk."""
    number = chance.randrange(4)
    groups = chance.choice([["a"], ["a"], ["b"], ["a", "b"], []])
    return Post(
        number=number, groups=groups, at=BEGINNING + timedelta(seconds=number), text=f"{number}{chance.choice('xyz')}"
    )


def written(chance):
    """A change of an item."""
    number = chance.randrange(4)
    return chance.choice(
        [
            SaveStep(post(chance)),
            SaveStep(post(chance)),
            PatchStep(Post, (number,), {"text": f"{number}{chance.choice('xyz')}"}),
            DeleteStep(Post, (number,)),
        ]
    )


def acts(chance):
    """Several members join a group one after the other, or leave, and items change between them."""
    made = []
    for _ in range(ACTS):
        several = chance.sample(range(7), chance.choice([1, 3, 4, 5]))
        group, leave = chance.choice("aaab"), chance.random() < 0.5
        for number in several:
            made.append(DeleteStep(Membership, (number,)) if leave else joined(number, group))
            if chance.random() < 0.4:
                made.append(written(chance))
    return made


class WalkStep(Step, frozen=True):
    """A walk over all pages of a member, forward or back: it shows no item twice, and none that was never there."""

    view: type
    member: int
    backward: bool = False

    def __str__(self):
        return f"walk {self.view.__name__} of {self.member}"

    def plan(self, operations):
        check_walk((yield from walked(operations, self.view, self.member, backward=self.backward)))


def walked(operations, view, member, *, backward=False):
    """What all pages of a member show, one after the other, each of one row."""
    of, cursor, found = listed(operations, view), None, []
    while True:
        query = Query((member,), limit=1, cursor=cursor, backward=backward)
        read = yield from page(of, query, CIPHER, Trace())
        rows = [(each.source.key[0], each.at, getattr(each, "text", "")) for each in read.rows]
        found = rows + found if backward else found + rows
        cursor = read.previous if backward else read.next
        if cursor is None:
            return found


def check_walk(found):
    """Raises Violation for an item that is shown twice, or with what was never its time or text."""
    numbers = [number for number, _at, _text in found]
    if len(set(numbers)) < len(numbers):
        raise Violation(f"an item is shown twice: {found}")
    for number, at, text in found:
        if at != BEGINNING + timedelta(seconds=number) or not f"{number}".startswith(text[:1]):
            raise Violation(f"an item is shown as it never was: {found}")


class LargeSimulation(Simulation):
    """Looks at the pages of all members at the end, when everything is done: each is the naive join."""

    views = (Busy,)

    def prepare(self, *steps):
        for step in steps:
            self._driver.run(step.plan(self.operations), Trace())
            self._driver.run(self.operations.outbox.finish_waiting(), Trace())

    def _rest(self):
        super()._rest()
        for view in self.views:
            for member in range(MEMBERS):
                self._check_pages(view, member)

    def _check_pages(self, view, member):
        wanted = self._joined(member)
        for backward in (False, True):
            found = self._driver.run(walked(self.operations, view, member, backward=backward), Trace())
            if view is not Both and [(number, text) for number, _at, text in found] != wanted:
                self._raise_violation(f"pages of {view.__name__} of {member} show {found}, not {wanted}")

    def _joined(self, member):
        entities = list(self.audit.entities().values())
        groups = {each.group for each in entities if isinstance(each, Membership) and each.member == member}
        posts = [each for each in entities if isinstance(each, Post) and groups.intersection(each.groups)]
        return [
            (each.number, each.text) for each in sorted(posts, key=lambda each: (-each.at.timestamp(), each.number))
        ]


def prepared(seed, views, inline, **options):
    simulation = LargeSimulation(seed, compiled(Membership, Post, *views, inline=inline), span="row", **options)
    simulation.views = views
    return simulation


def saved(number, groups=("a",)):
    at = BEGINNING + timedelta(seconds=number)
    return SaveStep(Post(number=number, groups=list(groups), at=at, text=f"{number}0"))


def joined(number, group="a"):
    return SaveStep(Membership(number=number, member=number % MEMBERS, group=group))


def world(seed, *, later=False, **options):
    """Writers, two workers, a recoverer and readers; half of the seeds are calm, some follow by tasks alone.

    With `later` the writers return at their commit points, and some of what they left is forgotten.
    """
    chance = Random(f"large groups {seed}")
    if seed % 4 > 1:
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    views = [(Busy,), (Busy,), (Roomy,), (Busy, Roomy), (Both,)][seed % 5]
    simulation = prepared(seed, views, seed % 3, **options)
    simulation.prepare(*[joined(number) for number in range(2 + seed % 5)], saved(0), saved(1, "ab"))
    for number in range(WRITERS):
        simulation.process(f"writer {number}", acts(chance))
    for name in ("worker 0", "worker 1"):
        simulation.process(name, [work_of(simulation, name)] * WORKS)
    simulation.process("recoverer", [RecoverStep()] * 4)
    walks = [WalkStep(chance.choice(views), chance.randrange(MEMBERS), chance.random() < 0.5) for _ in range(4)]
    simulation.process("reader", walks)
    if later:
        apply_later(simulation)
    return simulation


# Two processes.


class WholeWalkStep(WalkStep, frozen=True):
    """A walk while nothing changes but who reads and who is written to."""

    wanted: tuple = ()

    def plan(self, operations):
        found = yield from walked(operations, self.view, self.member, backward=self.backward)
        if [(number, text) for number, _at, text in found] != list(self.wanted):
            raise Violation(f"a walk shows {found}, not {self.wanted}")


LEFT, UNPUBLISHED = DeleteStep(Membership, (1,)), DeleteStep(Post, (1,))
EDITED = PatchStep(Post, (1,), {"text": "1z"})
SMALL = [joined(0), joined(1), joined(2), saved(0), saved(1)]
LARGE = [*SMALL, joined(3)]
HALF = [*LARGE, DeleteStep(Membership, (0,)), DeleteStep(Membership, (2,))]
"""Still read: with one less it is written again."""

LAST = DeleteStep(Membership, (3,))
READ = [*[joined(number) for number in range(4)], saved(0), saved(1), *HALF[-2:]]
"""The same; the items came while the group was read."""

WALKS = [WholeWalkStep(Busy, 1, backward, ((1, "10"), (0, "00"))) for backward in (False, True)]
WORK, SMALL_WORK = "a batch of a worker", "a batch of one row"
TURN = [joined(0), joined(2), joined(5)]
STRANGER, FIRST = [SaveStep(Membership(number=20 + each, member=each, group="a")) for each in (7, -1)]
PAIRS = {
    "publish and cross": (SMALL, [saved(2)], [joined(3), *[WORK] * 3]),
    "publish and cross back": (HALF, [saved(2)], [LAST, *[WORK] * 3]),
    "unpublish and cross": (SMALL, [UNPUBLISHED], [joined(3), *[WORK] * 3]),
    "unpublish and cross back": (HALF, [UNPUBLISHED], [LAST, *[WORK] * 3]),
    "edit and cross back": (HALF, [EDITED], [LAST, *[WORK] * 3]),
    "join and cross": (SMALL, [joined(4)], [joined(3), *[WORK] * 3]),
    "join and cross back": (HALF, [joined(4)], [LAST, *[WORK] * 3]),
    "leave and cross": (SMALL, [LEFT], [joined(3), *[WORK] * 3]),
    "leave and cross back": (HALF, [LEFT], [LAST, *[WORK] * 3]),
    "turn while places are given up": (HALF, [LAST, WORK, WORK], [*TURN, *[WORK] * 4, joined(4), saved(2)]),
    "turn before all are visited": (HALF, [LAST, *[SMALL_WORK] * 6], [FIRST, *TURN[1:]]),
    "publish while places are given up": (HALF, [LAST, WORK, WORK], [*TURN, *[WORK] * 3, saved(2)]),
    "publish, cross back and publish": (HALF, [saved(2), LAST, WORK, WORK], [STRANGER, saved(3)]),
    "begin to cross and leave": (SMALL, [joined(3), LAST], [saved(2)]),
    "two large groups": (
        [*LARGE, *[joined(number, "b") for number in (6, 8, 9)], saved(3, "b")],
        [joined(7, "b"), WORK, EDITED],
        [LEFT, saved(2, "b"), WORK],
    ),
    "a place comes and goes": (
        [*[joined(number, "b") for number in (6, 7, 8, 9)], *LARGE],
        [DeleteStep(Membership, (7,)), LEFT, joined(1)],
        [LEFT, joined(7, "b"), joined(1)],
    ),
    "walk and cross": (SMALL, WALKS, [joined(3), *[WORK] * 3]),
    "walk and cross back": (READ, WALKS, [LAST, *[WORK] * 3]),
}
"""What was before, and what each of the two does."""


def with_work(simulation, process, steps):
    """The steps of a process, with batches of a worker in place of their names."""
    work = {WORK: work_of(simulation, process, batch=20), SMALL_WORK: work_of(simulation, process, batch=1)}
    return [work[each] if isinstance(each, str) else each for each in steps]


def two(name, inline=100, ahead=0, seed=1, **options):
    """Two processes; the clock of the first one is ahead by so many milliseconds."""
    before, *both = PAIRS[name]
    simulation = prepared(seed, (Busy,), inline, deletes="hide", **options)
    pair(simulation, before, [with_work(simulation, *each) for each in zip("ab", both, strict=True)])
    simulation._processes[0].skew = ahead
    return simulation


def switched(name, first, lengths, **options):
    return two(name, fates=Harmless(), policy=Switching(first, lengths), **options)


# What comes late.


def alone(*steps):
    """A simulation in which these steps are done, and the rows of its large groups."""
    simulation = prepared(1, (Busy,), 100, deletes="hide")
    simulation._ticks = (1,)
    simulation.prepare(*steps)
    return simulation, rows_of_large_groups(simulation.operations.catalog.views[Busy])


def a_mode_comes_late():
    """The task of a group is done before it crosses; by then it has as few members as before."""
    simulation, rows = alone(*SMALL)
    group = simulation.operations.catalog.views[Busy].group_codec.encode(("a",))
    crossing = GroupMode(simulation.now + 1, True, True)
    feeds = simulation.operations.committer.views.feeds
    assert simulation._driver.run(feeds.follow(rows.crossing(group, crossing.epoch), b"", 10), Trace()) is None
    simulation._driver.run(rows.swap_mode(group, GroupMode(), crossing), Trace())
    simulation._rest()


def a_put_of_an_item_comes_late():
    """A worker saw an item and a membership whose member finds no place, and puts the entry when the item is gone.

    It has looked at the group before that had crossed, and at its memberships behind that.
    """
    b = [joined(number, "b") for number in (6, 7, 8, 9)]
    simulation, rows = alone(*b, *[joined(number) for number in (0, 2, 3)], saved(1))
    driver, operations, feeds = simulation._driver, simulation.operations, simulation.operations.committer.views.feeds
    ((item, _row),) = simulation.engine.answer(Scan("views", RowRange.under(rows.feed.items), 9))
    driver.run(joined(5).plan(operations), Trace())
    worker, asked = held(driver, iter(feeds.follow(item, b"", 100)), None, Scan)
    driver.run(operations.outbox.finish_waiting(), Trace())
    feeds.follow = lambda *_given: failing()
    driver.run(joined(1).plan(operations), Trace())
    del feeds.follow
    worker, asked = held(driver, worker, asked, Together)
    driver.run(UNPUBLISHED.plan(operations), Trace())
    driver.run(operations.outbox.finish_waiting(), Trace())
    driver.run(asked.__iter__(), Trace())
    simulation._rest()


def a_membership_ends_late():
    """An item ends while its group is read; a member has left, and his task waits when his place is given up."""
    simulation, rows = alone(*LARGE)
    driver, operations, feeds = simulation._driver, simulation.operations, simulation.operations.committer.views.feeds
    simulation.prepare(UNPUBLISHED)
    feeds.follow = lambda *_given: failing()
    driver.run(LEFT.plan(operations), Trace())
    del feeds.follow
    for number in (2, 3):
        driver.run(DeleteStep(Membership, (number,)).plan(operations), Trace())
    group = operations.catalog.views[Busy].group_codec.encode(("a",))
    ((_key, row),) = simulation.engine.answer(Scan("views", RowRange.under(rows.group_key(group)), 9))
    assert rows.mode_of(row).crosses
    driver.run(feeds.follow(rows.crossing(group, rows.mode_of(row).epoch), b"", 100), Trace())
    found = driver.run(walked(operations, Busy, 1), Trace())
    if any(number == 1 for number, _at, _text in found):
        raise Violation(f"an item that was deleted is shown again: {found}")
    simulation._rest()


def failing():
    """What a task does while the store does not answer."""
    yield from ()
    raise Unavailable("simulated: no answer")


def held(driver, plan, asked, kind):
    """Runs a plan from a request on until it asks for a request of a kind, which waits."""
    answer = None if asked is None else driver.run(asked.__iter__(), Trace())
    while True:
        asked = plan.send(answer)
        if isinstance(asked, kind):
            return plan, asked
        answer = driver.run(asked.__iter__(), Trace())
