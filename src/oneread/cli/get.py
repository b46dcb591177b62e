"""`oneread get`: one entity, one group of an aggregate, or one row of a unique index.

See docs/reference/command-line.md.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from oneread.cli.options import Invocation, KeyArgument, complete_names, find_declared, reading, with_shared_options
from oneread.cli.records import cost_text, show_one
from oneread.database.record_texts import plain
from oneread.database.typed_keys import key_parts, whole_key
from oneread.errors import InvalidQuery
from oneread.models.model import Model
from oneread.plans.trace import Cost

ModelArgument = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A model, an aggregate, or a unique index.", autocompletion=complete_names),
]


class Got(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `get --json` prints.

    Arguments:
        model: the name of its class.
        entity: the entity or view row.
        version: of an entity: milliseconds since 1970.
        cost: of the read.
    """

    model: str
    entity: object
    cost: Cost
    version: int | None = None


@with_shared_options
def command(
    given: Invocation,
    model: ModelArgument,
    key: KeyArgument = [],  # noqa: B006 - typer makes a list of its own
) -> None:
    """Shows one entity, one group of an aggregate, or one row of a unique index, and what reading it cost.

    Values are written as the field is declared: 12, 2.55, true, 2010-12-07T08:26:00Z, bytes in hexadecimal, a
    reference by the parts of its key. Put -- before a value that begins with -.

    Example: oneread get Purchase 537626 1 --schema shop.models:shop --db lmdb://shop
    """
    output = given.output
    (cls,) = find_declared(given.schema, [model])
    with reading(given.db, given.schema) as database:
        view = database.operations.catalog.views.get(cls)
        if view is not None and not view.can_find:
            raise InvalidQuery("get needs a unique index; `oneread page` shows this one", view=cls)
        parts = whole_key(cls, key_parts(database.operations.catalog, cls), key)
        entity = database.get(cls, *parts)
        cost = database.cost(entity)
        version = database.version(entity) if isinstance(entity, Model) else None
        output.document(Got(cls.__name__, plain(entity), cost, version))
        if not output.as_json:
            show_one(output, entity)
        output.note(cost_text(cost))
