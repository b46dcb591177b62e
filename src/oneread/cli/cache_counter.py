"""`oneread counter --cache-first`: what is stored of a cache-first counter, what the cache holds of it; its deletion.

See docs/reference/command-line.md.
"""

from __future__ import annotations

import time

import msgspec

from oneread.cli.options import Invocation, check_can_ask, is_agreed, writing_with_cache
from oneread.cli.output import Output, counted
from oneread.counters.cache_first import CacheCounterEntry, GreatestShard
from oneread.database._sync.database import Database
from oneread.errors import UsageError


class CacheCounterShown(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `counter NAME --cache-first --json` prints.

    Arguments:
        name: of the counter.
        stored: the greatest value in the store.
        chance_to_write: of an add to be stored: the least with which any program has stored one.
        lost_on_average: adds that a loss of the cache loses on average.
        lost_at_most: adds that 999 of 1,000 losses lose at most.
        shards: the rows that hold values.
        value: in the cache; only with `--cache`.
        unsaved: what would be lost with the cache now; only with `--cache`.
        seconds: over which the rate was measured; 0 without.
        added_per_second: how much the value grew in them; without `--cache`, the stored one.
    """

    name: str
    stored: int
    chance_to_write: float
    lost_on_average: float
    lost_at_most: float
    shards: list[GreatestShard]
    value: int | None = None
    unsaved: int | None = None
    seconds: float = 0.0
    added_per_second: float = 0.0


class CacheCounterValue(msgspec.Struct, frozen=True):
    """One counter of the list that `counter --cache-first --json` prints."""

    name: str
    stored: int
    chance_to_write: float


def show_one(output: Output, database: Database, name: str, seconds: float, *, cached: bool) -> None:
    """Prints one counter; its value in the cache where the database has one."""
    found = _look(database, _check_exists(database, name), seconds, cached=cached)
    output.document(found)
    if output.as_json:
        return
    if found.value is None:
        output.text(f"{found.name}: {found.stored:,} stored; --cache URL shows the value in the cache")
    else:
        output.text(f"{found.name}: {found.value:,}, of which {found.stored:,} are stored")
    output.text(
        f"an add is stored with a chance of {found.chance_to_write:g}: the loss of the cache loses "
        f"{found.lost_on_average:,.1f} adds on average, {found.lost_at_most:,.1f} at most in 999 of 1,000 losses"
    )
    if found.seconds:
        what = "stored" if found.value is None else "added"
        output.text(f"{found.added_per_second:,.1f} {what} a second, over {found.seconds:,.1f} s")
    output.text()
    output.table(["shard", "value"], [[each.number, each.value] for each in found.shards])
    output.note(f"{counted(len(found.shards), 'row')}; the greatest value counts")


def show_list(output: Output, database: Database, prefix: str, limit: int) -> None:
    """Prints the counters whose names begin with a text."""
    listed = database.cache_counters(prefix, limit=limit + 1)
    found = [
        CacheCounterValue(each.name, database.cache_counter(each.name).stored(), each.chance_to_write)
        for each in listed[:limit]
    ]
    output.document(found)
    if not output.as_json:
        rows = [[each.name, each.stored, f"{each.chance_to_write:g}"] for each in found]
        output.table(["counter", "stored", "chance to write"], rows)
        if not found:
            output.note("no value of a cache-first counter is stored")
    if len(listed) > limit:
        output.note("there are more counters: --limit shows them")


def delete(given: Invocation, name: str | None, cache: str | None, *, yes: bool) -> None:
    """Shows a counter and deletes it, unless the user does not agree."""
    output = given.output
    if name is None:
        raise UsageError("--delete needs the name of a counter")
    if cache is None:
        raise UsageError("--delete of a cache-first counter needs --cache URL: its value there would be stored again")
    check_can_ask(output, "--delete", yes=yes)
    with writing_with_cache(given.db, given.schema, cache) as database:
        show_one(output, database, name, 0.0, cached=True)
        if is_agreed(yes=yes):
            database.cache_counter(name).delete()
            output.text(f"{name} deleted")


def _check_exists(database: Database, name: str) -> CacheCounterEntry:
    found = database.cache_counters(name, limit=1)
    if not found or found[0].name != name:
        raise UsageError(
            "no value of this cache-first counter is stored; `oneread counter --cache-first` lists them", name=name
        )
    return found[0]


def _look(database: Database, entry: CacheCounterEntry, seconds: float, *, cached: bool) -> CacheCounterShown:
    counter = database.cache_counter(entry.name)
    read = counter.read if cached else counter.stored
    before, began = read(), time.monotonic()
    time.sleep(seconds)
    after, elapsed = read(), time.monotonic() - began
    shards = counter.shards()
    stored = max(each.value for each in shards)
    return CacheCounterShown(
        entry.name,
        stored,
        entry.chance_to_write,
        entry.loss.mean,
        entry.loss.most,
        shards,
        max(after, stored) if cached else None,
        max(after - stored, 0) if cached else None,
        round(elapsed, 3) if seconds else 0.0,
        (after - before) / elapsed if seconds else 0.0,
    )
