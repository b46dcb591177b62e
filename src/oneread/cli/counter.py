"""`oneread counter`: a counter's value, shards, windows and rate; or a list of counters.

See docs/reference/command-line.md.
"""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
import typer

from oneread.cli import cache_counter
from oneread.cli.options import (
    Invocation,
    LimitOption,
    check_can_ask,
    is_agreed,
    reading,
    refuse_nan,
    with_shared_options,
    writing,
)
from oneread.cli.output import Output, counted
from oneread.counters.counters import CounterEntry, CounterWindow, Shard
from oneread.counters.rows import WindowSize
from oneread.database._sync.database import Database
from oneread.errors import UsageError

CounterArgument = Annotated[str | None, typer.Argument(metavar="NAME", help="A counter; none for a list of counters.")]
PrefixOption = Annotated[str, typer.Option(help="Of a list: what the names begin with.")]
SecondsOption = Annotated[
    float,
    typer.Option(
        min=0,
        max=3600,
        callback=refuse_nan,
        help="Read the counter again after so many seconds, for its rate. 0 for none.",
    ),
]
ShardsOption = Annotated[
    int | None, typer.Option(min=1, max=256, help="Spread later adds over so many rows; the value stays.")
]
DeleteCounterOption = Annotated[bool, typer.Option("--delete", help="Delete the counter, after showing it and asking.")]
SureOption = Annotated[bool, typer.Option("--yes", help="With --delete: delete without asking.")]
CacheFirstOption = Annotated[bool, typer.Option(help="Of the cache-first counters, which are of another kind.")]
CacheOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Of a cache-first counter: where its value is, as for `connect`.")
]


