"""The options that several commands share, and how commands open the schema and the store.

A command that only reads opens the store with `reading`, which never writes a byte, not even the schema; a command that
writes opens it with `writing`, which makes a new store only with `make`. A wrong command line is a UsageError. See
docs/reference/command-line.md.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, TypeVar

import typer

from oneread.cli import interrupts
from oneread.cli.failures import JSON
from oneread.cli.output import Output
from oneread.connect import SCHEMES, connect, migration
from oneread.costs.bounds import Span
from oneread.costs.numbers import MachineNumbers, read_numbers
from oneread.database._sync.database import Database
from oneread.database.migration import Migration
from oneread.errors import CostlyDeclaration, InvalidDeclaration, InvalidUrl, OnereadError, UsageError, perhaps
from oneread.evolution.schema import Schema
from oneread.models.model import stored_name
from oneread.plans.trace import Observer
from oneread.store.urls import redact, split_url, with_read_only

T = TypeVar("T")


def complete_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of models and views for shell completion; none when the schema is not given or cannot be imported."""
    known = _known_schema(context)
    return [] if known is None else [name for name in sorted(known.named()) if name.startswith(incomplete)]


def complete_fields(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the fields of the model that the command line names, for shell completion."""
    known = _known_schema(context)
    named = {} if known is None else known.named()
    # an option that still lacks its value ends the parsing, so that arguments are left in `args`
    declared = next((named[word] for word in (context.params.get("name"), *context.args) if word in named), None)
    return [field for field in getattr(declared, "__struct_fields__", ()) if field.startswith(incomplete)]


def _known_schema(context: typer.Context) -> Schema | None:
    """The schema of a command line that is being completed; None where it is not given or cannot be imported."""
    spec = context.params.get("schema")
    try:
        return schema_of(str(spec)) if spec else None
    except OnereadError:
        return None


def _note_json(context: typer.Context, wanted: bool) -> bool:  # noqa: FBT001 - an option's callback is given its value
    context.meta[JSON] = wanted
    return wanted


SchemaOption = Annotated[
    str,
    typer.Option(
        "--schema",
        envvar="ONEREAD_SCHEMA",
        metavar="MODULE:NAME",
        help="Where the schema is declared, as in shop.models:shop.",
    ),
]
DbOption = Annotated[
    str, typer.Option("--db", envvar="ONEREAD_DB", metavar="URL", help="The store, as in lmdb:///var/lib/shop.")
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", callback=_note_json, is_eager=True, help="Print JSON for programs instead of text."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show neither progress nor notes.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="The most rows to show.")]
PaceOption = Annotated[
    float | None,
    typer.Option("--pace", metavar="ROWS", min=0.001, help="Rows a second at most, so that a busy store stays fast."),
]
NumbersOption = Annotated[
    str, typer.Option("--numbers", metavar="FILE", help="Predict times by numbers measured before.")
]
TimesOption = Annotated[bool, typer.Option("--times", help="Predict times by the newest numbers of `oneread numbers`.")]
SpanOption = Annotated[
    str, typer.Option("--span", metavar="rows|row", help="What the store changes at once: rows, or one row.")
]

NamesArgument = Annotated[
    list[str],
    typer.Argument(metavar="NAME", help="Models and views; everything by default.", autocompletion=complete_names),
]
KeyArgument = Annotated[
    list[str], typer.Argument(metavar="KEY", help="The parts of its key, in the order declared.", show_default=False)
]

SUBCOMMANDS: Final[dict[str, Any]] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "no_args_is_help": True,
}
"""The arguments of `typer.Typer` for a command with subcommands."""


class Invocation:
    """What nearly every command is given: the schema, the store, and how to print."""

    def __init__(
        self, *, schema: SchemaOption = "", db: DbOption = "", as_json: JsonOption = False, quiet: QuietOption = False
    ) -> None:
        self.output = Output(as_json=as_json, quiet=quiet)
        self.db = db
        self._spec = schema

    @functools.cached_property
    def schema(self) -> Schema:
        """The schema, which is imported when it is first asked for."""
        return schema_of(self._spec)


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Passes a command an `Invocation` as its first argument; typer sees the options of that behind its own."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    shared = inspect.signature(Invocation, eval_str=True).parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(Invocation(**{name: given.pop(name) for name in shared}), **given)

    run.__signature__ = inspect.Signature([*own, *shared.values()])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


_LIBRARY: Final = f"{Path(__file__).parents[1]}/"

DATA: Final = "data.mdb"
"""The file of a store, and of an unfinished copy, in its folder."""

_IN_MEMORY: Final = "memory:"
"""Begins the URL of a store that ends with the command: there is none to be kept."""


def schema_of(spec: str) -> Schema:
    """Imports the schema `package.module:name`; the name may be left out where a module has one schema.

    Raises:
        UsageError: the spec is empty, the module cannot be imported, or it has no schema of that name.
    """
    name, _, attribute = spec.partition(":")
    if not name:
        raise UsageError("no schema was given: use --schema package.module:name, or ONEREAD_SCHEMA")
    module = import_named(name)
    schemas = {key: value for key, value in vars(module).items() if isinstance(value, Schema)}
    if not attribute:
        if len(schemas) != 1:
            raise UsageError(
                "the module does not have exactly one schema: use --schema package.module:name",
                module=name,
                schemas=sorted(schemas),
            )
        return next(iter(schemas.values()))
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError(
                "the module has no attribute of this name", module=name, name=attribute, schemas=sorted(schemas)
            )
        found = getattr(found, part)
    if not isinstance(found, Schema):
        kind = found if isinstance(found, type) else type(found)
        raise UsageError("this is not a Schema(...)", module=name, name=attribute, found=kind, schemas=sorted(schemas))
    return found


def import_named(name: str) -> ModuleType:
    """Imports a module; an exception in it becomes a UsageError with the line that raised it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if name.endswith(".py") or "/" in name:
        perhaps = name.removesuffix(".py").strip("./").replace("/", ".")
        raise UsageError("a module is named with dots, not by its file", given=name, perhaps=perhaps, folder=here)
    _check_module(name, here)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CostlyDeclaration)  # `oneread cost` and `migrate plan` show them
            return import_module(name)
    except InvalidDeclaration as error:
        raise InvalidDeclaration(error.message, **{"module": name, **error.facts}) from error
    except (Exception, SystemExit) as error:
        raise _import_failure(name, error) from error


