"""`oneread get`: one entity, or one group of an aggregate.

Knows the verb `get`. Must not know engines. The law is the page of the command line in the reference.
"""

from __future__ import annotations

from typing import Annotated

import typer

from oneread.cli.options import DbOption, JsonOption, QuietOption, SchemaOption, completed, declared, reading, schema_of
from oneread.cli.output import Output

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model, an aggregate, or a unique index.", autocompletion=completed)
]
Keys = Annotated[list[str], typer.Argument(metavar="KEY...", help="The parts of its key, in the order declared.")]


def command(
    model: Model,
    key: Keys,
    *,
    schema: SchemaOption = "",
    db: DbOption = "",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Shows one entity, or one group of an aggregate, and what reading it cost.

    oneread get Purchase 537626 1 --schema shop.models:shop --db lmdb://shop
    """
    output = Output(as_json=as_json, quiet=quiet)
    known = schema_of(schema)
    (cls,) = declared(known, [model])
    with reading(db, known) as database:
        output.document(database.get(cls, *key))
