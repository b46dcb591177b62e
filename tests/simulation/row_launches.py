"""Launched views on a store of either kind: shares of writes and of reads change beside all else.

Programs write, follow renames and die, under leases that are over late where the store changes one row at a time, while
one lowers and raises the share for which views are written, and builds them; others set the percentage of reads and
take it back. Whoever reads a view finds all that is committed named by its records, and when the last backfill has
ended no commit may leave a view out. The states of a launch are one after the other, and no key goes back while the
percentage rises.
"""

from functools import partial

from oneread.database.sides import Sides
from oneread.errors import Unavailable
from oneread.evolution import writing_shares
from oneread.evolution.backfill import Backfill, BackfillOptions
from oneread.evolution.fence import Fence
from oneread.evolution.writing_shares import change_share
from oneread.launches.plans import StoredLaunches
from oneread.launches.rows import state_key
from oneread.launches.state import LaunchWanted, encode_state
from oneread.launches.tracks import LaunchTrack
from oneread.models import versions
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing.steps import PatchStep
from oneread.transactions import journal_recovery
from oneread.transactions.journal import Journal
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.root import parse_root
from tests.simulation.breaking import edit
from tests.simulation.row_fence import AllRows, RowFence
from tests.simulation.shops import shop

LAUNCHES = ("ItemsBySize", "OtherSizes", "OtherNotes")
KEYS = range(12)


SHOP = shop(sees=True, launches=True)


class LaunchStep:
    """A step of a program that is about the launch of the notes, or reads a view."""

    def __init__(self, name, make):
        self._name, self._make = name, make

    def __str__(self):
        return self._name

    def plan(self, operations):
        return self._make(operations)


class Launches(RowFence):
    """One history; all programs are of one release."""

    name, old_shop, newer = "launches", SHOP, {"launched": SHOP}

    def __init__(self, seed):
        self.launch_states, self.track, self.sides = {}, LaunchTrack("OtherNotes"), {}
        self.closer_acts = []
        super().__init__(seed)
        self.is_hurried = self.chance.random() < 0.8
        for each in self.old:
            each.steps = self.acts(SHOP, self.chance.randint(8, 20))
        self.is_parked = False

    # What programs do.

    def act(self, release):
        chance = self.chance
        if chance.random() < 0.6:
            return super().act(release)
        made = (
            lambda: PatchStep(release.Maker, (chance.randint(1, 3),), {"name": f"n{chance.randint(1, 9)}"}),
            lambda: self.launch_step(chance.choice(("set", "set", "back"))),
            lambda: LaunchStep("look", self.look_at_launch),
        )
        return chance.choices(made, (2, 2, 3))[0]()

    def launch_step(self, verb):
        if verb == "back":
            return LaunchStep("back", lambda operations: operations.launches.back("OtherNotes", "a guard", ""))
        wanted = LaunchWanted(reads=self.chance.choice((0, 10, 50, 100)))
        return LaunchStep(
            f"set {wanted.reads}",
            lambda operations: operations.launches.set("OtherNotes", wanted, "", is_known=True),
        )

    def look_at_launch(self, operations):
        """As the keeper of a process does, whose threads may have their answers in any order."""
        (state,) = yield from operations.launches.states(["OtherNotes"])
        if state is None:
            return
        if self.launch_states.setdefault(state.version, state) != state:
            self.wrong(f"two states of a launch have version {state.version}")
        before = self.track.state
        self.track.adopt(state, self.time / 1000)
        now = self.track.state
        sides = {key: self.track.is_new(key) for key in KEYS}
        if before is not None and before.reads <= now.reads and any(self.sides[key] > sides[key] for key in KEYS):
            self.wrong("a key went back while the percentage rose")
        if before is not None and before.version > now.version:
            self.wrong("a process took an older state of a launch")
        self.sides = sides

    def reading(self, view, operations):
        """Reads a view if it may be read, as every two seconds of this program say."""
        yield from operations.sides.look(view)
        if operations.fence.is_readable(view):
            yield Scan("views", RowRange.under(operations.catalog.views[view].prefix), 100)

    def chance_to_die(self, program):
        return 0.1 if program.doing == "read" else super().chance_to_die(program)

    # One program changes shares and builds.

    def was_opened(self, program, operations):
        program.operations, self.is_opened = operations, True
        writer = self.new[0]
        self.open_now(writer, self.new_shop)
        steps = list(self.acts(self.new_shop, 20))
        for _ in range(40):
            view = self.chance.choice(list(SHOP.launched.values()))
            steps.insert(self.chance.randint(0, len(steps)), LaunchStep("read", partial(self.reading, view)))
        writer.steps = iter(steps)
        self.at(1, self.next_step, writer)
        for _ in range(self.chance.randint(1, 4)):
            share = self.chance.choice((0, 0, 30, 100))
            self.closer_acts.append((self.chance.choice(LAUNCHES), share))
            if self.chance.random() < 0.4:
                self.closer_acts.append(("build", 100))
        self.closer_acts += [*((name, 100) for name in LAUNCHES), ("build", 100)]
        self.next_act()

    def next_act(self):
        name, percent = self.closer_acts[0]
        operations = self.closer.operations
        if name == "build":
            options = BackfillOptions(fence=self.chance.random() < 0.8, quiet=1.0, wait=60.0)
            self.start(self.closer, "build", operations.backfill(options).run())
        else:
            self.start(self.closer, f"{name} {percent}", change_share(operations.committer, name, percent))

    def done(self, program, value):
        if program is self.new[0]:
            self.note(program, "done")
            program.plan = None
            self.at(self.chance.choice((0, 5, 500, 2_000, 9_000)), self.next_step, program)
            return
        if program is not self.closer or program.doing == "open":
            super().done(program, value)
            return
        self.note(program, "done")
        program.plan = None
        if program.doing == "build" and not value.done:
            self.wrong(f"a backfill does not end: {value}")
        self.closer_acts.pop(0)
        if self.closer_acts:
            is_last = len(self.closer_acts) <= len(LAUNCHES) and self.is_hurried
            self.at(0 if is_last else self.chance.choice((0, 2_000, 15_000, 40_000)), self.next_act)
        else:
            self.was_built()

    def failed(self, program, failure):
        if program is not self.closer or program.doing == "open" or not isinstance(failure, Unavailable):
            super().failed(program, failure)
            return
        self.note(program, f"killed, begins again: {failure}")
        program.plan = None
        self.open_now(program, self.new_shop)
        if len(self.closer_acts) > 1 and program.doing == "build" and self.chance.random() < 0.7:
            self.closer_acts.pop(0)  # this backfill is left where it is
        self.at(5, self.next_act)

    def backfill(self):
        self.next_act()

    # What must hold.

    def do(self, program, turn, asked):
        if program is self.new[0] and type(asked) is Scan and asked.table == "views":
            self.look_at_reading(program, asked.range.start)
        super().do(program, turn, asked)

    def look_at_reading(self, program, prefix):
        """While a view is read, each entity that is there is named by it: a record says so."""
        catalog = program.operations.catalog
        view = next((each for each in catalog.views.values() if each.prefix == prefix), None)
        if view is None or view.cls not in SHOP.launched.values():
            return
        kind = catalog.kinds[view.model].prefix
        for key, row in self.engine.answer(Scan("roots", RowRange.under(kind), 1 << 30, families="dm")):
            root = parse_root(self.kind.root_row(row))
            if root.body is not None and not catalog.state(key, root).record.keys() >= set(view.tokens):
                self.wrong(f"{view.cls.__name__} is read, and leaves out {key!r}")

    def end(self):
        """As of every world; leases of programs that died are over by the clock of this one, which is never set."""
        self.closer.operations.outbox.leases = LeaseHolder(1.0, self.closer.clock)
        super().end()

    def old_code_is_refused(self):
        """There is none."""


