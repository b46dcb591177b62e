"""The command line: `list`, `run`, `report`, `requests`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks import report
from benchmarks import run as runs
from benchmarks.context import FULL, QUICK, Context
from benchmarks.measure import number
from benchmarks.registry import BENCHMARKS
from benchmarks.requests import lines
from benchmarks.rows import Row
from examples.shop.mistakes import Mistake
from oneread.engines.lmdb.binding import NATIVE


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Answers 0 also when a goal is not reached, for this reports; 1 when something went wrong."""
    given = _parser().parse_args(arguments)
    commands = {"list": _list, "run": _run, "report": _report, "requests": _requests}
    try:
        commands[given.command](given)
    except (FileNotFoundError, Mistake, _UnknownName) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


class _UnknownName(Exception):
    """A benchmark that does not exist."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="oneread beside its peers, as ratios.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="every benchmark with its goal")
    run = commands.add_parser("run", help="measure; without names everything, which writes REPORT.md unless --quick")
    run.add_argument("names", nargs="*", metavar="NAME", help="as `list` says, for example P1 P3b")
    run.add_argument("--quick", action="store_true", help="small sizes: everything within 5 minutes")
    run.add_argument("--note", default="", metavar="TEXT", help="what readers of the report should know about this run")
    run.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    run.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="data sets; else ONEREAD_DATA, beside the repository, made up",
    )
    commands.add_parser("report", help="write REPORT.md again from the newest full run")
    commands.add_parser("requests", help="what each write of a shop and a forum asks of a store, counted")
    return parser


def _requests(_given: argparse.Namespace) -> None:
    print("\n".join(lines()))


def _list(_given: argparse.Namespace) -> None:
    for benchmark in BENCHMARKS.values():
        print(f"{benchmark.id:<4} {benchmark.title}\n     goal: {benchmark.goal}")


def _run(given: argparse.Namespace) -> None:
    names = _known(given.names) or list(BENCHMARKS)
    begun = runs.begun(full=not given.quick, note=given.note)
    rows: list[Row] = []
    with Context(QUICK if given.quick else FULL, given.data) as context:
        for name in names:
            print(f"{name}: {BENCHMARKS[name].title}", flush=True)
            found = BENCHMARKS[name].run(context)
            rows += found
            for row in found:
                print(f"  {said(row)}", flush=True)
    whole = not given.quick and set(names) == set(BENCHMARKS)
    run = msgspec.structs.replace(begun, rows=rows)
    again = [name for name in names if BENCHMARKS[name].has_core]
    if whole and NATIVE and again:
        print("without compiled code:", flush=True)
        data = ["--data", str(given.data)] if given.data else []
        run = msgspec.structs.replace(run, without_core=runs.rows_without_core(again, data))
    if given.json:
        runs.written(run, given.json)
    if whole:
        runs.written(run, report.JSON)
        report.generated(run, report.PAGE, report.PICTURES)
    verdicts = Counter(row.verdict for row in rows)
    print(f"{verdicts['met']} met, {verdicts['short']} short, {verdicts['short*']} short of a starred goal")


def _known(names: Sequence[str]) -> list[str]:
    by_folded = {name.casefold(): name for name in BENCHMARKS}
    unknown = [name for name in names if name.casefold() not in by_folded]
    if unknown:
        raise _UnknownName(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    return list(dict.fromkeys(by_folded[name.casefold()] for name in names))


def _report(_given: argparse.Namespace) -> None:
    if not report.JSON.exists():
        raise FileNotFoundError("there is no full run yet; `python -m benchmarks run` makes one")
    report.generated(runs.read(report.JSON), report.PAGE, report.PICTURES)


def said(row: Row) -> str:
    """A row as the terminal shows it."""
    peer = f"; {row.peer_name} {number(row.peer)}" if row.peer is not None else ""
    ratio = f"; ratio {number(row.ratio)} ({row.spread})" if row.ratio is not None else ""
    goal = f"; goal {row.goal}: {row.verdict}" if row.verdict != "shown" else "; shown"
    return f"{row.name}: {number(row.figure)} {row.unit}{peer}{ratio}{goal}"
