"""The site's command line: `load`, `check`, `serve`.

What is wrong with a command is said in a line on stderr, with exit code 2; numbers that differ are exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from examples.commands import Parser, exit_code, run_verb, whole

STORE = "lmdb://./qa-store"
DATA = "generated:7"
VERBS = {"load": "examples.qa.verbs", "check": "examples.qa.verbs", "serve": "examples.qa.serving"}
"""Where each is."""
PACKAGES = "pip install fastapi jinja2 rich uvicorn"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m examples.qa", description="Questions and answers: every list is one range read.")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)

    def verb(name: str, does: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=does, description=does[:1].upper() + does[1:] + ".")
        made.add_argument("--db", metavar="URL", default=STORE, help=f"the store ({STORE})")
        return made

    loading = verb("load", "load a site; continues where an earlier load ended")
    checking = verb("check", "count every number again without the library, and verify the store")
    for each in (loading, checking):
        each.add_argument(
            "--data", metavar="DATA", default=DATA,
            help=f"folder of a dump's CSV files, or generated:SEED, or generated:SEED:QUESTIONS ({DATA})",
        )  # fmt: skip
    loading.add_argument(
        "--batch", type=lambda text: whole(text, 10_000), default=1_000, help="entities a commit (1000)"
    )
    serving = verb("serve", "answer over HTTP until it is interrupted: pages for people, JSON at /api")
    serving.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    serving.add_argument("--port", type=lambda text: whole(text, 2**16 - 1), default=8000, help="the port (8000)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    given = _parser().parse_args(arguments)
    return exit_code(f"qa {given.verb}", lambda: run_verb(given, VERBS[given.verb], PACKAGES))


if __name__ == "__main__":
    sys.exit(main())
