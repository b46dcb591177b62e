"""`oneread load`: dumps, JSON objects and CSV into a store.

See docs/formats/dumps.md.
"""

from __future__ import annotations

import contextlib
import csv
import functools
from collections.abc import Generator, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple, TypeAlias

import typer

from oneread.cli.failures import FOUND
from oneread.cli.files import STANDARD, lines, opened
from oneread.cli.loading import Make, Numbered, Source, load
from oneread.cli.options import DbOption, JsonOption, QuietOption, SchemaOption, declared, schema_of, writing
from oneread.cli.output import Output
from oneread.database._sync.database import Database
from oneread.derivations.catalog import stored_name
from oneread.errors import Corrupt, InvalidValue, StoreError, UsageError
from oneread.transfer.bulk import BATCH
from oneread.transfer.content import Content, checkpoint_of
from oneread.transfer.dump import Head
from oneread.transfer.load import LINE_BYTES, Dumped, Records, end_of, head_of, verified

Line: TypeAlias = tuple[int, bytes | InvalidValue]
"""A line of a file under its number, or why it was passed over."""

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A dump, JSON lines, or CSV (.csv); compressed as .gz; - for stdin.")
]
ModelOption = Annotated[str, typer.Option("--model", metavar="MODEL", help="Whose entities other files hold.")]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="THEIRS=OURS", help="The field for a column or name; nothing behind = leaves it out."
    ),
]
BatchOption = Annotated[int, typer.Option("--batch", metavar="N", help="Records of one transaction.")]
RejectsOption = Annotated[
    str, typer.Option("--rejects", metavar="FILE", help="Where refused records go. [default: FILE.rejects]")
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on where an earlier load of this file ended.")]
MakeOption = Annotated[bool, typer.Option("--make", help="Make a new store when there is none.")]


def command(  # noqa: PLR0913 - each is an option of its own
    *,
    file: FileArgument,
    model: ModelOption = "",
    names: MapOption = None,
    batch: BatchOption = BATCH,
    rejects: RejectsOption = "",
    resume: ResumeOption = False,
    make: MakeOption = False,
    schema: SchemaOption = "",
    db: DbOption = "",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Loads entities from a file: a dump, JSON objects line by line, or CSV with a header.

    A dump is looked through first, so that nothing of a torn one is loaded. Each batch is one transaction; a load that
    was stopped goes on with --resume. What is refused goes to a file with its line and the reason, and the command ends
    with 1; records that refer to later ones are tried again at the end.

    Example: oneread load customers.csv --model Customer --map CustomerID=number --schema shop.models:shop --db
    lmdb:///var/lib/shop
    """
    output = Output(as_json=as_json, quiet=quiet)
    known = schema_of(schema)
    cls = declared(known, [model])[0] if model else None
    given = _mapped(names or [])
    aside = Path(rejects or (f"{file}.rejects" if file != STANDARD else "stdin.rejects"))
    with writing(db, known, make=make, workers=1) as database, output.progress() as tell, opened(file) as stream:
        source = _read(database, stream, file, cls, given)
        with _resumable():
            found = load(database, source, aside, resume=resume, batch=batch, progress=tell)
    output.document(found)
    output.text(f"{found.stored:,} stored, {found.rejected:,} refused")
    if resume and not found.resumed:
        output.note("no earlier load had got to anywhere in this content: this one began at the first record")
    if found.rejected:
        output.note(f"refused records and reasons are in {aside}")
        raise typer.Exit(FOUND)


@contextlib.contextmanager
def _resumable() -> Generator[None]:
    """Says how to go on where the load did not end by itself."""
    try:
        yield
    except (KeyboardInterrupt, OSError, StoreError) as error:
        error.add_note("what is stored stays stored; the same command with --resume goes on")
        raise


def _mapped(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        theirs, equals, ours = each.partition("=")
        if not theirs or not equals:
            raise UsageError("--map takes THEIRS=OURS", given=each)
        found[theirs] = ours
    return found


class _Records(NamedTuple):
    """A file that is open: what its beginning says, and its records."""

    beginning: list[bytes]
    head: Head | None
    header: list[str] | None
    records: Iterator[Numbered]


def _opened_records(stream: IO[bytes], name: str, content: Content) -> _Records:
    numbered = lines(stream, content)
    first = _peeked(numbered)
    if name.removesuffix(".gz").endswith(".csv"):
        first += _peeked(numbered)
        rows = _rows(chain(first, numbered))
        header = next(rows, None)
        if header is None or isinstance(header[1], InvalidValue):
            raise UsageError("the file has no header", path=name)
        return _Records(_bytes(first), None, header[1], rows)
    head = head_of(line) if first and isinstance(line := first[0][1], bytes) else None
    if head is None:
        return _Records(_bytes(first), None, None, chain(first, numbered))
    second = _peeked(numbered)
    return _Records(_bytes(first + second), head, None, _without_end(chain(second, numbered)))


def _peeked(numbered: Iterator[Line]) -> list[Line]:
    return list(islice(numbered, 1))


def _bytes(numbered: list[Line]) -> list[bytes]:
    return [line if isinstance(line, bytes) else b"" for _number, line in numbered]


def _read(database: Database, stream: IO[bytes], name: str, model: type | None, names: dict[str, str]) -> Source:
    """The records of a file, and what makes changes of them."""
    catalog = database.operations.catalog
    content = Content()
    beginning, head, header, records = _opened_records(stream, name, content)
    if head is None:
        make: Make = Records(catalog, model, names, header).entity
    elif model is not None or names:
        raise UsageError("a dump says itself what it holds; --model and --map are for other files", path=name)
    else:
        make = Dumped(catalog, head).change
        if name != STANDARD:
            with opened(name) as again:
                verified(line + b"\n" for _number, line in lines(again, Content()) if isinstance(line, bytes))
    form = "dump" if head is not None else "objects" if header is None else "csv"
    checkpoint = checkpoint_of(form, stored_name(model) if model is not None else "", names, beginning)
    read_twice = functools.partial(_position_at, name) if name != STANDARD and Path(name).is_file() else None
    return Source(checkpoint, records, make, content, read_twice)


def _position_at(name: str, line: int) -> str:
    """The position of a load that has got to a line of this file; that of its end where it has fewer lines."""
    content = Content()
    with opened(name) as stream:
        for number, _record in _opened_records(stream, name, content).records:
            if number >= line:
                return content.position(number)
    return content.position(0)


def _without_end(numbered: Iterator[Line]) -> Iterator[Numbered]:
    """The lines of a dump without its last; raises Corrupt where that is missing."""
    for number, line in numbered:
        if isinstance(line, bytes) and end_of(line) is not None:
            return
        yield number, line
    raise Corrupt("the dump is torn: its last line is missing; what was there is loaded")


def _rows(numbered: Iterator[Line]) -> Iterator[tuple[int, Any]]:
    """The rows of a CSV file, under the number of the line they end on."""
    csv.field_size_limit(LINE_BYTES)
    refused: list[InvalidValue] = []

    def texts() -> Iterator[str]:
        for number, line in numbered:
            if isinstance(line, InvalidValue):
                refused.append(line)
                continue
            text = line.decode(errors="surrogateescape")
            yield (text.removeprefix("\ufeff") if number == 1 else text) + "\n"

    reader = csv.reader(texts(), strict=True)
    number = 0
    while True:
        row: list[str] | InvalidValue
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row = InvalidValue("this is no row of CSV", reason=str(error))
        number = max(number + 1, reader.line_num)
        while refused:
            yield number, refused.pop()
        if row:
            yield number, row
