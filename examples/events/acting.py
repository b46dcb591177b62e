"""Programs that write and workers that do what follows, killed with SIGKILL at random moments: `act`.

A writer logs each call before it is made, and its answer behind it. In the end each call that was acknowledged must be
stored once, none that was refused, and none that was not made; then `check` makes everything again. With `--release`
the next release of the site is deployed in the middle, while programs of this one write.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from time import sleep
from typing import NamedTuple

import msgspec

from examples.comparing import all_rows
from examples.events import attending, loading, mailing, next_release, schema, source, stores
from examples.events.verbs import differing
from examples.moving import kill, kill_all, wait_for
from examples.moving_programs import Answered, Call, Made, write
from examples.shop.mistakes import Mistake
from oneread import AsyncDatabase, Database, connect, connect_async
from oneread.errors import AlreadyExists, Conflict, InvalidValue, NotFound

WORKERS = 2
HOT, PLACES = 6, 4
"""Events that most of the calls are about, and how many can come to each: so most wait."""
PAUSE = 0.05
"""Seconds that a mail takes, before its line and behind it: so that kills meet workers there."""
PATIENCE = 180.0
"""Seconds in which all mails must be sent in the end: a job of a killed worker is taken over after ten."""
_COMMAND = [sys.executable, "-m", "examples.events"]
REFUSED = (AlreadyExists, Conflict, InvalidValue, NotFound)
ONCE = ("come", "leave", "move", "remark")
"""What is not made again where it is not known whether it was stored."""


class EventCall(Call, frozen=True):
    """What a member does."""

    event: str = ""
    person: str = ""
    group: str = ""
    seats: int = 1
    starts_at: datetime | None = None

    @property
    def once(self) -> bool:
        return self.verb in ONCE


# --- Writers ---------------------------------------------------------------------------------------------------------


async def _move(db: AsyncDatabase, call: EventCall, token: str) -> None:
    await attending.reschedule(db, call.event, call.starts_at or attending.now(), token)


async def _announce(db: AsyncDatabase, call: EventCall, _token: str) -> object:
    starts_at = attending.now() + timedelta(days=20)
    return await attending.announce(db, call.event, call.group, f"Event {call.event}", starts_at, PLACES)


_MADE: dict[str, Callable[[AsyncDatabase, EventCall, str], Awaitable[object]]] = {
    "come": lambda db, call, token: attending.come(db, call.event, call.person, call.seats, token),
    "leave": lambda db, call, token: attending.leave(db, call.event, call.person, token),
    "move": _move,
    "remark": lambda db, call, token: attending.remark(db, call.event, call.person, f"remark {token}"),
    "announce": _announce,
    "join": lambda db, call, _token: attending.join(db, call.person, call.group),
    "view": lambda db, call, token: attending.view(db, call.event, token),
    "see": lambda db, call, _token: db.mark(schema.Home, call.person, seen=True),
}


def _write(given: Namespace, data: source.Data) -> int:
    """The life of a writer; a call that is refused has the result 0."""
    with asyncio.Runner() as runner:

        async def opened() -> AsyncDatabase:
            return await connect_async(given.db, schema.EVENTS, timeout=60).__aenter__()

        db = runner.run(opened())

        async def made(call: EventCall, token: str) -> int:
            try:
                await _MADE[call.verb](db, call, token)
            except REFUSED:
                return 0
            return 1

        log = given.folder / f"calls-{given.me}"
        write(
            _calls(given.me, data), lambda call, token: runner.run(made(call, token)), given.rate, log, given.me
        )  # fmt: skip
        runner.run(db.close())
    return 0


def _calls(me: int, data: source.Data) -> Iterator[EventCall]:
    """What a writer does: most of it is about a few events, to which many want to come."""
    chance, came = Random(me), list[tuple[str, str]]()
    people, groups = data.members, [each.key for each in data.groups]
    hot = [_hot(number) for number in range(HOT)]
    others = [each.key for each in data.events[-50:]]
    for number in count():
        kind, event = chance.random(), chance.choice(hot if chance.random() < 0.9 else others)
        person = chance.choice(people)
        if kind < 0.4:
            came.append((event, person))
            yield EventCall("come", event, person, seats=chance.choice((1, 1, 1, 2)))
        elif kind < 0.65 and came:
            yield EventCall("leave", *came.pop(0 if chance.random() < 0.5 else chance.randrange(len(came))))
        elif kind < 0.71:
            yield EventCall("move", event, starts_at=attending.now() + _ahead(chance))
        elif kind < 0.79:
            yield EventCall("remark", event, person)
        elif kind < 0.9:
            yield EventCall("view", event)
        elif kind < 0.94:
            yield EventCall("join", person=person, group=chance.choice(groups))
        elif kind < 0.97:
            yield EventCall("announce", f"{me}-{number}", group=chance.choice(groups))
        else:
            yield EventCall("see", person=person)


def _ahead(chance: Random) -> timedelta:
    """Some seconds, so that the event begins while writers write; some days; or too far back, which is refused."""
    kind = chance.random()
    if kind < 0.3:
        return timedelta(seconds=chance.randrange(1, 6))
    return timedelta(days=chance.randrange(1, 20)) if kind < 0.8 else timedelta(days=-10_000)


def _hot(number: int) -> str:
    return f"site:hot-{number}"


# --- The story -------------------------------------------------------------------------------------------------------


def act(given: Namespace) -> int:
    """Lets programs run, kills some of them, and compares; returns 1 when anything is wrong.

    Raises:
        Mistake: it cannot begin with this store.
    """
    data = source.read(given.data)
    if given.role is not None:
        return _ROLES[given.role](given, data)
    if given.db.startswith("memory:"):
        raise Mistake("several processes write into a store on disk or on servers")
    with stores.for_loading(given.db) as db:
        loading.load(db, data, lambda *_: None)
    asyncio.run(_begin(given.db, data))
    is_new, given.folder = given.folder is None, given.folder or Path(tempfile.mkdtemp(prefix="acting-"))
    given.folder.mkdir(exist_ok=True)
    given.mails = given.mails or mailing.file_of(given.db)
    home = next_release.write(given.folder / "next") if given.release else next_release.ROOT
    _live(given, home)
    if _play(given, "compare", home):
        print(f"what each process did is in {given.folder}", file=sys.stderr)
        return 1
    if is_new:
        shutil.rmtree(given.folder)
    return 0


def _settle(given: Namespace, _data: source.Data) -> int:
    """Finishes what killed writers left half done, which may ask for mails, and waits until workers have sent all."""
    with connect(given.db, schema.EVENTS, workers=0) as db:
        db.drain()
        wait_for(lambda: not db.survey().jobs.waiting, PATIENCE)
    return 0


def _compare(given: Namespace, data: source.Data) -> int:
    """Compares the store with the logs of all writers, and makes everything again."""
    writers = len([*given.folder.glob("calls-*")])
    answered = Answered([given.folder / f"calls-{each}" for each in range(writers)], EventCall)
    with connect(given.db, schema.EVENTS, workers=0) as db:
        db.drain()
        wrong = compare(db, data, answered, [*asked_in(given.folder, writers)])
    return int(wrong + differing(given.db, data, given.mails) > 0)


_ROLES: dict[str, Callable[[Namespace, source.Data], int]] = {"write": _write, "settle": _settle, "compare": _compare}
"""What a process of the story does, of the release in whose folder it was started."""


async def _begin(url: str, data: source.Data) -> None:
    """The events that most want to come to, of the groups with most members."""
    sizes = Counter(each.group for each in data.memberships)
    async with connect_async(url, schema.EVENTS, workers=0) as db:
        for number, (group, _size) in enumerate(sizes.most_common(HOT)):
            starts_at = attending.now() + timedelta(days=1 + number)
            await attending.announce(db, f"hot-{number}", group, f"Everyone comes {number}", starts_at, PLACES)


class _Program(NamedTuple):
    """A process: the sources of which release it runs are in `home`."""

    role: str
    home: Path
    process: subprocess.Popen[str]


class _Programs:
    """The writers and workers that run; a writer that is started again is another one."""

    def __init__(self, given: Namespace) -> None:
        self.failed = 0
        self._given = given
        self._writers = 0
        self._running: list[_Program] = []

    def start(self, role: str, home: Path = next_release.ROOT) -> None:
        """Starts a writer, `act`, and waits until it writes; or a `worker`."""
        given, calls = self._given, self._given.folder / f"calls-{self._writers}"
        if role == "act":
            calls.touch()
            command = [*_command(given, "write"), "--rate", str(given.rate), "--me", str(self._writers)]
            self._writers += 1
        else:
            command = [*_COMMAND, role, "--db", given.db, "--mails", str(given.mails), "--pause", str(PAUSE)]
        with (given.folder / f"{role}.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=home, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True)  # noqa: S603
        self._running.append(_Program(role, home, process))
        wait_for(lambda: role != "act" or calls.stat().st_size > 0, PATIENCE)

    def kill_one(self, chance: Random) -> str:
        """Kills one of them and starts it again; returns what it is called."""
        role, home, process = self._running.pop(chance.randrange(len(self._running)))
        kill(process)
        self.start(role, home)
        return ("writer" if role == "act" else role) + ("" if home == next_release.ROOT else " of the next release")

    def end(self, role: str, home: Path | None = None) -> None:
        """Ends all of a role, or those of one release; no call and no task is left half done."""
        ended = [each for each in self._running if each.role == role and home in (None, each.home)]
        self._running = [each for each in self._running if each not in ended]
        for _role, _home, process in ended:
            self.failed += process.poll() is not None
            if role == "act":
                process.communicate()  # its standard input ends
            else:
                process.send_signal(signal.SIGTERM)
                self.failed += process.wait(60) != 0
                kill(process)  # closes its standard input

    def kill_all(self) -> None:
        kill_all(each.process for each in self._running)


def _live(given: Namespace, home: Path) -> None:
    """All processes and kills, until all that follows is done.

    Where `home` has another release, it is deployed in the middle.
    """
    chance, programs, pause = Random(given.seed), _Programs(given), given.seconds / (given.kills + 1)
    with ExitStack() as all_of_them:
        all_of_them.callback(programs.kill_all)
        for role in ["act"] * given.writers + ["worker"] * WORKERS:
            programs.start(role)
        print(f"{given.writers} writers and {WORKERS} workers run on {given.db}", flush=True)
        for number in range(given.kills):
            if given.release and number == given.kills // 2:
                programs.start("act", home)
                programs.start("worker", home)
                print("  a writer and a worker of the next release run as well", flush=True)
            sleep(pause * chance.uniform(0.5, 1.5))
            print(f"  killed a {programs.kill_one(chance)}, {number + 1} of {given.kills}", flush=True)
        sleep(pause)
        if given.release:
            programs.end("act", next_release.ROOT)
            programs.end("worker", next_release.ROOT)
            _backfill(given.db, home, chance)
            print("  the next release has built its views, and is alone", flush=True)
            sleep(pause)
        programs.end("act")
        _play(given, "settle", home)
        programs.end("worker")
    if programs.failed:
        raise Mistake(f"{programs.failed} programs have failed; see {given.folder}")


def _backfill(url: str, home: Path, chance: Random) -> None:
    """Builds what the next release declares, killed once meanwhile."""
    command = [sys.executable, "-m", "oneread", "backfill", "--fence", "--quiet", "--db", url]
    command += ["--schema", "examples.events.schema:EVENTS"]
    killed = subprocess.Popen(command, cwd=home, stdout=subprocess.DEVNULL)  # noqa: S603
    sleep(chance.uniform(0.5, 1.5))
    killed.kill()
    killed.wait()
    if _run(command, home):
        raise Mistake("the next release cannot build its views")


def _play(given: Namespace, role: str, home: Path) -> int:
    """Plays a role in a process of the release that `home` has; returns its exit code."""
    return _run(_command(given, role), home)


def _run(command: list[str], home: Path) -> int:
    """Runs a command of a release, and prints what it prints; returns its exit code."""
    ran = subprocess.run(command, cwd=home, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    print(ran.stdout, end="", flush=True)
    return ran.returncode


def _command(given: Namespace, role: str) -> list[str]:
    words = ["act", "--role", role, "--db", given.db, "--data", given.data]
    return [*_COMMAND, *words, "--folder", str(given.folder), "--mails", str(given.mails)]


# --- What must be stored ---------------------------------------------------------------------------------------------


def asked_in(folder: Path, writers: int) -> Iterator[tuple[EventCall, str]]:
    """All calls of the logs, those that a kill has left without an answer too, each with its token."""
    decode = msgspec.json.Decoder(EventCall).decode
    for me in range(writers):
        lines = (folder / f"calls-{me}").read_bytes().splitlines()
        calls = [line for line in lines if line.startswith(b'{"verb"')]
        yield from ((decode(line), f"{me} {number}") for number, line in enumerate(calls))


def compare(
    db: Database, data: source.Data, answered: Answered[EventCall], asked: list[tuple[EventCall, str]]
) -> int:  # fmt: skip
    """Compares what is stored with what was acknowledged, refused and asked; returns how much is wrong."""
    by_verb: dict[str, list[Made[EventCall]]] = defaultdict(list)
    for each in answered.made:
        by_verb[each.call.verb].append(each)
    history = Counter(each.token for each in all_rows(db, schema.Entry) if each.token)
    remarks = Counter(
        each.text.removeprefix("remark ") for each in all_rows(db, schema.Comment) if each.text.startswith("remark ")
    )
    lost = twice = strange = 0
    for stored, several in ((history, ("come", "leave", "move")), (remarks, ("remark",))):
        made = [each for verb in several for each in by_verb[verb]]
        done, refused = ({each.token for each in made if each.answer.result == result} for result in (1, 0))
        known = {token for call, token in asked if call.verb in several}
        lost += len(done - stored.keys())
        twice += sum(stored.values()) - len(stored)
        strange += len(stored.keys() & refused) + len(stored.keys() - known)
    lost += sum(not db.exists(schema.Membership, call.person, call.group) for call, *_ in _done(by_verb["join"]))
    lost += sum(not db.exists(schema.Event, f"site:{call.event}") for call, *_ in _done(by_verb["announce"]))
    lost_views, twice_views = _count_views(db, data, by_verb["view"], asked)
    verbs = ", ".join(f"{len([*_done(several)]):,} {verb}" for verb, several in sorted(by_verb.items()))
    refusals = sum(not each.answer.result for each in answered.made)
    print(f"acknowledged: {verbs}; {refusals:,} were refused, {len(asked) - len(answered.made):,} not answered")
    print(f"lost {lost + lost_views}, twice {twice + twice_views}, refused or not asked for and stored {strange}")
    return lost + lost_views + twice + twice_views + strange


def _done(made: Iterable[Made[EventCall]]) -> Iterator[Made[EventCall]]:
    return (each for each in made if each.answer.result)


def _count_views(
    db: Database, data: source.Data, made: list[Made[EventCall]], asked: list[tuple[EventCall, str]]
) -> tuple[int, int]:
    """Adds every look again by its token: those that were acknowledged must be there, and each is there once."""
    before = {each.key: each.views for each in data.events}
    acknowledged, tokens = {each.token for each in _done(made)}, defaultdict[str, list[str]](list)
    for call, token in asked:
        if call.verb == "view":
            tokens[call.event].append(token)
    lost = twice = 0
    counted = {each.name.removeprefix("views:") for each in db.counters("views:")}
    for event in counted | tokens.keys():
        counter, several = db.counter(f"views:{event}"), tokens[event]
        again = [token for token in several if counter.add(1, once=token)]
        lost += len(acknowledged.intersection(again))
        twice += counter.read() - before.get(event, 0) - len(several)
    return lost, twice
