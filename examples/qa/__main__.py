"""The site's command line: `load`, `check`, `serve`.

What is wrong with a command is said in a line on stderr, with exit code 2; numbers that differ are exit code 1.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from examples.commands import Parser, exit_code
from examples.shop.mistakes import Mistake

STORE = "lmdb://./qa-store"
DATA = "generated:7"
VERBS = {"load": "examples.qa.verbs", "check": "examples.qa.verbs", "serve": "examples.qa.serving"}
"""Where each is; imported only when it is asked for, because none needs all packages."""
PACKAGES = "pip install fastapi jinja2 rich uvicorn"


def _whole(text: str, most: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 0 < number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most:,}")
    return number


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
        "--batch", type=lambda text: _whole(text, 10_000), default=1_000, help="entities a commit (1000)"
    )
    serving = verb("serve", "answer over HTTP until it is interrupted: pages for people, JSON at /api")
    serving.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    serving.add_argument("--port", type=lambda text: _whole(text, 2**16 - 1), default=8000, help="the port (8000)")
    return parser


def _run(given: argparse.Namespace) -> int:
    try:
        module = importlib.import_module(VERBS[given.verb])
    except ModuleNotFoundError as missing:
        raise Mistake(f"this needs more: {PACKAGES} ({missing.name} is missing)") from missing
    done: int = getattr(module, given.verb)(given)
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    given = _parser().parse_args(arguments)
    return exit_code(f"qa {given.verb}", lambda: _run(given))


if __name__ == "__main__":
    sys.exit(main())
