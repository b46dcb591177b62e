"""`oneread doctor`: what to declare otherwise, by what programs have recorded.

See docs/how-to/find-what-is-hot.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, get_args

import typer

from oneread.cli.failures import FOUND
from oneread.cli.heat import LastOption, time_of
from oneread.cli.options import Invocation, reading, with_shared_options
from oneread.heat.doctor import BUILT_A_SECOND, FindingSeverity, HeatFinding

SeverityOption = Annotated[
    FindingSeverity | None,
    typer.Option("--check", help="Exit with 1 where a finding is as severe: after a load test, or from cron."),
]


@with_shared_options
def command(given: Invocation, *, last: LastOption = "24h", check: SeverityOption = None) -> None:
    """Shows which declarations do not fit what programs read and write, and what to declare otherwise.

    Of what programs recorded that were opened with heat=1.0, or another share. Nothing is changed: each finding has the
    declaration to paste, and what pages and saves cost then. `act` is to be done, `look` to be looked at, `know` to be
    known before a move to another store. A read of a few hundred rows.

    Example: oneread doctor --last 24h --check act --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output, severities = given.output, get_args(FindingSeverity)
    with reading(given.db, given.schema) as database:
        found, native = database.doctor(last=time_of(last)), database.native
    output.document(found)
    for finding in found:
        for line in _lines(finding):
            output.text(line)
    if not found:
        output.text("nothing was found in what programs recorded with connect(url, schema, heat=1.0)")
    output.text(f"native: {'yes' if native else 'no'}, because {native.why}")
    if check is not None and any(severities.index(each.severity) <= severities.index(check) for each in found):
        raise typer.Exit(FOUND)


def _lines(finding: HeatFinding) -> Iterator[str]:
    """A finding for people: what happens, the change, and what it costs and brings."""
    yield f"{finding.severity:4}  {finding.declared}: {finding.what} ({', '.join(finding.evidence)})"
    costs = finding.costs.split("; ") if finding.costs else []
    for line in (*finding.change.splitlines(), *costs, finding.gain, *_built(finding.rebuilds)):
        yield f"      {line}"


def _built(rebuilds: timedelta | None) -> list[str]:
    if not rebuilds:
        return []
    minutes, seconds = divmod(round(rebuilds.total_seconds()), 60)
    return [f"built again in {f'{minutes:,} min' if minutes else f'{seconds} s'} at {BUILT_A_SECOND:,} a second"]
