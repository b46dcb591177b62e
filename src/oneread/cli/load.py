"""`oneread load`: a dump, JSON objects or CSV into a store. The forms of files are here, the loop is in `loading`.

See docs/formats/dumps.md.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, Annotated, NamedTuple

import typer

from oneread.cli.csv_rows import csv_rows
from oneread.cli.failures import FOUND
from oneread.cli.files import STANDARD, NumberedLine, lines, open_file, share_read
from oneread.cli.loading import LoadJob, Make, Numbered, Unreadable, load
from oneread.cli.options import Invocation, find_declared, with_shared_options, writing
from oneread.database._sync.database import Database
from oneread.errors import Corrupt, InvalidValue, StoreError, UsageError
from oneread.models.model import stored_name
from oneread.transfer.bulk import BATCH
from oneread.transfer.content import Content, checkpoint_of
from oneread.transfer.dump import Head
from oneread.transfer.load import LINE_BYTES, DumpReader, RecordReader, check_dump, parse_end, parse_head

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A dump, JSON lines, or CSV (.csv); compressed as .gz; - for stdin.")
]
ModelOption = Annotated[
    str, typer.Option("--model", metavar="MODEL", help="The model of the records; a dump names it itself.")
]
MapOption = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="THEIRS=OURS", help="The field for a column or name; THEIRS= skips it."),
]
BatchOption = Annotated[int, typer.Option("--batch", metavar="N", help="Records in one transaction.")]
RejectsOption = Annotated[
    str, typer.Option("--rejects", metavar="FILE", help="Where refused records go. [default: FILE.rejects]")
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue where an earlier load of this file ended.")]
MakeOption = Annotated[bool, typer.Option("--make", help="Make a new store where none exists.")]


@with_shared_options
def command(
    given: Invocation,
    *,
    file: FileArgument,
    model: ModelOption = "",
    names: MapOption = None,
    batch: BatchOption = BATCH,
    rejects: RejectsOption = "",
    resume: ResumeOption = False,
    make: MakeOption = False,
) -> None:
    """Loads entities from a file: a dump, JSON objects line by line, or CSV with a header.

    A dump is checked first, so that nothing of an incomplete one is loaded. Each batch is one transaction; a load that
    was stopped continues with --resume. Refused records go to a file with line and reason, and the exit code is 1;
    records that refer to later ones are retried at the end.

    Example: oneread load customers.csv --model Customer --map CustomerID=number --schema shop.models:shop --db
    lmdb:///var/lib/shop
    """
    output = given.output
    cls = find_declared(given.schema, [model])[0] if model else None
    renamed = _parse_map(names or [])
    aside = Path(rejects or (f"{file}.rejects" if file != STANDARD else "stdin.rejects"))
    store = writing(given.db, given.schema, make=make, workers=1)
    with store as database, output.progress() as report, open_file(file) as stream:
        job = _job(database, stream, (file, cls, renamed), aside)
        with noting_resume():
            found = load(database, job, resume=resume, batch=batch, progress=report)
    output.document(found)
    erased = f", {found.erased:,} left out that were erased here" if found.erased else ""
    output.text(f"{found.stored:,} stored, {found.refused:,} refused{erased}")
    if resume and not found.resumed:
        output.note("found no earlier load of this content: started at the first record")
    if found.refused:
        output.note(f"refused records and reasons are in {aside}")
        raise typer.Exit(FOUND)


@contextlib.contextmanager
def noting_resume(kept: str = "stored records are kept") -> Generator[None]:
    """Notes on an error how to resume the load, or other work."""
    try:
        yield
    except (KeyboardInterrupt, OSError, StoreError) as error:
        error.add_note(f"{kept}; continue with the same command and --resume")
        raise


def _parse_map(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        theirs, equals, ours = each.partition("=")
        if not theirs or not equals:
            raise UsageError("--map takes THEIRS=OURS", given=each)
        found[theirs] = ours
    return found


class _FileRecords(NamedTuple):
    """An open file: its first lines, the head of a dump or of CSV, and its records."""

    beginning: list[bytes]
    head: Head | None
    header: list[str] | None
    records: Iterator[Numbered]


def _read_form(stream: IO[bytes], name: str, content: Content) -> _FileRecords:
    numbered = lines(stream, content)
    first = _take_first(numbered)
    if name.lower().removesuffix(".gz").endswith(".csv"):
        first += _take_first(numbered)
        rows = csv_rows(chain(first, numbered))
        header = next((row for _number, row in rows), None)
        if not isinstance(header, list):
            why = {} if header is None else {"reason": str(header.error)}
            raise UsageError("the CSV file has no header", path=name, **why)
        return _FileRecords(_bytes(first), None, header, rows)
    head = parse_head(line) if first and isinstance(line := first[0][1], bytes) else None
    if head is None:
        records = _records(chain(first, numbered))
        found = next(records, None)
        if found is None:
            raise UsageError("the file has no records; nothing was loaded", path=name)
        return _FileRecords(_bytes(first), None, None, chain([found], records))
    second = _take_first(numbered)
    return _FileRecords(_bytes(first + second), head, None, _records(_strip_end(chain(second, numbered))))


def _records(numbered: Iterator[NumberedLine]) -> Iterator[Numbered]:
    """Each line that is not blank as a record."""
    for number, line in numbered:
        if not isinstance(line, bytes):
            yield number, Unreadable(InvalidValue("the line is too long", limit=LINE_BYTES))
        elif line.strip():
            yield number, line


def _take_first(numbered: Iterator[NumberedLine]) -> list[NumberedLine]:
    return list(islice(numbered, 1))


def _bytes(numbered: list[NumberedLine]) -> list[bytes]:
    return [line if isinstance(line, bytes) else b"" for _number, line in numbered]


def _job(
    database: Database, stream: IO[bytes], given: tuple[str, type | None, dict[str, str]], rejects: Path
) -> LoadJob:
    """The records of a file, and what converts them; given are its name, --model and --map."""
    name, model, names = given
    catalog = database.operations.catalog
    content = Content()
    beginning, head, header, records = _read_form(stream, name, content)
    if head is None:
        make: Make = RecordReader(catalog, model, names, header).entity
    elif model is not None or names:
        raise UsageError("a dump names its models: --model and --map are for other files", path=name)
    else:
        make = DumpReader(catalog, head).change
        if name != STANDARD:
            with open_file(name) as again:
                check_dump(line + b"\n" for _number, line in lines(again, Content()) if isinstance(line, bytes))
    form = "dump" if head is not None else "objects" if header is None else "csv"
    checkpoint = checkpoint_of(form, stored_name(model) if model is not None else "", names, beginning)
    read_twice = functools.partial(_position_at, name) if name != STANDARD and Path(name).is_file() else None
    share = functools.partial(share_read, stream)
    return LoadJob(checkpoint, records, make, content, rejects, read_twice, share)


def _position_at(name: str, line: int) -> str:
    """The position after a line of this file; that of its end where it has fewer lines."""
    content = Content()
    with open_file(name) as stream:
        for number, _record in _read_form(stream, name, content).records:
            if number >= line:
                return content.position(number)
    return content.position(0)


def _strip_end(numbered: Iterator[NumberedLine]) -> Iterator[NumberedLine]:
    """The lines of a dump without the last; raises Corrupt where that is missing."""
    for number, line in numbered:
        if isinstance(line, bytes) and parse_end(line) is not None:
            return
        yield number, line
    raise Corrupt("the dump is incomplete: its last line is missing; the lines before were loaded")
