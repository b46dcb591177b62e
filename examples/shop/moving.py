"""A shop that is moved to another store while it is in use, and while what moves it is killed again and again.

`python -m examples.shop.moving --from lmdb:///srv/a --to lmdb:///srv/b` loads a shop, lets programs write and read, and
moves it, back and forth where the target can go back. One process makes the steps, another one lets the target follow;
both are killed with SIGKILL at random moments. In the end everything that was acknowledged must be stored, once.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from time import perf_counter, sleep

import msgspec

from examples.commands import Parser, exit_code, whole
from examples.comparing import all_rows, print_compared, print_verified
from examples.shop import loading, source
from examples.shop.checking import check
from examples.shop.mistakes import Mistake
from examples.shop.moving_programs import MOVED, Answered, Pages, Remark, let_go, read, write
from examples.shop.schema import Purchase
from oneread import Database, connect
from oneread.copying.moves import Move
from oneread.errors import OnereadError, UsageError
from oneread.plans.clock import wall_clock

HOLD = 5.0
"""Seconds that writers are held at most when the store is switched."""
READERS = 2
PAUSE = 0.1
FOLLOWED = ("following", "switched")
"""The states in which one store follows the other one."""


def opened(given: argparse.Namespace) -> Move:
    """`oneread.move`, but that a process which was killed is taken for dead after `--lease` seconds."""
    return Move(given.source, given.to, (MOVED, MOVED), wall_clock, given.lease)


def can_return(given: argparse.Namespace) -> bool:
    """Whether the target keeps a log of what is written to it."""
    return str(given.to).startswith("lmdb:")


# --- What is killed --------------------------------------------------------------------------------------------------


def follow(given: argparse.Namespace) -> None:
    """Lets the other store follow, whichever that is, until it is let go."""
    with opened(given) as moved:
        while not let_go():
            try:
                moved.follow(stop=let_go)
            except UsageError:  # not begun, or not copied yet
                sleep(PAUSE)
            except OnereadError as error:
                print(f"{error!r}", file=sys.stderr, flush=True)
                sleep(PAUSE)


def control(given: argparse.Namespace) -> None:
    """Makes the steps of a move, from whatever state an earlier controller has left it in."""
    with opened(given) as moved:
        while not let_go():
            try:
                if step(moved, given):
                    return
            except OnereadError as error:
                print(f"{error!r}", file=sys.stderr, flush=True)
                sleep(PAUSE)


def step(moved: Move, given: argparse.Namespace) -> bool:
    """One step; whether it was the last one. It goes back and switches again, until it shall end, or stores differ."""
    state, shall_end = moved.status().state, (given.folder / "end").exists()
    note(given, state)
    if state == "switched" and (shall_end or not can_return(given)):
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
        if shall_end or can_return(given):
            note(given, "switching")
            moved.back(hold=HOLD) if state == "switched" else moved.switch(hold=HOLD)
    return False


def note(given: argparse.Namespace, what: str) -> None:
    """Says how far the controller is, for the one that kills it and counts."""
    with (given.folder / "steps").open("a") as file:
        print(what, file=file)


# --- The story -------------------------------------------------------------------------------------------------------


class Story:
    """Processes of this module: they are let go by the end of their standard input, or killed."""

    def __init__(self, given: argparse.Namespace, arguments: list[str]) -> None:
        self.given = given
        self._command = [sys.executable, "-m", "examples.shop.moving", *arguments, "--folder", str(given.folder)]
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
        last = given.kills if can_return(given) else given.kills // 2  # the others hit the only switch
        running = {each: self.start(each) for each in ("control", "follow")}
        self._wait_for_steps(running["control"], 0)
        with ExitStack() as both:
            both.callback(lambda: [kill(each) for each in running.values()])
            while running["control"].poll() is None:
                if self.kills >= last and self._has_seen_all():
                    end.touch()
                if self.kills >= (given.kills if end.exists() else last):
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
        return is_time and (not can_return(self.given) or min(self.switches()) >= 1)

    def _wait(self, controller: subprocess.Popen[str], chance: Random) -> str:
        """Waits for a random moment, each third time for one in a switch; returns whom to kill then."""
        given, kind = self.given, self.kills % 3
        if kind == 2 and not can_return(given) and not (given.folder / "end").exists():
            kind = 0  # the only switch is the end
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


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def play(given: argparse.Namespace, arguments: list[str]) -> int:
    """All of it; returns how much is wrong."""
    base = list(source.lines(given.data, limit=given.lines, seed=given.seed))
    with connect(given.source, MOVED) as db:
        if db.page(Remark, limit=1).rows or db.moved:
            raise Mistake("the store has been moved before: give a fresh --from, and a fresh --to")
        loading.load(db, loading.Source(given.data, given.lines, given.seed))
    story = Story(given, arguments)
    with ExitStack() as programs:
        writers = [story.start("write", me) for me in range(given.writers)]
        readers = [story.start("read", me) for me in range(READERS)]
        for each in (*writers, *readers):
            programs.callback(kill, each)
        print(f"{given.writers} writers and {READERS} readers run; moving {given.source} to {given.to}", flush=True)
        seconds = story.move()
        printed = [each.communicate()[0] for each in (*writers, *readers)]  # their standard input ends
        failed = sum(each.returncode != 0 for each in (*writers, *readers))
    answered = Answered([given.folder / f"calls-{me}" for me in range(given.writers)])
    pages = [msgspec.json.decode(each, type=Pages) for each in printed[given.writers :] if each]
    wrong = failed + report(given, story, seconds, answered, pages)
    with connect(given.source, MOVED, next=given.to) as db:
        db.drain()
        wrong += not db.moved
        wrong += compared(db, base, answered, seconds)
    if can_return(given):
        with opened(given) as moved:
            moved.follow(until_lag=0.0)
            found = moved.compare()
            print(f"the old store, which followed: {found.compared:,} compared, {found.differ} differ")
            wrong += not found.equal
    return wrong


def report(
    given: argparse.Namespace, story: Story, seconds: float, answered: Answered, pages: list[Pages]
) -> int:  # fmt: skip
    """What programs have met meanwhile; returns how much of it is wrong."""
    switches, back = story.switches()
    crossed, right = sum(each.over_a_switch for each in pages), sum(each.continued for each in pages)
    wrong, refused = sum(each.wrong for each in pages), answered.refused + sum(each.refused for each in pages)
    returned = f"{back} back" if can_return(given) else "0 back: such a target keeps no log"
    print(f"moved in {seconds:.0f} s with {story.kills} kills, {switches} switches, {returned}")
    print(f"held at most {answered.longest:.1f} s, refused {refused}")
    print(f"pages read meanwhile: {sum(each.read for each in pages):,}, {wrong} wrong")
    print(f"cursors of before a switch that were continued after it: {right:,} of {crossed:,}")
    differed = story.steps().count("differs")
    if differed:
        print(f"comparisons that found a difference: {differed}")
    return wrong + refused + differed + crossed - right + (len(pages) < READERS) + (switches == 0)


def compared(db: Database, base: list[source.Line], answered: Answered, seconds: float) -> int:
    """Compares the store with what was acknowledged; returns how much differs."""
    lost = twice = 0
    for name, tokens in answered.counted.items():
        value = db.counter(name).read()
        missing = sum(db.counter(name).add(1, once=each) for each in tokens)
        lost, twice = lost + missing, twice + value + missing - len(tokens)
    lost += len(answered.lines.keys() - {(each.order, each.line) for each in all_rows(db, Purchase)})
    stored = {(each.code, each.number): each.text for each in all_rows(db, Remark)}
    lost += sum(stored.get(key) != text for key, text in answered.remarks.items())
    texts = list(stored.values())
    twice += answered.twice + len(texts) - len(set(texts))
    unexpected = len(set(texts) - set(answered.remarks.values()) - answered.unknown)
    last = dict(sorted(stored))
    holes = sum(last.values()) - len(stored)
    found = [*check(db, chain(answered.lines.values(), base), answered.names)]
    rate = answered.writes / seconds
    print(f"acknowledged {answered.writes:,} writes, {rate:,.0f} a second: lost {lost}, twice {twice}")
    print(f"numbers: {len(stored):,} in {len(last)} sequences, {holes} holes, {unexpected} never asked for")
    adds = sum(map(len, answered.counted.values()))
    print(f"counters: {adds:,} adds in {len(answered.counted)}; pages beside a model in plain Python:")
    differ = print_compared(found)
    return differ + lost + twice + unexpected + max(0, holes - len(answered.unknown)) + (not print_verified(db))


# --- The command line ------------------------------------------------------------------------------------------------


def run(given: argparse.Namespace) -> None:
    """One of the programs, in a process of its own."""
    if given.role in ("control", "follow"):
        return {"control": control, "follow": follow}[given.role](given)
    lines = list(source.lines(given.data, limit=given.lines, seed=given.seed))
    with connect(given.source, MOVED, next=given.to, timeout=60) as db:
        if given.role == "write":
            log = given.folder / f"calls-{given.me}"
            write(db, given.me, given.writers, lines, given.rate / given.writers, log)
        else:
            print(msgspec.json.encode(read(db, given.me, lines)).decode())
    return None


def parser() -> argparse.ArgumentParser:
    made = Parser(prog="python -m examples.shop.moving", description="A shop is moved while it is in use.")
    made.add_argument("--from", dest="source", required=True, metavar="URL", help="an LMDB store that is made")
    made.add_argument("--to", required=True, metavar="URL", help="another store that is made, on LMDB or a server")
    made.add_argument("--data", type=Path, default=source.default_folder(), help=f"folder of {source.FILE}")
    made.add_argument("--seed", type=int, default=7, help="of the data made up, and of all that is by chance (7)")

    def number(name: str, default: int, does: str) -> None:
        made.add_argument(name, type=lambda text: whole(text, 10**7), default=default, help=f"{does} ({default})")

    number("--lines", 20_000, "invoice lines that are loaded first")
    number("--writers", 4, "programs that write")
    number("--kills", 20, "how often what moves the store is killed")
    number("--seconds", 60, "how long it is moved back and forth at least")
    number("--rate", 400, "writes a second of all writers at most")
    number("--pace", 4_000, "entities that are copied a second at most")
    made.add_argument("--lease", type=float, default=10.0, help="seconds after which a killed one is replaced (10)")
    made.add_argument("--folder", type=Path, help="where all processes log (a new folder, removed if all is right)")
    made.add_argument("--role", choices=("write", "read", "control", "follow"), help=argparse.SUPPRESS)
    made.add_argument("--me", type=int, help=argparse.SUPPRESS)
    return made


def main(arguments: list[str] | None = None) -> int:
    """Plays it; returns 1 when anything is wrong."""
    typed = sys.argv[1:] if arguments is None else arguments
    given = parser().parse_args(typed)
    if given.role is not None:
        run(given)
        return 0
    if not str(given.source).startswith("lmdb:") or str(given.to).startswith("memory:"):
        raise Mistake("several processes move a shop from LMDB to a store on disk or on a server")
    is_new, given.folder = given.folder is None, given.folder or Path(tempfile.mkdtemp(prefix="moving-"))
    given.folder.mkdir(exist_ok=True)
    wrong = play(given, typed)
    if wrong:
        print(f"{wrong:,} wrong; what each process did is in {given.folder}", file=sys.stderr)
        return 1
    if is_new:
        shutil.rmtree(given.folder)
    return 0


if __name__ == "__main__":
    sys.exit(exit_code("shop moving", main))
