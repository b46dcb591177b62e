"""`oneread explain`: what one call would ask of the store, without asking.

See docs/reference/command-line.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from oneread.cli.options import (
    Invocation,
    KeyArgument,
    NumbersOption,
    TimesOption,
    complete_fields,
    complete_names,
    find_declared,
    load_numbers,
    reading,
    with_shared_options,
)
from oneread.connect import connect
from oneread.costs.declared import Explanation
from oneread.database.explaining import Explainer
from oneread.database.patches import check_fields
from oneread.database.typed_keys import WantedType, key_parts, values, whole_key
from oneread.derivations.program_text import ExplainedProgram
from oneread.errors import UsageError

COUNTER_VERBS: Final = ("counter_add", "counter_read")
VERBS: Final = ("get", "page", "save", "create", "get_or_create", "upsert", "patch", "delete", *COUNTER_VERBS)


def _complete_verbs(incomplete: str) -> list[str]:
    return [verb for verb in VERBS if verb.startswith(incomplete)]


VerbArgument = Annotated[
    str, typer.Argument(metavar="VERB", help=f"One of {', '.join(VERBS)}.", autocompletion=_complete_verbs)
]
FieldOption = Annotated[
    list[str],
    typer.Option("--field", metavar="FIELD", help="A field that the patch changes.", autocompletion=complete_fields),
]
ChildrenOption = Annotated[
    int | None, typer.Option("--children", metavar="N", min=0, help="Children that a delete takes along.")
]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A model or a view of the schema, or a counter.", autocompletion=complete_names
    ),
]


ProgramOption = Annotated[
    str,
    typer.Option(
        "--program", metavar="MODEL", help="Instead of a call: what each write of an entity does in the views.",
        autocompletion=complete_names,
    ),
]  # fmt: skip


@with_shared_options
def command(  # noqa: PLR0913 - each option narrows one call
    given: Invocation,
    verb: VerbArgument = "",
    name: NameArgument = "",
    key: KeyArgument = [],  # noqa: B006 - typer makes a list of its own
    *,
    program: ProgramOption = "",
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Rows of a page.")] = None,
    fields: FieldOption = [],  # noqa: B006 - typer makes a list of its own
    carriers: Annotated[int | None, typer.Option("--carriers", min=0, help="Entities that hold a copy.")] = None,
    children: ChildrenOption = None,
    once: Annotated[bool, typer.Option("--once", help="Of counter_add: with a token.")] = False,
    numbers: NumbersOption = "",
    times: TimesOption = False,
) -> None:
    """Shows what a call would ask of the store: requests, keys, ranges, and the most that it costs. Nothing is read.

    Without --db the keys are those of a new store. With --program MODEL it shows what each write of an entity does in
    the views, operation by operation.

    Example: oneread explain page PurchasesOfBuyer 12347 --limit 10 --schema shop.models:shop --times
    """
    _check_call(verb, name, program)
    output, known = given.output, given.schema
    with reading(given.db, known) if given.db else connect("memory://", known, workers=0) as database:
        measured = load_numbers(output, numbers, times=times, span=database.explain.costs.span)
        explain = database.explain if measured is None else database.explain.by(measured)
        found: Explanation | ExplainedProgram
        if program:
            found = explain.program(*find_declared(known, [program]))
        elif verb in COUNTER_VERBS:
            found = _explain_counter(explain, verb, name, key, once=once)
        else:
            (cls,) = find_declared(known, [name])
            parts = _key(cls, verb, key_parts(database.operations.catalog, cls), key)
            if children is not None:
                if verb != "delete":
                    raise UsageError("--children is for delete", verb=verb)
                found = explain.delete(cls, *parts, carriers=carriers, children=children)
            else:
                found = _explain(explain, (verb, cls, parts), limit=limit, fields=fields, carriers=carriers)
    output.document(found)
    for line in str(found).splitlines():
        output.text(line)


def _check_call(verb: str, name: str, program: str) -> None:
    """Raises UsageError unless there is a verb and what it is about, or a model whose program is asked for."""
    if program and verb:
        raise UsageError("--program explains a model, without a call", program=program, verb=verb)
    if program:
        return
    if verb not in VERBS:
        raise UsageError("unknown verb", verb=verb, known=VERBS)
    if not name:
        raise UsageError("what is the call about? oneread explain get Purchase 7", verb=verb)


def _explain_counter(explain: Explainer, verb: str, name: str, key: Sequence[str], *, once: bool) -> Explanation:
    if key:
        raise UsageError("a counter has a name and no key", given=key)
    return explain.counter_add(name, once=once) if verb == "counter_add" else explain.counter_read(name)


def _key(cls: type, verb: str, parts: Sequence[WantedType], words: list[str]) -> tuple[object, ...]:
    if verb == "page":
        return values(cls, parts, words)
    if verb in ("get", "delete") or (verb == "patch" and words):
        return whole_key(cls, parts, words)
    if words:
        raise UsageError("this verb takes an entity, not a key: leave the key out", verb=verb)
    return ()


def _explain(
    explain: Explainer, call: tuple[str, Any, tuple[object, ...]], *, limit: int | None, fields: list[str],
    carriers: int | None,
) -> Explanation:  # fmt: skip
    verb, cls, key = call
    if verb == "get":
        return explain.get(cls, *key)
    if verb == "page":
        return explain.page(cls, *key, limit=limit)
    if verb == "delete":
        return explain.delete(cls, *key, carriers=carriers)
    if verb == "patch":
        check_fields(cls, fields)
        return explain.verb("patch", cls, explain.costs.patch(cls, *fields, carriers=carriers))
    options = {} if verb in ("create", "get_or_create") else {"carriers": carriers}
    return explain.verb(verb, cls, getattr(explain.costs, verb)(cls, **options))
