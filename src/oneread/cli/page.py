"""`oneread page`: a page of a view or of entities.

See docs/reference/command-line.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from oneread.cli.options import Invocation, LimitOption, complete_names, find_declared, reading, with_shared_options
from oneread.cli.records import cost_text, show_all
from oneread.database.record_texts import plain
from oneread.database.typed_keys import WantedType, key_parts, rest_of_key, value, values
from oneread.errors import InvalidQuery
from oneread.plans.trace import Cost

LIMIT = 20

ViewArgument = Annotated[
    str, typer.Argument(metavar="VIEW", help="An index, an aggregate, or a model.", autocompletion=complete_names)
]
EqualArgument = Annotated[
    list[str],
    typer.Argument(metavar="EQUAL", help="Values of the first parts of its key; none for all.", show_default=False),
]
CursorOption = Annotated[str, typer.Option("--cursor", metavar="CURSOR", help="The cursor that another page printed.")]
BackwardOption = Annotated[bool, typer.Option("--backward", help="The last page of the list.")]
SinceOption = Annotated[
    str, typer.Option("--since", metavar="VALUE", help="The next part of the key is at least this.")
]
AfterOption = Annotated[
    str, typer.Option("--after", metavar="VALUE", help="The next part of the key is greater than this.")
]
UntilOption = Annotated[str, typer.Option("--until", metavar="VALUE", help="The next part of the key is below this.")]
ThroughOption = Annotated[
    str, typer.Option("--through", metavar="VALUE", help="The next part of the key is at most this.")
]
StartsOption = Annotated[str, typer.Option("--starts-with", metavar="TEXT", help="The next part begins with this.")]


class Paged(msgspec.Struct, frozen=True):
    """What `page --json` prints.

    Arguments:
        view: the name of its class.
        rows: in the order of the list.
        next: the cursor of the next page; null at the end.
        previous: the cursor of the previous page; null at the start.
        truncated: the page is short because many rows were skipped; `next` continues.
        cost: of the read.
    """

    view: str
    rows: object
    next: str | None
    previous: str | None
    truncated: bool
    cost: Cost


@with_shared_options
def command(  # noqa: PLR0913 - each option narrows one page
    given: Invocation,
    view: ViewArgument,
    equal: EqualArgument = [],  # noqa: B006 - typer makes a list of its own
    *,
    limit: LimitOption = LIMIT,
    cursor: CursorOption = "",
    backward: BackwardOption = False,
    since: SinceOption = "",
    after: AfterOption = "",
    until: UntilOption = "",
    through: ThroughOption = "",
    starts_with: StartsOption = "",
) -> None:
    """Shows a page of a view, of entities by the first parts of their key, or of an aggregate's groups.

    Values are written as for `get`. --since, --after, --until, --through and --starts-with bound the first part of the
    key that is not given; --cursor takes what another page printed, with all other arguments the same.

    Example: oneread page PurchasesOfBuyer 12347 --since 2010-12-07 --schema shop.models:shop --db lmdb://shop
    """
    output = given.output
    (cls,) = find_declared(given.schema, [view])
    with reading(given.db, given.schema) as database:
        parts = key_parts(database.operations.catalog, cls)
        rest = rest_of_key(cls, parts, equal)
        found = database.page(
            cls,
            *values(cls, parts, equal),
            limit=limit,
            cursor=cursor or None,
            backward=backward,
            since=_bound(cls, rest, since),
            after=_bound(cls, rest, after),
            until=_bound(cls, rest, until),
            through=_bound(cls, rest, through),
            starts_with=_prefix(cls, rest, starts_with),
        )
        rows = plain(found.rows)
        output.document(Paged(cls.__name__, rows, found.next, found.previous, found.truncated, found.cost))
        show_all(output, found.rows)
        if not found.rows:
            output.note("no rows")
        for name, way in (("previous", found.previous), ("next", found.next)):
            if way is not None and not output.as_json:
                output.note(f"{name} page: --cursor {way}")
        output.note(cost_text(found.cost))


def _bound(cls: type, rest: Sequence[WantedType], word: str) -> Any:
    return value(cls, _next_part(cls, rest), word) if word else None


def _prefix(cls: type, rest: Sequence[WantedType], word: str) -> str | bytes | None:
    if not word:
        return None
    following = _next_part(cls, rest)
    return value(cls, following, word) if following.type in (str, bytes) else word


def _next_part(cls: type, rest: Sequence[WantedType]) -> WantedType:
    if not rest:
        raise InvalidQuery("every part of the key is given: a bound and --starts-with have nothing to bound", view=cls)
    return rest[0]