def _import_failure(name: str, error: BaseException) -> UsageError:
    reason = f"{type(error).__name__}: {error}"
    return UsageError("importing this module failed", module=name, at=_line_of(error), error=reason)


def _check_module(name: str, folder: str) -> None:
    """Raises UsageError for the first part of a dotted name that does not exist, or that fails to import."""
    parts = name.split(".")
    for place in range(len(parts)):
        part = ".".join(parts[: place + 1])
        try:
            exists = find_spec(part) is not None
        except (ImportError, ValueError):
            exists = False
        except (Exception, SystemExit) as error:
            raise _import_failure(name, error) from error
        if not exists:
            raise UsageError("no module of this name is installed or in the current folder", module=part, folder=folder)


def _line_of(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith("<frozen")]
    if isinstance(error, OnereadError):  # raised in the library: show the caller's line
        frames = [each for each in frames if not each.filename.startswith(_LIBRARY)] or frames
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def reading(db: str, schema: Schema, cache: str | None = None, observers: tuple[Observer, ...] = ()) -> Database:
    """Opens a store for reading; nothing is written, and no worker runs.

    Raises:
        InvalidUrl, SchemaMismatch, StoreError: as `connect`.
    """
    return _opened(connect(reading_url(db), schema, workers=0, cache=cache, observers=observers))


def reading_url(db: str) -> str:
    """The URL by which a store is opened for reading. Raises InvalidUrl where it is not one."""
    return _with_read_only(_url(db))


def writing(db: str, schema: Schema, *, make: bool = False, evolve: bool = True, workers: int = 0) -> Database:
    """Opens a store for writing; only with `make` is a new one made.

    With `evolve` the store adopts what the schema adds or changes, as for every program. `repair` must not: that may
    fence programs with the older schema.

    Raises:
        InvalidUrl: as `connect`; or the store does not exist.
        SchemaMismatch, StoreError: as `connect`; or the schema differs from the store's.
    """
    url = _url(db)
    if not make:
        check_exists(url, schema)
    if not evolve:
        reading(url, schema).close()
    return _opened(connect(url, schema, workers=workers))


def writing_url(db: str, schema: Schema) -> str:
    """The URL by which a store that exists, and whose schema this is, is opened for writing.

    Raises:
        InvalidUrl, SchemaMismatch, StoreError: as `writing`.
    """
    url = _url(db)
    check_exists(url, schema)
    reading(url, schema).close()
    return url


