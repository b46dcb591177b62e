"""The soak: programs write, work and read while servers and programs are killed; then everything is counted again.

See docs/design/soak.md.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from oneread import connect
from oneread.errors import StoreError
from tests.soak.ledger import Ledger
from tests.soak.models import SCHEMA, fill
from tests.soak.recount import Late, Rows, check_time, faults, read_back, settle
from tests.soak.sites import site
from tests.soak.weather import Weather
from tools.servers.processes import ends_with_this_process

ROOT = Path(__file__).resolve().parents[2]
WRITERS, WORKERS, READERS = 3, 2, 1
SLACK_SECONDS = 15.0
"""How much longer than its deadline a call may take on a machine that has other work."""

HEAL_SECONDS = 8.0
STORM_SHARE = 4
STORM_ACTS = 12
ACTS = 2, 12
"""How many acts are acknowledged between two faults: at least, and less than."""

SETTLE_SECONDS = 300.0
SKEW_MS = 20_000
FEW = 10
CHECKS = 4
"""How often everything is checked in a run that kills more than a few programs; the last time at its end."""


class Wanted(NamedTuple):
    """What a run is to do."""

    engine: str
    server_kills: int
    writer_kills: int
    seed: int


class Program:
    """A writer, worker or reader in a process of its own."""

    def __init__(self, role, number, options, environment, folder):
        self.role, self.number = role, number
        self.name = f"{role}-{number}-{options['seed']}"
        command = [sys.executable, "-m", "tests.soak.program", role, json.dumps(options)]
        unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        with (folder / self.name).open("wb") as errors:
            self.process = subprocess.Popen(
                ends_with_this_process(command),
                cwd=ROOT,
                env={**unmeasured, **environment, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.rest = b""

    def lines(self, piece):
        """The whole lines so far."""
        *whole, self.rest = (self.rest + piece).split(b"\n")
        return whole


class Programs:
    """All programs of a run, and a thread that passes what they say to the ledger."""

    def __init__(self, place, ledger, folder, chance):
        self._site, self._ledger, self._folder, self._chance = place, ledger, folder, chance
        self._programs = {}
        self._lock = threading.RLock()
        self._selector = selectors.DefaultSelector()
        self._turn = 0
        self._ended = threading.Event()
        self._pump = threading.Thread(target=self._listen, daemon=True)
        self._pump.start()

    def start(self):
        """Start all."""
        for role, most in (("writer", WRITERS), ("worker", WORKERS), ("reader", READERS)):
            for number in range(most):
                self._start(role, number)

    def kill(self, role):
        """Kill one at random, and start another one in its place."""
        with self._lock:
            program = self._chance.choice([each for each in self._programs.values() if each.role == role])
            self._kill(program)
            self._start(program.role, program.number)

    def kill_all(self):
        """Kill all; returns how many writers and workers there were."""
        with self._lock:
            killed = Counter(each.role for each in self._programs.values())
            for each in list(self._programs.values()):
                self._kill(each)
        return killed

    def close(self):
        self.kill_all()
        self._ended.set()
        self._pump.join(30)

    def _start(self, role, number):
        self._turn += 1_000_000
        seed = self._chance.randrange(1_000_000_000)
        mine = list(self._ledger.pending_tokens(lambda token: token.split("-")[0] in self._seeds(number)))
        options = {
            "url": self._site.url,
            "timeout": self._site.timeout,
            "seed": seed,
            "slot": number,
            "turn": self._turn,
            "tokens": mine if role == "writer" else [],
            "skew": self._chance.randint(-SKEW_MS, SKEW_MS),
        }
        program = Program(role, number, options, self._site.environment, self._folder)
        with self._lock:
            if role == "writer":
                self._seeds(number).add(str(seed))
            self._programs[program.process.stdout.fileno()] = program
            self._selector.register(program.process.stdout, selectors.EVENT_READ)

    def _seeds(self, number):
        """The seeds of the writers that had this number, with which their tokens begin."""
        return self.__dict__.setdefault(f"_seeds_{number}", set())

    def _kill(self, program):
        """Kill one, and note all that it said."""
        with self._lock:
            self._selector.unregister(program.process.stdout)
            del self._programs[program.process.stdout.fileno()]
            program.process.kill()
            program.process.wait()
            said = program.process.stdout.read()
            program.process.stdout.close()
            if program.process.returncode != -signal.SIGKILL:
                self._blame(program)
            self._ledger.note(program.name, program.lines(said))
            self._ledger.end(program.name)

    def _blame(self, program):
        """A program ended by itself."""
        said = (self._folder / program.name).read_text(errors="replace")
        self._ledger.blame(f"{program.name} ended by itself with {program.process.returncode}: {said[-3000:]}")

    def _listen(self):
        while not self._ended.is_set():
            ready = self._selector.select(0.1)
            with self._lock:
                for key, _events in ready:
                    program = self._programs.get(key.fd)
                    if program is None:
                        continue
                    piece = os.read(key.fd, 1 << 16)
                    if piece:
                        self._ledger.note(program.name, program.lines(piece))
                    else:
                        self._kill(program)
                        self._start(program.role, program.number)


def run(wanted, folder, say=print):
    """Run a soak; returns what came of it, for a line of JSON."""
    chance = Random(wanted.seed)
    weather = Weather(Random(wanted.seed + 1))
    began = time.monotonic()
    with site(wanted.engine, weather, chance) as place, own_environment(place.own_environment):
        ledger = Ledger(folder / "ledger", place.timeout + SLACK_SECONDS)
        with connect(place.own_url, SCHEMA, workers=0, timeout=60) as db:
            fill(db)
            programs = Programs(place, ledger, folder, chance)
            try:
                soak = Soak(wanted, place, weather, ledger, programs, db, say)
                soak.run(chance)
            finally:
                programs.close()
                ledger.close()
    return {
        "engine": wanted.engine,
        "seed": wanted.seed,
        "seconds": round(time.monotonic() - began, 1),
        "faults": dict(sorted((soak.met + weather.met).items())),
        "server_kills": soak.server_kills,
        "writer_kills": soak.writer_kills,
        "acknowledged": ledger.acknowledged,
        "ended": dict(ledger.ended),
        "looks": ledger.looks,
        "slowest_call": round(ledger.slowest, 1),
        "settled": [round(each, 1) for each in soak.settled],
        "errors": {f"{name} ({during}): {why}": number for (name, during, why), number in ledger.seen.most_common()},
        "lost": len(ledger.lost),
        "wrong": len(ledger.wrong),
        "sentences": [*ledger.lost[:20], *ledger.wrong[:20]],
    }


@contextmanager
def own_environment(variables):
    """This process asks the servers themselves, past the proxies."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Soak:
    """One run: faults one after the other, each once programs got some acts done, and checks."""

    def __init__(self, wanted, place, weather, ledger, programs, db, say):
        self._wanted, self._site, self._weather = wanted, place, weather
        self._ledger, self._programs, self._db, self._say = ledger, programs, db, say
        self._rows = Rows(db)
        self.met = Counter()
        self.settled = []
        self.server_kills = self.writer_kills = 0

    def run(self, chance):
        parts = CHECKS if self._wanted.writer_kills >= FEW * CHECKS else 1
        schedule = self._schedule(chance, parts)
        checks = {len(schedule) * part // parts for part in range(1, parts)}
        self._programs.start()
        for number, (what, name) in enumerate(schedule):
            self._progress(chance.randrange(*ACTS))
            time.sleep(chance.uniform(0, 0.3))  # the moment of the fault, not a wait for anything
            self._do(what, name)
            if number + 1 in checks:
                self._check()
                self._programs.start()
            if number % 10 == 9:
                self._say(
                    f"{number + 1} of {len(schedule)} faults, {self._ledger.acknowledged} acknowledged", flush=True
                )
        self._progress(5)
        self._check()

    def _schedule(self, chance, checks):
        """What happens, in a random order: exactly so many kills, those of checks included, and other faults."""
        wanted = self._wanted

        def shares(names, most):
            counts = {name: most * share // sum(names.values()) for name, share in names.items()}
            left = most - sum(counts.values())
            return [name for name, times in counts.items() for _ in range(times)] + chance.choices(
                list(names), names.values(), k=left
            )

        others = max(1, wanted.server_kills // 5)
        schedule = [("kill", each) for each in shares(self._site.kills, wanted.server_kills)]
        schedule += [("pause", each) for each in shares(self._site.pauses, others)]
        schedule += [("storm", "")] * others
        left = max(0, wanted.writer_kills - checks * (WRITERS + WORKERS))
        schedule += [("program", each) for each in shares({"writer": 3, "worker": 1}, left)]
        chance.shuffle(schedule)
        return schedule

    def _do(self, what, name):
        self._ledger.remark(begins=what, name=name)
        self._strike(what, name)
        self._ledger.remark(is_over=what, name=name)

    def _strike(self, what, name):
        if what == "program":
            self._programs.kill(name)
            self.met[f"{name} killed"] += 1
            self.writer_kills += 1
        elif what == "storm":
            self._weather.share = STORM_SHARE
            self._progress(STORM_ACTS)
            self._weather.share = 0
            self.met["storm"] += 1
        else:
            self._site.strike(name)
            self.met[name if what == "pause" else f"{name} killed" if self._wanted.engine == "hbase" else name] += 1
            self.server_kills += what == "kill"

    def _progress(self, more):
        """Wait until programs got so many acts done: servers that were killed are started again when they do not."""
        if not self._ledger.wait(more, HEAL_SECONDS):
            self._ledger.remark(begins="heal")
            self._site.heal()
            if not self._ledger.wait(more, self._site.deadline):
                self._ledger.blame(f"no {more} acts were acknowledged within {self._site.deadline} s")

    def _check(self):
        """Stop everything, finish what is left, and compare."""
        killed = self._programs.kill_all()
        for role in ("writer", "worker"):
            self.met[f"{role} killed"] += killed[role]
            self.writer_kills += killed[role]
        self._site.heal()
        try:
            seconds, failures, found, faulty = self._look()
        except Late as late:
            self._ledger.blame(str(late))
            return
        self.settled.append(seconds)
        self._ledger.compare(found)
        for each in faulty:
            self._ledger.blame(each)
        self._say(
            f"checked: settled in {seconds:.1f} s ({dict(failures)}), {len(found.entities)} entities, "
            f"{sum(map(len, found.messages.values()))} messages, {sum(found.votes.values())} votes, "
            f"lost {len(self._ledger.lost)}, wrong {len(self._ledger.wrong)}",
            flush=True,
        )

    def _look(self):
        """Finish what is left, and read everything: how long it took, what failed, what is stored, and its faults."""
        began, failures = time.monotonic(), Counter()
        while True:
            try:
                failures += settle(self._db, self._ledger, SETTLE_SECONDS)
                found = read_back(self._db)
                seconds = time.monotonic() - began
                return seconds, failures, found, [*faults(self._db, found), *self._rows.faults()]
            except StoreError as error:  # servers are just back, or away again
                failures[type(error).__name__] += 1
                check_time(began, SETTLE_SECONDS, error)
