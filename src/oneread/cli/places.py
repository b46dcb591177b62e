"""`oneread places`: where one entity is shown, and who refers to it.

See docs/reference/command-line.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from oneread.cli.failures import FOUND
from oneread.cli.options import (
    Invocation,
    KeyArgument,
    LimitOption,
    complete_names,
    find_declared,
    reading,
    with_shared_options,
)
from oneread.cli.output import Output
from oneread.cli.page import LIMIT, CursorOption
from oneread.cli.records import cost_text
from oneread.database.places import EntityPlaces, EntityVersions, LeftTask, RawCell, ShownNumber, ShownPlace
from oneread.database.record_texts import key_text, plain
from oneread.database.typed_keys import key_parts, whole_key
from oneread.errors import InvalidQuery
from oneread.plans.progress import Fault
from oneread.plans.trace import Cost

PlacedModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="The model of the entity.", autocompletion=complete_names)
]
CheckRowsOption = Annotated[
    bool, typer.Option("--check", help="Read the rows as well, and say what `verify` would say of each.")
]


class PlacesOfEntity(msgspec.Struct, frozen=True):
    """What `places --json` prints: the fields of `EntityPlaces`, values in keys as `get` prints them, and the cost.

    Arguments:
        cost: of the read.
    """

    model: str
    key: object
    entity: object
    versions: EntityVersions
    cells: tuple[RawCell, ...]
    places: list[object]
    shows: list[object]
    hidden: object
    holders: list[object]
    next: str | None
    checked: bool | None
    faults: tuple[Fault, ...]
    last: object
    tasks: tuple[LeftTask, ...]
    cost: Cost


@with_shared_options
def command(
    given: Invocation,
    model: PlacedModelArgument,
    key: KeyArgument = [],  # noqa: B006 - typer makes a list of its own
    *,
    check: CheckRowsOption = False,
    limit: LimitOption = LIMIT,
    cursor: CursorOption = "",
) -> None:
    """Shows where an entity is shown: every row that follows from it, what changes it, and who refers to it.

    Its row names them all, so that this is one read; a second one is a page of those who refer to it, which --limit
    bounds and --cursor continues. The members of a feed's group are counted up to --limit. With --check the exit code
    is 1 when a row is missing or has another value; `oneread repair` repairs it.

    Of a deleted entity it shows the values that its row keeps for its holders, and what still follows from the delete.

    Example: oneread places Purchase 537626 1 --check --schema shop.models:shop --db lmdb://shop
    """
    output = given.output
    (cls,) = find_declared(given.schema, [model])
    with reading(given.db, given.schema) as database:
        catalog = database.operations.catalog
        if cls not in catalog.kinds:
            raise InvalidQuery("places takes a model; `oneread get` shows a group of an aggregate", view=cls)
        parts = whole_key(cls, key_parts(catalog, cls), key)
        found = database.places(cls, *parts, limit=limit, cursor=cursor or None, check=check)
        cost = database.cost(found)
    output.document(_document(found, cost))
    if not output.as_json:
        _show(output, found)
        output.note(cost_text(cost))
    if found.faults:
        raise typer.Exit(FOUND)


def _document(found: EntityPlaces, cost: Cost) -> PlacesOfEntity:
    same: dict[str, Any] = {
        name: getattr(found, name) for name in ("model", "versions", "cells", "next", "checked", "faults", "tasks")
    }
    listed: dict[str, Any] = {
        name: [_plain_fields(each) for each in getattr(found, name)] for name in ("places", "shows", "holders")
    }
    hidden, last = ({name: plain(value) for name, value in each.items()} for each in (found.hidden, found.last))
    entity = None if found.entity is None else plain(found.entity)
    return PlacesOfEntity(**same, **listed, key=plain(found.key), entity=entity, hidden=hidden, last=last, cost=cost)


def _plain_fields(record: msgspec.Struct) -> dict[str, object]:
    """A place as JSON has it; its fault is among the faults."""
    fields: dict[str, Any] = {name: getattr(record, name) for name in record.__struct_fields__ if name != "fault"}
    for name in ("key", "equal"):
        if name in fields:
            fields[name] = plain(fields[name])
    if "share" in fields:
        share: Mapping[str, object] = fields["share"]
        fields["share"] = {name: plain(value) for name, value in share.items()}
    return fields


def _show(output: Output, found: EntityPlaces) -> None:
    versions = found.versions
    said = [("deleted", versions.deleted), ("expired", versions.expired), ("waits for what follows", versions.waits)]
    output.text(f"{found.model} {key_text(found.key)}{''.join(f', {words}' for words, is_so in said if is_so)}")
    dated: list[tuple[str, int | datetime | None]] = [
        ("own version", versions.own or None),
        ("row version", versions.row),
        ("created", versions.created),
    ]
    for name, value in dated:
        if value is not None:
            output.text(f"  {name} {value}")
    _show_numbers(output, found.shows)
    for kept, values in (("hidden copy", found.hidden), ("last value", found.last)):
        for path, value in values.items():
            output.text(f"  {path}: {kept} {plain(value)!r}")
    _show_tasks(output, found.tasks)
    if found.places:
        output.text()
        headers = ["place", "key", "by", "a change writes", *(["row"] if found.checked is not None else [])]
        output.table(
            headers, [[*_columns(each), each.state or "not compared"][: len(headers)] for each in found.places]
        )
    if found.holders:
        output.text()
        others = [
            [each.model, key_text(each.key), each.kind, ", ".join(each.fields), ", ".join(each.takes)]
            for each in found.holders
        ]
        output.table(["referred to by", "key", "by", "field", "takes"], others)
    for fault in found.faults:
        output.text(f"{fault.kind}: {fault.text}")
    if found.checked is False:
        output.note("nothing was compared: the entity is being changed, or what follows from it is still to be written")
    if found.next is not None:
        output.note(f"next page of those who refer to it: --cursor {found.next}")


def _show_numbers(output: Output, numbers: Iterable[ShownNumber]) -> None:
    for number in numbers:
        last = "" if number.last is None else f", the last is {number.last:,}"
        of = f" of {key_text(number.key)}" if number.key else ""
        output.text(f"  {number.field or 'children'}: {number.kind} {number.name}{of}{last}")


def _show_tasks(output: Output, tasks: tuple[LeftTask, ...]) -> None:
    """What still follows from a delete."""
    if tasks:
        output.text()
        rows = [[each.kind, each.of, each.done, "" if each.since is None else each.since, each.error] for each in tasks]
        output.table(["still follows", "of", "done", "since", "error"], rows)


def _columns(place: ShownPlace) -> list[Any]:
    """The view, the key, what the row is, and what a change of which fields writes."""
    by: str = place.kind
    if place.share:
        by += f" of {_joined(f'{name} {plain(value)}' for name, value in place.share.items())}"
    if place.kind in ("back-reference", "hold"):
        by += f" by {place.field}" if place.field else ""
    elif place.field:
        by += f", each({place.field})"
    if place.members is not None:
        by += f" of {place.members:,}{'+' if place.more_members else ''} members"
    follow = f"; up to {place.follow:,} follow" if place.follow else ""
    changes = _joined(f"{name} {count}" for name, count in place.changes.items())
    return [place.view, key_text(place.key), by, f"{changes}{follow}" if changes else ""]


def _joined(words: Iterable[str]) -> str:
    return ", ".join(words)