def writing_with_cache(db: str, schema: Schema, cache: str) -> Database:
    """Opens a store that exists, and whose schema this is, for writing, with a cache beside it.

    Raises:
        InvalidUrl: as `connect`; or the store does not exist.
        SchemaMismatch, StoreError: as `connect`; or the schema differs from the store's.
    """
    return _opened(connect(writing_url(db, schema), schema, workers=0, cache=cache))


def comparing(db: str, schema: Schema) -> Migration:
    """Opens a store with a schema that may differ, to show what would change.

    Raises:
        InvalidUrl, StoreError: as `connect`.
    """
    return _opened(migration(reading_url(db), schema))


def evolving(db: str, schema: Schema) -> Migration:
    """Opens an existing store with a schema that may differ, to change the store's schema.

    Raises:
        InvalidUrl: as `connect`; or the store does not exist.
        StoreError: as `connect`.
    """
    url = _url(db)
    check_exists(url, schema)
    return _opened(migration(url, schema))


def _opened(store: T) -> T:
    """From here on a Ctrl-C is an exception, by which the command closes its store."""
    interrupts.install()
    return store


def _url(db: str) -> str:
    if not db:
        raise UsageError("no store was given: use --db lmdb:///var/lib/shop, or ONEREAD_DB")
    if "://" not in db:
        given = redact(db)
        path = db.removeprefix("lmdb:")
        near = {"perhaps": f"lmdb://{path}"} if given == db and ":" not in path else {}
        raise InvalidUrl("a store is named by a URL, not by a path", given=given, **near)
    return db


def folder_of(url: str) -> Path | None:
    """The folder of a store that is in one."""
    parts = split_url(url, SCHEMES)
    return Path(parts.place) if parts.scheme == "lmdb" else None


TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0.001, help="The longest that all of it may take."),
]


def refuse_nan(seconds: float) -> float:
    """Refuses NaN, which an option's range lets pass; a callback of options."""
    if math.isnan(seconds):
        raise typer.BadParameter("it is not a number of seconds")
    return seconds


def check_can_ask(output: Output, option: str, *, yes: bool) -> None:
    """Raises UsageError for an option that deletes where no terminal can be asked, unless the user has agreed."""
    if not yes and (output.as_json or not sys.stdin.isatty()):
        raise UsageError(f"{option} asks before it deletes, and there is no terminal to ask; give --yes as well")


def is_agreed(*, yes: bool) -> bool:
    """Whether the user agrees to a deletion, or has agreed before; raises KeyboardInterrupt for a Ctrl-C or Ctrl-D."""
    try:
        return yes or typer.confirm("delete? there is no way back", default=False, err=True)
    except typer.Abort as left:
        raise KeyboardInterrupt from left


def check_exists(url: str, schema: Schema) -> None:
    """Raises InvalidUrl where the store does not exist: a wrong path must not leave an empty store."""
    url = _url(url)
    path = folder_of(url)
    if path is None:
        if not url.startswith(_IN_MEMORY):
            migration(_with_read_only(url), schema).close()
    elif not (path / DATA).exists():
        raise InvalidUrl("the store does not exist: correct the path", path=str(path))


def _with_read_only(url: str) -> str:
    return url if url.startswith(_IN_MEMORY) else with_read_only(url, SCHEMES)


def find_declared(schema: Schema, names: Sequence[str]) -> list[Any]:
    """Looks up models and views by the name of their class, or their name in the store.

    Raises:
        UsageError: the schema has no class of this name.
    """
    by_name: dict[str, Any] = {stored_name(each): each for each in schema.models}
    by_name |= {stored_name(each): each for each in schema.views} | schema.named()
    unknown = [name for name in names if name not in by_name]
    if unknown:
        near = perhaps(unknown[0], by_name) or {"known": sorted(schema.named())}
        raise UsageError("the schema has no model or view of this name", name=unknown[0], **near)
    return [by_name[name] for name in names]


def default_numbers_file() -> Path:
    """Where measured numbers are kept when no file is named: in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "oneread" / "numbers.json"


def load_numbers(output: Output, file: str, *, times: bool, span: Span) -> MachineNumbers | None:
    """Reads the numbers of --numbers or --times, if one was given; notes why they may not apply."""
    if not file and not times:
        return None
    found = read_numbers(file or default_numbers_file())
    for difference in found.mismatches(span):
        output.note(f"the numbers were measured elsewhere: {difference}")
    return found
