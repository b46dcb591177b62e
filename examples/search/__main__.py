"""A search engine that is kept equal to a store: `act`, `follow`, `check`, `find`.

What is wrong with a command is said in a line on stderr, with exit code 2; documents that differ are exit code 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from time import perf_counter, sleep

from examples.commands import Parser, exit_code, verbs_of, whole
from examples.moving import add_number, kill
from examples.moving_programs import let_go
from examples.search.acting import SHORT, load, write
from examples.search.checking import compare_all
from examples.search.engine import SearchEngine
from examples.search.following import follow
from examples.search.schema import SEARCHED, Event
from examples.shop.mistakes import Mistake
from oneread import connect
from oneread.errors import Unavailable

STORE = "lmdb://./search-store"
_TIMEOUT = 60


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m examples.search", description="Keep a search engine equal to a store.")
    verb = verbs_of(parser, STORE)
    acting = verb("act", "make a site, change it and follow it in processes that are killed at random, then check")
    following = verb("follow", "keep the search engine in step until it is interrupted")
    checking = verb("check", "follow to the end, and compare the search engine with the store in plain Python")
    finding = verb("find", "the events that have all these words")
    finding.add_argument("words", metavar="WORDS", nargs="+", help="of titles and venues")
    finding.add_argument("--limit", type=lambda text: whole(text, 1_000), default=10, help="events (10)")
    for each in (acting, following, checking, finding):
        each.add_argument("--index", type=Path, metavar="FILE", default=Path("search.sqlite"), help="of the engine")
    add_number(acting, "--events", 2_000, "events to begin with")
    add_number(acting, "--writers", 2, "programs that write")
    add_number(acting, "--kills", 12, "how often one of the programs is killed")
    add_number(acting, "--seconds", 20, "how long they run")
    acting.add_argument("--seed", type=int, default=7, help="of all that is by chance (7)")
    acting.add_argument("--role", choices=("write", "follow"), help=argparse.SUPPRESS)
    acting.add_argument("--me", type=int, default=0, help=argparse.SUPPRESS)
    return parser


def act(given: argparse.Namespace, arguments: Sequence[str]) -> int:
    """The story, or one of its programs; returns how much is wrong."""
    if given.role == "write":
        with connect(given.db, SEARCHED, timeout=_TIMEOUT) as db:
            write(db, given.me, Random(), let_go)
        return 0
    if given.role == "follow":
        _keep_in_step(given, let_go)
        return 0
    if given.db.startswith("memory:"):
        raise Mistake("several processes need a store on disk or on a server")
    with connect(given.db, SEARCHED) as db:
        if db.page(Event, limit=1).rows:
            raise Mistake("the store is not empty: give a fresh --db, and a fresh --index")
        load(db, given.seed, given.events)
    print(f"{given.events:,} events; {given.writers} writers and the one that follows run", flush=True)
    kills = _run(given, arguments)
    print("killed: " + ", ".join(f"{role} {many} times" for role, many in sorted(kills.items())), flush=True)
    sleep(SHORT.total_seconds())  # what ends soon has ended, and is swept before it is compared
    return check(given)


def _run(given: argparse.Namespace, arguments: Sequence[str]) -> Counter[str]:
    """Lets the programs run and kills them; in the end their standard input ends."""
    command, chance, kills = [sys.executable, "-m", "examples.search", *arguments], Random(given.seed), Counter[str]()

    def start(role: str, me: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*command, "--role", role, "--me", str(me)], stdin=subprocess.PIPE)  # noqa: S603 - this module

    running = {("follow", 0): start("follow", 0)}
    running |= {("write", me): start("write", me) for me in range(given.writers)}
    started = perf_counter()
    try:
        for number in range(given.kills):
            sleep(max(0.0, started + (number + chance.random()) * given.seconds / given.kills - perf_counter()))
            victim = ("follow", 0) if chance.randrange(2) else chance.choice([*running])
            kill(running[victim])  # type: ignore[arg-type]  # of bytes or text alike
            running[victim] = start(*victim)
            kills[victim[0]] += 1
        sleep(max(0.0, started + given.seconds - perf_counter()))
        for each in running.values():
            each.communicate()
        failed = [role for (role, _me), each in running.items() if each.returncode]
    finally:
        for each in running.values():
            each.kill()
    if failed:
        raise Mistake(f"programs have failed: {', '.join(failed)}")
    return kills


def _keep_in_step(given: argparse.Namespace, stop: Callable[[], bool]) -> None:
    with connect(given.db, SEARCHED, workers=0, timeout=_TIMEOUT) as db:
        engine = SearchEngine(given.index)
        while not stop():
            try:
                follow(db, engine, stop)
            except Unavailable as error:
                print(f"{error}; trying again", file=sys.stderr, flush=True)
        engine.close()


def check(given: argparse.Namespace) -> int:
    """Lets everything follow that is under way, sweeps what has ended, and compares."""
    with connect(given.db, SEARCHED, timeout=_TIMEOUT) as db:
        db.drain()
        db.sweep()
        db.drain()
        engine = SearchEngine(given.index)
        follow(db, engine, lambda: False, wait=0)
        wrong = compare_all(db, engine)
        engine.close()
    return wrong


def find(given: argparse.Namespace) -> int:
    """Prints what was found."""
    engine = SearchEngine(given.index)
    for number, title, place in engine.find(" ".join(given.words), given.limit):
        print(f"{number:>9}  {title}  ({place})")
    engine.close()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    given = _parser().parse_args(words)

    def run() -> int:
        if given.verb == "act":
            return int(act(given, words) > 0)
        if given.verb == "follow":
            _keep_in_step(given, lambda: False)
            return 0
        return find(given) if given.verb == "find" else int(check(given) > 0)

    return exit_code(f"search {given.verb}", run)


if __name__ == "__main__":
    sys.exit(main())
