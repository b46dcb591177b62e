"""`oneread erase`: erases one entity with its copies, says what that would do, and lists the receipts.

See docs/how-to/erase-a-person.md.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from oneread.cli.failures import FOUND
from oneread.cli.options import (
    Invocation,
    check_can_ask,
    complete_names,
    find_declared,
    is_agreed,
    reading,
    with_shared_options,
    writing,
)
from oneread.cli.output import Output, counted
from oneread.database._sync.database import Database
from oneread.database.erasures import Erasing, Erasure, KeptBytes
from oneread.database.record_texts import key_text
from oneread.database.typed_keys import key_parts, whole_key
from oneread.errors import UsageError

ErasedModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="The model of the entity.", autocompletion=complete_names)
]
ErasedKeyArgument = Annotated[list[str], typer.Argument(metavar="KEY", help="The parts of its key.")]
PlanOption = Annotated[bool, typer.Option("--plan", help="Say what would be done, and change nothing.")]
ReceiptsOption = Annotated[bool, typer.Option("--receipts", help="List the receipts of what was erased.")]
ProofOption = Annotated[
    list[str], typer.Option("--proof", metavar="TEXT", help="Look for this text in all rows and files. Repeatable.")
]
InOption = Annotated[
    list[str], typer.Option("--in", metavar="FILE", help="With --proof: look in this file too, as a dump. Repeatable.")
]
EraseYesOption = Annotated[bool, typer.Option("--yes", help="Erase without asking.")]


@with_shared_options
def command(
    given: Invocation,
    model: ErasedModelArgument = "",
    key: ErasedKeyArgument = [],  # noqa: B006 - typer makes a list of its own
    *,
    plan: PlanOption = False,
    receipts: ReceiptsOption = False,
    proof: ProofOption = [],  # noqa: B006 - typer makes a list of its own
    files: InOption = [],  # noqa: B006 - typer makes a list of its own
    yes: EraseYesOption = False,
) -> None:
    """Erases one entity: it is deleted without last values, and all copies of it are cleared.

    Whatever refers to it: copies become None or an empty value, holders with on_delete="delete" are erased with it, and
    so are the children of its entity group. A load of an older dump leaves it out from then on. It asks before, without
    a terminal --yes is needed, and there is no way back. Interrupted, it is continued by a worker; exit code 1
    while holders could not follow. What keeps bytes until when is shown last. --proof looks for texts in all rows, in
    the store's file and in those of --in, and ends with 1 where some are left.

    Example: oneread erase Customer 12347 --plan --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    if proof or files:
        if model or plan or receipts or not proof:
            raise UsageError("--proof stands alone, with --in FILE: give texts of what was erased")
        _prove(given, output, [each.encode() for each in proof], files)
        return
    if receipts:
        if model or plan:
            raise UsageError("--receipts lists all: leave the model and --plan out")
        _list(given, output)
        return
    if not model or not key:
        raise UsageError("name the entity: oneread erase MODEL KEY; or --receipts lists what was erased")
    (cls,) = find_declared(given.schema, [model])
    if plan:
        with reading(given.db, given.schema) as database:
            planned = database.plan_erasure(cls, *_key(database, cls, key))
        output.document(planned)
        if not output.as_json:
            _show_plan(output, planned)
        return
    _erase(given, cls, key, yes=yes)


def _key(database: Database, cls: Any, words: list[str]) -> tuple[Any, ...]:
    return whole_key(cls, key_parts(database.operations.catalog, cls), words)


def _erase(given: Invocation, cls: Any, key: list[str], *, yes: bool) -> None:
    output = given.output
    check_can_ask(output, "erase", yes=yes)
    with writing(given.db, given.schema, evolve=False) as database:
        parts = _key(database, cls, key)
        if not yes:
            _show_plan(output, database.plan_erasure(cls, *parts))
        if not is_agreed(yes=yes):
            output.note("nothing was erased")
            return
        done = database.erase(cls, *parts)
    output.document(done)
    if not output.as_json:
        _show(output, done)
    if done.done is None:
        raise typer.Exit(FOUND)


def _prove(given: Invocation, output: Output, wanted: list[bytes], files: list[str]) -> None:
    with reading(given.db, given.schema) as database:
        found = database.left_bytes(*wanted, files=files)
    output.document(found)
    if not found:
        output.text("nothing is left")
        return
    output.table(["in", "of", "rows, or times in a file"], [[each.where, each.what, each.rows] for each in found])
    raise typer.Exit(FOUND)


def _list(given: Invocation, output: Output) -> None:
    with reading(given.db, given.schema) as database:
        found = database.erasures()
    output.document(found)
    headers = ["erased", "begun", "done", "rows", "referred to by", "children"]
    rows = [[_name(each), each.begun, each.done or "no", each.rows, each.holders, each.children] for each in found]
    if found:
        output.table(headers, rows)
    else:
        output.text("nothing was erased in this store")


def _name(receipt: Erasure) -> str:
    return f"{receipt.model}({', '.join(receipt.key)})"


def _show_plan(output: Output, planned: Erasing) -> None:
    output.text(f"{planned.model} {key_text(planned.key)}: {planned.state}")
    output.text(f"  {counted(planned.rows, 'row', 'rows')} of views, groups and references go with it")
    for name, count in planned.holders.items():
        output.text(f"  {counted(count, 'row says', 'rows say')} that a {name} refers to it, which is cleared")
    if planned.children:
        output.text(f"  {counted(planned.children, 'child', 'children')} of its group are erased with it")
    for name in planned.counters:
        output.text(f"  the counter {name} is deleted")
    _show_kept(output, planned.kept)


def _show(output: Output, receipt: Erasure) -> None:
    if receipt.done is None:
        output.text(
            f"{_name(receipt)}: {counted(receipt.waiting, 'holder', 'holders')} could not follow and are set aside"
        )
        output.note("`oneread tasks` shows why; correct that, and erase it again")
    else:
        output.text(
            f"{_name(receipt)} is erased: {counted(receipt.rows, 'row', 'rows')}, "
            f"{counted(receipt.holders, 'row', 'rows')} of those who refer to it, "
            f"{counted(receipt.children, 'child', 'children')}"
        )
    _show_kept(output, receipt.kept)


def _show_kept(output: Output, kept: tuple[KeptBytes, ...]) -> None:
    for each in kept:
        output.text(f"  bytes stay in {each.what}{'' if each.until is None else f' at {each.until:%Y-%m-%d %H:%M}'}")