class LaunchesOfAllRows(Launches):
    """One history of a store whose transactions span rows."""

    name, kind = "launches of all rows", AllRows()


# The rules broken, each with a seed that finds it.


def what_was_decided_by_other_shares_is_committed(patch):
    edit(patch, Journal, "_may_send", (" or seen.shares is self.lease.shares", " or True"))


def programs_with_former_shares_are_not_waited_for(patch):
    patch.setattr(journal_recovery, "END_SECONDS", 0.0)


def a_raised_share_ends_a_backfill_where_it_was(patch):
    known = "(found.version, found.shared) != (self._version, stored.shared)"
    edit(patch, Backfill, "_resume", (known, "found.version != self._version"))


def a_backfill_goes_by_shares_that_it_knew(patch):
    edit(patch, Backfill, "_run_from_position", ("    self._catalog.learn(stored)\n", ""))


def a_backfill_makes_a_share_readable(patch):
    edit(patch, versions, "mark_built", (" if view.writes == ALL else view", ""))


def a_view_that_is_read_is_left_out_at_once(patch):
    edit(patch, writing_shares, "_with_share", ('if percent < ALL and view.state == "readable":', "if False:"))


def a_view_is_left_out_before_programs_look(patch):
    patch.setattr(writing_shares, "UNREAD_SECONDS", 0.0)


def who_reads_a_launched_view_does_not_look_again(patch):
    edit(patch, Sides, "may_change", ("return self.is_waiting(asked) or", "return self.is_waiting(asked) or False and"))


def a_look_that_failed_counts(patch):
    edit(patch, Sides, "look", ("            self._looked = before\n", "            pass\n"))


def a_launch_is_changed_without_comparing(patch):
    def swap(self, name, _seen, wanted):
        return self._put(state_key(name), encode_state(wanted))

    patch.setattr(StoredLaunches, "_swap", swap)


def an_older_state_of_a_launch_counts(patch):
    edit(
        patch,
        LaunchTrack,
        "adopt",
        ("state.version <= before.version and self.is_trusted", "False"),
        ("before is None or state.version > before.version", "True"),
    )


def a_commit_goes_by_shares_that_it_knew(patch):
    edit(patch, Fence, "check_writable", ("        self._catalog.learn(stored, always=True)\n", ""))


BY_SEED = {
    what_was_decided_by_other_shares_is_committed: 100,
    programs_with_former_shares_are_not_waited_for: 13,
    a_raised_share_ends_a_backfill_where_it_was: 91,
    a_backfill_goes_by_shares_that_it_knew: 2,
    a_backfill_makes_a_share_readable: 1,
    a_view_that_is_read_is_left_out_at_once: 0,
    a_view_is_left_out_before_programs_look: 370,
    who_reads_a_launched_view_does_not_look_again: 4,
    a_look_that_failed_counts: 1630,
    a_launch_is_changed_without_comparing: 100,
    an_older_state_of_a_launch_counts: 95,
}

BY_SEED_OF_ALL_ROWS = {
    a_commit_goes_by_shares_that_it_knew: 3,
    a_raised_share_ends_a_backfill_where_it_was: 229,
    a_backfill_goes_by_shares_that_it_knew: 16,
    a_backfill_makes_a_share_readable: 2,
    a_view_that_is_read_is_left_out_at_once: 2,
    a_view_is_left_out_before_programs_look: 1507,
    who_reads_a_launched_view_does_not_look_again: 9,
    a_look_that_failed_counts: 9,
    a_launch_is_changed_without_comparing: 6,
    an_older_state_of_a_launch_counts: 109,
}