class CounterShown(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `counter NAME --json` prints.

    Arguments:
        name: of the counter.
        value: what was added less what was taken.
        raised: all that was added.
        lowered: all that was taken.
        spread: rows that adds are spread over.
        shards: the rows that hold it.
        windows: by size, those that are kept.
        seconds: over which the rates were measured; 0 without.
        raised_per_second: what was added in them.
        lowered_per_second: what was taken in them.
    """

    name: str
    value: int
    raised: int
    lowered: int
    spread: int
    shards: list[Shard]
    windows: dict[WindowSize, list[CounterWindow]] = {}
    seconds: float = 0.0
    raised_per_second: float = 0.0
    lowered_per_second: float = 0.0


class CounterValue(msgspec.Struct, frozen=True):
    """One counter of the list that `counter --json` prints: its name, its value, and how it is kept."""

    name: str
    value: int
    shards: int
    windows: dict[WindowSize, int]


@with_shared_options
def command(  # noqa: PLR0913 - each option is for one of its uses
    given: Invocation,
    name: CounterArgument = None,
    *,
    prefix: PrefixOption = "",
    limit: LimitOption = 20,
    seconds: SecondsOption = 1.0,
    shards: ShardsOption = None,
    delete: DeleteCounterOption = False,
    yes: SureOption = False,
    cache_first: CacheFirstOption = False,
    cache: CacheOption = None,
) -> None:
    """Shows a counter: its value, its shards, its windows, and how fast it grows. Without a name, lists counters.

    --shards changes how many rows later adds are spread over, while programs add; the value does not change.
    With --cache-first it shows counters whose value is in a cache: what is stored of them, and with --cache the value.

    With --delete the counter is deleted with its windows when you agree; the next add makes it again, from 0. Without a
    terminal --yes is needed. There is no way back. A cache-first counter needs --cache for it.

    Example: oneread counter votes:42 --schema shop.models:shop --db lmdb://shop
    """
    output = given.output
    if cache_first or cache is not None:
        if shards is not None:
            raise UsageError("--shards is not for cache-first counters", name=name)
        if delete:
            cache_counter.delete(given, name, cache, yes=yes)
            return
        with reading(given.db, given.schema, cache) as database:
            if name is None:
                cache_counter.show_list(output, database, prefix, limit)
            else:
                cache_counter.show_one(output, database, name, seconds, cached=cache is not None)
        return
    if name is None:
        if shards is not None or delete:
            raise UsageError("--shards and --delete need the name of a counter")
        with reading(given.db, given.schema) as database:
            _list(output, database, prefix, limit)
        return
    if delete:
        _delete(given, name, yes=yes)
        return
    if shards is not None:
        with writing(given.db, given.schema, evolve=False) as database:
            _check_exists(database, name)
            database.counter(name).configure(shards=shards)
    with reading(given.db, given.schema) as database:
        entry = _check_exists(database, name)
        found = _look(database, entry, seconds)
    output.document(found)
    if not output.as_json:
        _show(output, found)


def _delete(given: Invocation, name: str, *, yes: bool) -> None:
    """Shows a counter and deletes it, unless the user does not agree."""
    output = given.output
    check_can_ask(output, "--delete", yes=yes)
    with writing(given.db, given.schema, evolve=False) as database:
        found = _look(database, _check_exists(database, name), 0.0)
        if not output.as_json:
            _show(output, found)
        if is_agreed(yes=yes):
            database.counter(name).delete()
            database.drain()
            output.document(found)
            output.text(f"{name} deleted")


def _check_exists(database: Database, name: str) -> CounterEntry:
    found = database.counters(name, limit=1)
    if not found or found[0].name != name:
        raise UsageError("nothing was ever added to this counter; `oneread counter` lists counters", name=name)
    return found[0]


def _look(database: Database, entry: CounterEntry, seconds: float) -> CounterShown:
    counter = database.counter(entry.name)
    before, began = counter.look(), time.monotonic()
    time.sleep(seconds)
    shards, elapsed = counter.shards(), time.monotonic() - began
    raised, lowered = sum(each.raised for each in shards), sum(each.lowered for each in shards)
    windows: dict[WindowSize, list[CounterWindow]] = {size: counter.windows(size) for size in entry.windows}
    if not seconds:
        return CounterShown(entry.name, raised - lowered, raised, lowered, entry.shards, shards, windows)
    return CounterShown(
        entry.name,
        raised - lowered,
        raised,
        lowered,
        entry.shards,
        shards,
        windows,
        round(elapsed, 3),
        (raised - before.raised) / elapsed,
        (lowered - before.lowered) / elapsed,
    )


def _show(output: Output, found: CounterShown) -> None:
    output.text(f"{found.name}: {found.value:,}")
    taken = f", {found.lowered:,} taken" if found.lowered else ""
    output.text(f"{found.raised:,} added{taken}; {counted(len(found.shards), 'row')}, adds go to {found.spread}")
    if found.seconds:
        taken = f", {found.lowered_per_second:,.1f} taken" if found.lowered_per_second else ""
        output.text(f"{found.raised_per_second:,.1f} added a second{taken}, over {found.seconds:,.1f} s")
    output.text()
    output.table(
        ["shard", "value", "added", "taken"],
        [[each.number, each.value, each.raised, each.lowered] for each in found.shards],
    )
    for size, windows in found.windows.items():
        filled = [each for each in windows if each.value]
        output.text()
        output.table([size, "value"], [[each.start.isoformat().replace("+00:00", "Z"), each.value] for each in filled])
        output.note(f"{counted(len(windows), size)} kept; those without an add are left out")


def _list(output: Output, database: Database, prefix: str, limit: int) -> None:
    listed = database.counters(prefix, limit=limit + 1)
    found = [
        CounterValue(each.name, database.counter(each.name).read(), each.shards, each.windows)
        for each in listed[:limit]
    ]
    output.document(found)
    if not output.as_json:
        kept = [", ".join(f"{many} {size}s" for size, many in each.windows.items()) for each in found]
        rows = [[each.name, each.value, each.shards, keep] for each, keep in zip(found, kept, strict=True)]
        output.table(["counter", "value", "shards", "windows"], rows)
        if not found:
            output.note("no counter was added to")
    if len(listed) > limit:
        output.note("there are more counters: --limit shows them")
