"""The site's command line: `load`, `check`, `serve`, `worker`, `act`, and pages for a terminal.

What is wrong with a command is said in a line on stderr, with exit code 2; numbers that differ are exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.commands import Parser, add_load_and_check, add_serve, exit_code, run_verb, verbs_of, whole

STORE = "lmdb://./events-store"
DATA = "generated:7"
VERBS = {"serve": "examples.events.serving", "act": "examples.events.acting"}
"""Where the commands are that are not in `verbs`."""
PACKAGES = "pip install fastapi jinja2 rich uvicorn"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m examples.events", description="Places, waitlists, home pages and mails of local events."
    )
    verb = verbs_of(parser, STORE)
    checking = add_load_and_check(verb, "groups, members, events and who comes", "the data sets", DATA)
    home = verb("home", "the home of a member: what their groups have announced, and how much of it is new")
    home.add_argument("member", metavar="MEMBER", help="the member's key, like nashville:2069")
    event = verb("event", "an event: who comes, who waits, comments")
    event.add_argument("event", metavar="EVENT", help="the event's key, like rladies:228513084")
    top = verb("top", "what is ahead: events and groups by who comes, tags of the month")
    for each in (home, event, top):
        each.add_argument("--limit", type=lambda text: whole(text, 1_000), default=10, help="rows of the page (10)")
    working = verb("worker", "do what follows from commits, mails included, until it is interrupted")
    working.add_argument("--pause", type=float, default=0.0, help="seconds that a mail takes, twice (0)")
    acting = verb("act", "let writers and workers run, kill them, and check everything")
    acting.add_argument("--data", metavar="DATA", default=DATA, help=f"as that of load ({DATA})")
    add_serve(verb, "home pages, groups, events, JSON")
    for name, default, does in (
        ("--writers", 2, "programs that write"),
        ("--seconds", 20, "how long they run"),
        ("--kills", 6, "how often one of them, or of two workers, is killed"),
        ("--rate", 40, "writes a second of each writer at most"),
        ("--seed", 7, "of what is by chance"),
    ):
        acting.add_argument(name, type=lambda text: whole(text, 10**6), default=default, help=f"{does} ({default})")
    acting.add_argument("--folder", type=Path, help="where programs log (a new folder, removed if all is right)")
    acting.add_argument("--release", action="store_true", help="deploy the next release of the site in the middle")
    acting.add_argument("--role", choices=("write", "settle", "compare"), help=argparse.SUPPRESS)
    acting.add_argument("--me", type=int, default=0, help=argparse.SUPPRESS)
    for each in (working, acting, checking):
        each.add_argument("--mails", type=Path, metavar="FILE", help="what was mailed (a file named after the store)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    given = _parser().parse_args(arguments)
    module = VERBS.get(given.verb, "examples.events.verbs")
    return exit_code(f"events {given.verb}", lambda: run_verb(given, module, PACKAGES))


if __name__ == "__main__":
    sys.exit(main())
