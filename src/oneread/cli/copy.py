"""`oneread copy`: one store into another of any kind, and a comparison of both.

See docs/how-to/copy-a-store.md.
"""

from __future__ import annotations

from typing import Annotated

import typer

from oneread.cli import interrupts
from oneread.cli.failures import FOUND
from oneread.cli.load import noting_resume
from oneread.cli.options import JsonOption, QuietOption, SchemaOption, check_exists, schema_of
from oneread.cli.output import Output, counted
from oneread.copying.comparison import ComparedStores
from oneread.copying.copies import compare_stores, copy_store
from oneread.copying.store_copy import CopiedStore
from oneread.transfer.bulk import BATCH

CopySourceArgument = Annotated[str, typer.Argument(metavar="SOURCE", help="The URL of the store that is copied.")]
CopyTargetArgument = Annotated[str, typer.Argument(metavar="TARGET", help="The URL of an empty or a new store.")]
TargetSchemaOption = Annotated[
    str, typer.Option("--target-schema", metavar="MODULE:NAME", help="The target's, with other views or ranges.")
]
CopyBatchOption = Annotated[int, typer.Option("--batch", metavar="N", help="Entities in one transaction.")]
CopyPaceOption = Annotated[float | None, typer.Option("--pace", metavar="N", min=0.001, help="Entities a second.")]
ResumeCopyOption = Annotated[bool, typer.Option("--resume", help="Continue a copy that was stopped.")]
CheckCopyOption = Annotated[bool, typer.Option("--check", help="Only compare both stores; copy nothing.")]
CompareCopyOption = Annotated[bool, typer.Option("--compare/--no-compare", help="Compare both stores after the copy.")]


def command(  # noqa: PLR0913 - a command's options
    source: CopySourceArgument,
    target: CopyTargetArgument,
    *,
    schema: SchemaOption = "",
    target_schema: TargetSchemaOption = "",
    batch: CopyBatchOption = BATCH,
    pace: CopyPaceOption = None,
    resume: ResumeCopyOption = False,
    check: CheckCopyOption = False,
    compare: CompareCopyOption = True,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Copies a store into an empty one, of any kind, while no program writes to either; then compares both.

    Entities keep their versions, stamps and numbers; counters, windows, tokens of adds that count once, marks of feeds
    and what was deleted go along. The target makes its own copies, lists and totals. A copy that was stopped continues
    with --resume. Where both differ, the exit code is 1.

    Example: oneread copy lmdb:///var/lib/shop hbase://thrift1:9090/shop --schema shop.models:shop
    """
    output = Output(as_json=as_json, quiet=quiet)
    one, two = schema_of(schema), schema_of(target_schema) if target_schema else None
    check_exists(source, one)
    if check:
        check_exists(target, two or one)
    interrupts.install()
    compared: ComparedStores | None
    if check:
        with output.progress() as report:
            compared = compare_stores(source, target, one, target_schema=two, progress=report)
        output.document(compared)
    else:
        with output.progress() as report, noting_resume():
            copied = copy_store(
                source, target, one,
                target_schema=two, batch=batch, pace=pace, resume=resume, compare=compare, progress=report,
            )  # fmt: skip
        compared = copied.compared
        _show_copied(output, copied)
    if compared is not None and not _show(output, compared):
        raise typer.Exit(FOUND)


def _show_copied(output: Output, found: CopiedStore) -> None:
    many = [counted(found.entities, "entity", "entities"), counted(found.deleted, "tombstone")]
    many += [counted(found.counters, "counter"), counted(found.tokens, "token")]
    output.document(found)
    output.text(f"copied {', '.join(many[:-1])} and {many[-1]}")
    for each in found.left:
        output.note(f"does not go along: {each}")


def _show(output: Output, found: ComparedStores) -> bool:
    """Shows what was compared; returns whether both are equal."""
    many = f"{counted(found.entities, 'entity', 'entities')} and {counted(found.counters, 'counter')} compared"
    output.text(f"{many}, {found.differ:,} differ")
    for each in found.differences:
        output.text(f"  {each}")
    if found.differ > len(found.differences):
        output.text("  ...")
    return not found.differ
