"""The shop's command line: `demo`, `load`, `check`, `page`, `rename`, `report`, `serve`, `damage`.

What is wrong with one is said in a line on stderr, with exit code 2; numbers that differ are exit code 1.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from examples.commands import Parser, exit_code
from examples.shop import demo, source, verbs
from examples.shop.mistakes import Mistake

STORE = "lmdb://./demo-store"


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < number <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def _port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    if not 0 < number < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return number


def _with_data(parser: argparse.ArgumentParser, lines: int | None) -> None:
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", default=source.default_folder(),
        help=f"folder of {source.FILE}; without it ${source.VARIABLE}, and without that similar data are made up",
    )  # fmt: skip
    parser.add_argument("--limit", type=_positive, metavar="LINES", default=lines, help="only the first LINES lines")
    parser.add_argument("--seed", type=int, default=7, help="of the data made up (7)")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m examples.shop", description="A wholesaler's purchases: every page is one read.")
    verbs_of = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)

    def verb(name: str, does: str) -> argparse.ArgumentParser:
        return verbs_of.add_parser(name, help=does, description=does[:1].upper() + does[1:] + ".")

    showing = verb("demo", "load, read, rename and add up, each step with its cost, beside the same in SQL")
    _with_data(showing, None)
    showing.add_argument("--folder", type=Path, default=Path("demo-store"), help="where the store is left (demo-store)")
    showing.add_argument(
        "--db", metavar="URL", help="a store of another kind: memory://?span=row, hbase://..., bigtable://..."
    )

    loading = verb("load", "load invoice lines into a store; continues where an earlier load ended")
    _with_data(loading, None)
    checking = verb("check", "add every page and total up again without the library, and verify the store")
    _with_data(checking, None)
    paging = verb("page", "a customer's newest purchases: one range read")
    paging.add_argument("customer", type=_positive, metavar="CUSTOMER", help="the customer's number")
    paging.add_argument("--limit", type=_positive, default=10, help="rows of the page (10)")
    paging.add_argument("--cursor", help="continues after an earlier page, which printed it")
    renaming = verb("rename", "give a product another name; every copy follows")
    renaming.add_argument("code", metavar="CODE", help="the product's code")
    renaming.add_argument("name", metavar="NAME", help="its new name")
    reporting = verb("report", "revenue by month and country, best products and customers")
    serving = verb("serve", "answer JSON over HTTP until it is interrupted")
    serving.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    serving.add_argument("--port", type=_port, default=8000, help="the port to listen at (8000)")
    spoiling = verb("damage", "plant faults in a store, for `oneread verify` to find and `oneread repair` to mend")
    spoiling.add_argument("--faults", type=_positive, default=1_000, help="how many (1000)")
    spoiling.add_argument("--seed", type=int, default=7, help="the same seed plants the same faults (7)")
    spoiling.add_argument("--out", type=Path, metavar="FILE", help="list them there, one JSON object a line")
    for each in (loading, checking, paging, renaming, reporting, serving, spoiling):
        each.add_argument("--db", metavar="URL", default=STORE, help=f"the store ({STORE})")
    return parser


def serve(given: argparse.Namespace) -> None:
    """Imports the server only now: the other commands do not need it."""
    try:
        serving = importlib.import_module("examples.shop.serving")
    except ModuleNotFoundError as missing:
        raise Mistake(f"a server needs more: pip install starlette uvicorn ({missing.name} is missing)") from missing
    serving.serve(given)


VERBS: dict[str, Callable[[argparse.Namespace], int | None]] = {
    "demo": demo.demo,
    "load": verbs.load,
    "check": verbs.check,
    "page": verbs.page,
    "rename": verbs.rename,
    "report": verbs.report,
    "serve": serve,
    "damage": verbs.spoil,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    given = _parser().parse_args(arguments)

    return exit_code(f"shop {given.verb}", lambda: VERBS[given.verb](given) or 0)


if __name__ == "__main__":
    sys.exit(main())
