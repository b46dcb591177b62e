"""`oneread cost`: what every verb may cost, from the declarations alone, and the bound file.

See docs/reference/command-line.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from oneread.cli.failures import FOUND
from oneread.cli.options import (
    JsonOption,
    NamesArgument,
    NumbersOption,
    QuietOption,
    SchemaOption,
    SpanOption,
    TimesOption,
    find_declared,
    load_numbers,
    reading,
    schema_of,
)
from oneread.cli.output import Output, Right
from oneread.costs.bound_file import compare, read, write
from oneread.costs.bounds import Bound
from oneread.costs.declared import Costs, of
from oneread.costs.numbers import MachineNumbers, seconds_text
from oneread.database.fan_out_sizes import fan_out_sizes
from oneread.errors import UsageError
from oneread.evolution.schema import Schema
from oneread.store.urls import redact


def command(  # noqa: PLR0913 - each option is one question
    names: NamesArgument = [],  # noqa: B006 - typer makes a list of its own
    *,
    schema: SchemaOption = "",
    terms: Annotated[bool, typer.Option("--terms", help="Show what each bound is made of, and why.")] = False,
    numbers: NumbersOption = "",
    times: TimesOption = False,
    span: SpanOption = "",
    db: Annotated[
        str, typer.Option("--db", metavar="URL", help="Of this store, with what usually follows in it.")
    ] = "",
    write_to: Annotated[str, typer.Option("--write", metavar="FILE", help="Write the bound file.")] = "",
    check: Annotated[str, typer.Option("--check", metavar="FILE", help="Fail if a bound rose above the file.")] = "",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Shows the upper bound of every verb's cost: requests, rounds, rows and bytes, however full the store is.

    No store is opened, unless --db names one: then former generations of views, which it has written besides, are
    shown and counted, and its holders, members and items are counted for what is typical. Commit the file that --write
    makes; --check fails your build when a bound rises. The file has the bounds on stores that change several rows at
    once and on those that change one; --span says which are shown.

    Example: oneread cost Purchase --terms --schema shop.models:shop
    """
    output = Output(as_json=as_json, quiet=quiet)
    known = schema_of(schema)
    if write_to and check:
        raise UsageError("--write and --check exclude each other")
    if db and (write_to or check or span):
        raise UsageError("--db shows the bounds of one store: leave --write, --check and --span out", db=redact(db))
    if write_to or check:
        _use_bound_file(output, known, write_to, check)
        return
    costs = _costs_in_store(db, known) if db else of(known, span or "rows")  # type: ignore[arg-type]  # which checks it
    wanted = {cls.__name__ for cls in find_declared(known, names)}
    wanted |= {each.name for each in costs.formers if each.view in wanted}
    bounds = [bound for bound in costs.table() if not wanted or bound.target in wanted]
    measured = load_numbers(output, numbers, times=times, span=costs.span)
    rates = {} if measured is None else _group_rates(known, costs, bounds, measured)
    output.document([_document(costs, bound, measured, rates) for bound in bounds])
    _show(output, bounds, measured, rates, terms=terms)
    for former in dict.fromkeys(each for bound in bounds for each in costs.formers_of(bound)):
        output.text(str(former))
    for line in costs.usual.lines():
        output.text(line)
    if known.jobs:
        output.text("a write with enqueue=[...] costs a request more for all of its jobs, and a row for each")
    for costly in known.costly:
        output.text(f"warning: {costly}")


def _show(
    output: Output,
    bounds: Sequence[Bound],
    measured: MachineNumbers | None,
    rates: Mapping[str, float],
    *,
    terms: bool,
) -> None:
    if terms:
        for bound in bounds:
            for line in str(bound).splitlines():
                output.text(line)
    else:
        headers = ["target", "verb", "requests", "rounds", "rows", "bytes", "typically"]
        headers += [*(["time"] if measured else []), *(["a second in a group"] if rates else [])]
        output.table(headers, [_row(bound, measured, rates) for bound in bounds])
        for line in dict.fromkeys(line for bound in bounds for line in bound.limits_to_declare):
            output.text(line)


def _use_bound_file(output: Output, known: Schema, write_to: str, check: str) -> None:
    if write_to:
        write(known, write_to)
        output.document({"written": write_to})
        output.note(f"wrote {write_to}; commit it with the schema")
        return
    found = compare(known, read(Path(check)))
    output.document(found)
    for line in str(found).splitlines():
        output.text(line)
    if not found.holds:
        raise typer.Exit(FOUND)


def _costs_in_store(db: str, known: Schema) -> Costs:
    with reading(db, known) as database:
        catalog = database.operations.catalog
        return database.explain.costs.expecting(database.run(fan_out_sizes(catalog)))


def _group_rates(known: Schema, costs: Costs, bounds: Sequence[Bound], measured: MachineNumbers) -> dict[str, float]:
    """Commits a second in one entity group, by the names of the bounds that write in one."""
    classes = known.named()
    return {
        bound.name: measured.group_rate(bound)
        for bound in bounds
        if any(term.act == "write" for term in bound.terms)
        and bound.target in classes
        and costs.group_of(classes[bound.target]) is not None
    }


def _row(bound: Bound, measured: MachineNumbers | None, rates: Mapping[str, float]) -> Sequence[object]:
    cells: list[object] = [bound.target, bound.verb, *map(_right, bound.amounts), bound.typically]
    if measured is None:
        return cells
    cells.append(seconds_text(measured.predicted(bound)))
    if rates:
        cells.append(Right(f"{rates[bound.name]:,.0f}" if bound.name in rates else ""))
    return cells


def _right(amount: object) -> object:
    return amount if isinstance(amount, int) else Right(amount)


def _document(
    costs: Costs, bound: Bound, measured: MachineNumbers | None, rates: Mapping[str, float]
) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(bound)
    if formers := costs.formers_of(bound):
        found["formers"] = formers
    if measured is not None:
        found["seconds"] = measured.predicted(bound)
    if bound.name in rates:
        found["group_rate"] = rates[bound.name]
    return found
