"""The site's command line: `load`, `check`, `serve`.

What is wrong with a command is said in a line on stderr, with exit code 2; numbers that differ are exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from examples.commands import Parser, add_load_and_check, add_serve, exit_code, run_verb, verbs_of

STORE = "lmdb://./qa-store"
DATA = "generated:7"
VERBS = {"load": "examples.qa.verbs", "check": "examples.qa.verbs", "serve": "examples.qa.serving"}
"""Where each is."""
PACKAGES = "pip install fastapi jinja2 rich uvicorn"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m examples.qa", description="Questions and answers: every list is one range read.")
    verb = verbs_of(parser, STORE)
    add_load_and_check(verb, "a site", "a dump's CSV files", DATA)
    add_serve(verb, "pages for people, JSON at /api")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    given = _parser().parse_args(arguments)
    return exit_code(f"qa {given.verb}", lambda: run_verb(given, VERBS[given.verb], PACKAGES))


if __name__ == "__main__":
    sys.exit(main())
