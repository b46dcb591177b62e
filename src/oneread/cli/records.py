"""Entities and view rows on a terminal: one below the other, or as a table.

See "Output" in docs/reference/command-line.md.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

import msgspec

from oneread.cli.output import Output, columns, counted
from oneread.database.record_texts import fields
from oneread.plans.trace import Cost


def show_one(output: Output, record: msgspec.Struct) -> None:
    """Prints one record, a field a line."""
    found = fields(record)
    width = max(map(len, found), default=0)
    for name, value in found.items():
        output.text(f"{name.ljust(width)}  {'' if value is None else value}")


def show_all(output: Output, records: Sequence[msgspec.Struct]) -> None:
    """Prints records as a table, one below the other where a terminal is too narrow for that; to a pipe with tabs."""
    rows = [fields(record) for record in records]
    headers = list(dict.fromkeys(name for row in rows for name in row))
    if not headers or output.as_json:
        return
    cells = [[row.get(name) for name in headers] for row in rows]
    if not sys.stdout.isatty():
        output.cells(headers)
        for values in cells:
            output.cells(values)
        return
    if max(map(len, columns(headers, cells))) > shutil.get_terminal_size().columns:
        for place, record in enumerate(records):
            if place:
                output.text()
            output.text(f"[{place + 1}]")
            show_one(output, record)
        return
    output.table(headers, cells)


def cost_text(cost: Cost) -> str:
    """What an operation cost, in words."""
    skipped = f", {cost.skipped:,} of them not shown" if cost.skipped else ""
    requests, rows = counted(cost.requests, "request"), counted(cost.rows, "row")
    rounds = "" if cost.rounds == cost.requests else f" in {counted(cost.rounds, 'round')}"
    return f"cost: {requests}{rounds}, {rows}{skipped}, {counted(cost.bytes, 'byte')}"
