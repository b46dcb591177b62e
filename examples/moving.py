"""A site that is moved to another store while it is in use, and while what moves it is killed again and again.

It loads a site, lets programs write and read, and moves it back and forth. One process makes the steps, another lets
the other store follow; both are killed with SIGKILL at random moments. In the end everything that was acknowledged must
be stored, once. `examples.shop.moving` and `examples.community.moving` say what the site is.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from random import Random
from time import perf_counter, sleep
from typing import Any, ClassVar

import msgspec

from examples.commands import Parser, exit_code, whole
from examples.moving_programs import Answered, Call, Pages, let_go
from examples.shop.mistakes import Mistake
from oneread import Database, Model, Schema, connect
from oneread.copying.moves import Move
from oneread.errors import InvalidUrl, OnereadError, Unsupported, UsageError
from oneread.plans.clock import wall_clock

HOLD = 5.0
"""Seconds that writers are held at most when the store is switched."""
READERS = 2
PAUSE = 0.1
FOLLOWED = ("following", "switched")
"""The states in which one store follows the other one."""


class Site(ABC):
    """What is moved; each process makes its own."""

    module: ClassVar[str]
    schema: ClassVar[Schema]
    call: ClassVar[type[Call]]
    loaded: ClassVar[type[Model]]
    """A model that has entities once the data are loaded."""

    def __init__(self, given: argparse.Namespace, clock: Callable[[], int] = wall_clock) -> None:
        self.given = given
        self.clock = clock

    @staticmethod
    @abstractmethod
    def add_arguments(parser: Parser) -> None:
        """Adds what says which data are loaded."""

    @abstractmethod
    def load(self, url: str) -> None:
        """Loads them into a store that is made."""

    @abstractmethod
    def write(self, db: Database, me: int) -> None:
        """The life of a writer."""

    @abstractmethod
    def read(self, db: Database, me: int) -> Pages:
        """The life of a reader."""

    @abstractmethod
    def compare(self, db: Database, answered: Answered[Any]) -> int:
        """Compares the store with the data and with what was acknowledged; returns how much is wrong."""


def opened(site: Site) -> Move:
    """`oneread.move`, but that a process which was killed is taken for dead after `--lease` seconds."""
    given = site.given
    return Move(given.source, given.to, (site.schema, site.schema), wall_clock, given.lease)


# --- What is killed --------------------------------------------------------------------------------------------------


def follow(site: Site) -> None:
    """Lets the other store follow, whichever that is, until it is let go."""
    with opened(site) as moved:
        while not let_go():
            try:
                moved.follow(stop=let_go)
            except UsageError:  # not begun, or not copied yet
                sleep(PAUSE)
            except OnereadError as error:
                print(f"{error!r}", file=sys.stderr, flush=True)
                sleep(PAUSE)


def control(site: Site) -> None:
    """Makes the steps of a move, from whatever state an earlier controller has left it in."""
    with opened(site) as moved:
        while not let_go():
            try:
                if step(moved, site.given):
                    return
            except (InvalidUrl, Unsupported):  # the same whenever it is tried
                raise
            except OnereadError as error:
                print(f"{error!r}", file=sys.stderr, flush=True)
                sleep(PAUSE)


def step(moved: Move, given: argparse.Namespace) -> bool:
    """One step; whether it was the last one. It goes back and switches again, until it shall end, or stores differ."""
    state, shall_end = moved.status().state, (given.folder / "end").exists()
    note(given, state)
    if state == "switched" and shall_end:
        return True
    if state in ("planned", "copying"):
        moved.start()
        moved.copy(pace=given.pace)
    elif state == "closing":  # a controller has died in a switch: whichever way it was, the same verb ends it
        if moved.switch(hold=HOLD).state == "closing":
            moved.back(hold=HOLD)
    else:
        moved.follow(until_lag=1.0)
        note(given, "comparing")
        found = moved.compare()
        if not found.equal:
            note(given, "differs")
            print(found, file=sys.stderr, flush=True)
            return True
        note(given, "switching")
        moved.back(hold=HOLD) if state == "switched" else moved.switch(hold=HOLD)
    return False


def note(given: argparse.Namespace, what: str) -> None:
    """Says how far the controller is, for the one that kills it and counts."""
    with (given.folder / "steps").open("a") as file:
        print(what, file=file)


# --- The story -------------------------------------------------------------------------------------------------------


class Story:
    """Processes of one module: they are let go by the end of their standard input, or killed."""

    def __init__(self, site: Site, arguments: list[str]) -> None:
        self.given = site.given
        self._command = [sys.executable, "-m", site.module, *arguments, "--folder", str(self.given.folder)]
        self._started = perf_counter()
        self.kills = 0

    def start(self, role: str, me: int = 0) -> subprocess.Popen[str]:
        log = (self.given.folder / f"{role}-{me}.log").open("a")
        pipe, command = subprocess.PIPE, [*self._command, "--role", role, "--me", str(me)]
        with log:
            return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True)  # noqa: S603 - this module

    def steps(self) -> list[str]:
        file = self.given.folder / "steps"
        return file.read_text().split() if file.exists() else []

    def switches(self) -> tuple[int, int]:
        """How often the store was switched, and taken back, as controllers have found it."""
        states = [each for each in self.steps() if each in FOLLOWED]
        changes = [new for old, new in pairwise(states) if new != old]
        return changes.count("switched"), changes.count("following")

    def move(self) -> float:
        """Moves the store with all kills; returns how long it took."""
        given, end, chance = self.given, self.given.folder / "end", Random(self.given.seed)
        running = {each: self.start(each) for each in ("control", "follow")}
        self._wait_for_steps(running["control"], 0)
        with ExitStack() as both:
            both.callback(lambda: kill_all(running.values()))
            while running["control"].poll() is None:
                if self.kills >= given.kills:
                    if self._has_seen_all():
                        end.touch()
                    sleep(PAUSE)
                    continue
                victim = self._wait(running["control"], chance)
                if running["control"].poll() is None:
                    kill(running[victim])
                    seen = self.steps()
                    running[victim] = self.start(victim)
                    self.kills += 1
                    at, step_was = perf_counter() - self._started, seen[-1] if seen else "begun"
                    print(f"  {at:6.1f} s: killed the one to {victim}, {step_was}", flush=True)
                    if victim == "control":
                        self._wait_for_steps(running[victim], len(seen))
        if running["control"].returncode:
            raise Mistake(f"the controller has failed; see {given.folder}")
        return perf_counter() - self._started

    def _wait_for_steps(self, controller: subprocess.Popen[str], many: int) -> None:
        """Waits until the controller has begun another step, or has ended."""
        wait_for(lambda: len(self.steps()) > many or controller.poll() is not None, 60)

    def _has_seen_all(self) -> bool:
        is_time = perf_counter() - self._started >= self.given.seconds
        return is_time and min(self.switches()) >= 1

    def _wait(self, controller: subprocess.Popen[str], chance: Random) -> str:
        """Waits for a random moment, each third time for one in a switch; returns whom to kill then."""
        given, kind = self.given, self.kills % 3
        if kind < 2:
            latest = 2 * given.seconds / given.kills
            wait_for(lambda: controller.poll() is not None, chance.uniform(0.1, latest))
            return ("control", "follow")[kind]
        switching = self.steps().count("switching")
        wait_for(lambda: self.steps().count("switching") > switching or controller.poll() is not None, 60)
        sleep(chance.uniform(0, 0.3))
        return "control"


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    until = perf_counter() + seconds
    while perf_counter() < until and not condition():
        sleep(0.01)


def kill_all(processes: Iterable[subprocess.Popen[str]]) -> None:
    for each in processes:
        kill(each)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def play(site: Site, arguments: list[str]) -> int:
    """All of it; returns how much is wrong."""
    given, schema = site.given, site.schema
    with connect(given.source, schema) as db:
        if db.moved or db.page(site.loaded, limit=1).rows:
            raise Mistake("the store is not empty: give a fresh --from, and a fresh --to")
    site.load(given.source)
    story = Story(site, arguments)
    with ExitStack() as programs:
        writers = [story.start("write", me) for me in range(given.writers)]
        readers = [story.start("read", me) for me in range(READERS)]
        for each in (*writers, *readers):
            programs.callback(kill, each)
        print(f"{given.writers} writers and {READERS} readers run; moving {given.source} to {given.to}", flush=True)
        seconds = story.move()
        printed = [each.communicate()[0] for each in (*writers, *readers)]  # their standard input ends
        failed = sum(each.returncode != 0 for each in (*writers, *readers))
    answered = Answered([given.folder / f"calls-{me}" for me in range(given.writers)], site.call)
    pages = [msgspec.json.decode(each, type=Pages) for each in printed[given.writers :] if each]
    wrong: int = failed + report(story, seconds, answered, pages)
    with connect(given.source, schema, next=given.to, clock=site.clock) as db:
        db.drain()
        wrong += not db.moved
        wrong += site.compare(db, answered)
    with opened(site) as moved:
        moved.follow(until_lag=0.0)
        found = moved.compare()
        print(f"the old store, which followed: {found.compared:,} compared, {found.differ} differ")
        wrong += not found.equal
    return wrong


def report(story: Story, seconds: float, answered: Answered[Any], pages: list[Pages]) -> int:
    """What programs have met meanwhile; returns how much of it is wrong."""
    switches, back = story.switches()
    crossed, right = sum(each.over_a_switch for each in pages), sum(each.continued for each in pages)
    wrong, refused = sum(each.wrong for each in pages), answered.refused + sum(each.refused for each in pages)
    print(f"moved in {seconds:.0f} s with {story.kills} kills, {switches} switches, {back} back")
    rate = len(answered.made) / seconds
    print(f"acknowledged {len(answered.made):,} writes, {rate:,.0f} a second")
    print(f"held at most {answered.longest:.1f} s, refused {refused}")
    print(f"pages read meanwhile: {sum(each.read for each in pages):,}, {wrong} wrong")
    print(f"cursors of before a switch that were continued after it: {right:,} of {crossed:,}")
    differed = story.steps().count("differs")
    if differed:
        print(f"comparisons that found a difference: {differed}")
    return wrong + refused + differed + crossed - right + (len(pages) < READERS) + (switches == 0)


# --- The command line ------------------------------------------------------------------------------------------------


def run(site: Site) -> None:
    """One of the programs, in a process of its own."""
    given = site.given
    if given.role in ("control", "follow"):
        return {"control": control, "follow": follow}[given.role](site)
    with connect(given.source, site.schema, next=given.to, timeout=60) as db:
        if given.role == "write":
            site.write(db, given.me)
        else:
            print(msgspec.json.encode(site.read(db, given.me)).decode())
    return None


def parser(kind: type[Site]) -> argparse.ArgumentParser:
    made = Parser(prog=f"python -m {kind.module}", description="A site is moved while it is in use.")
    made.add_argument(
        "--from", dest="source", required=True, metavar="URL", help="a store that is made, on LMDB or a server"
    )
    made.add_argument("--to", required=True, metavar="URL", help="another store that is made, on LMDB or a server")
    made.add_argument(
        "--seed", type=int, default=7, help="of all that is by chance, data that are made up included (7)"
    )
    kind.add_arguments(made)
    add_number(made, "--writers", 4, "programs that write")
    add_number(made, "--kills", 20, "how often what moves the store is killed")
    add_number(made, "--seconds", 60, "how long it is moved back and forth at least")
    add_number(made, "--rate", 400, "writes a second of all writers at most")
    add_number(made, "--pace", 4_000, "entities that are copied a second at most")
    made.add_argument("--lease", type=float, default=10.0, help="seconds after which a killed one is replaced (10)")
    made.add_argument("--folder", type=Path, help="where all processes log (a new folder, removed if all is right)")
    made.add_argument("--role", choices=("write", "read", "control", "follow"), help=argparse.SUPPRESS)
    made.add_argument("--me", type=int, help=argparse.SUPPRESS)
    return made


def add_number(parser: Parser | argparse.ArgumentParser, name: str, default: int, does: str) -> None:
    parser.add_argument(name, type=lambda text: whole(text, 10**7), default=default, help=f"{does} ({default})")


def main(kind: type[Site], arguments: list[str] | None = None) -> int:
    """Plays it, or one of its programs; returns 1 when anything is wrong, and 2 when it cannot begin."""
    return exit_code(kind.module, lambda: move(kind, sys.argv[1:] if arguments is None else arguments))


def move(kind: type[Site], arguments: list[str]) -> int:
    """Plays it, or one of its programs; returns 1 when anything is wrong.

    Raises:
        Mistake: it cannot begin with these stores.
    """
    given = parser(kind).parse_args(arguments)
    site = kind(given)
    if given.role is not None:
        run(site)
        return 0
    if any(str(each).startswith("memory:") for each in (given.source, given.to)):
        raise Mistake("several processes move a site between stores on disk or on servers")
    is_new, given.folder = given.folder is None, given.folder or Path(tempfile.mkdtemp(prefix="moving-"))
    given.folder.mkdir(exist_ok=True)
    wrong = play(site, arguments)
    if wrong:
        print(f"{wrong:,} wrong; what each process did is in {given.folder}", file=sys.stderr)
        return 1
    if is_new:
        shutil.rmtree(given.folder)
    return 0
