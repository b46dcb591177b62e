"""The site's command line: `load`, `check`, `serve`.

What is wrong with a command is said in a line on stderr, with exit code 2; numbers that differ are exit code 1.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from examples.shop.mistakes import Mistake
from oneread.errors import OnereadError

STORE = "lmdb://./qa-store"
DATA = "generated:7"
VERBS = {"load": "examples.qa.verbs", "check": "examples.qa.verbs", "serve": "examples.qa.serving"}
"""Where each is; imported only when it is asked for, because none needs all packages."""
PACKAGES = "pip install fastapi jinja2 rich uvicorn"


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _whole(text: str, most: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 0 < number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most:,}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m examples.qa", description="Questions and answers: every list is one range read.")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)

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
    try:
        return _run(given)
    except (Mistake, OnereadError) as error:
        print(f"qa {given.verb}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has seen enough: `check | head`
        return 141
    except OSError as error:
        print(f"qa {given.verb}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the same `load` continues after its last whole batch", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
