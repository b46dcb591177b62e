"""The options that every command has, and what they open.

See the page of the command line in the reference. The conventions, for every command:

- `--schema package.module:name` says where the schema is declared; the current folder can be imported from. `--db URL`
  says which store. Both may stand in the environment instead: ONEREAD_SCHEMA, ONEREAD_DB.
- `--json`: exactly one JSON document on stdout, or JSON lines where a command streams; a failure is such a document,
  too. Progress and notes go to stderr.
- `--quiet`: no progress and no notes.
- What is wrong with the command line is a UsageError, told by `failures`: one line, a hint, exit code 2.
- Who only looks opens the store with `reading`, which never writes a byte, not even the schema. Who writes opens it
  with `writing`, which makes no store where none is, unless told to.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import typer

from oneread.cli.failures import JSON
from oneread.connect import connect, migration
from oneread.database._sync.database import Database
from oneread.database.migration import Migration
from oneread.derivations.catalog import stored_name
from oneread.errors import InvalidDeclaration, InvalidUrl, OnereadError, UsageError
from oneread.evolution.schema import Schema


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

SUBCOMMANDS: Final[dict[str, Any]] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "no_args_is_help": True,
}
"""How a command with subcommands makes its `typer.Typer`."""

_LIBRARY: Final = f"{Path(__file__).parents[1]}/"

DATA: Final = "data.mdb"
"""The file of a store, and of an unfinished copy, in its folder."""

READ_ONLY: Final = "read_only"
"""The option of URLs whose stores can be opened without being written to."""


def schema_of(spec: str) -> Schema:
    """The schema that `package.module:name` names; the name may be left out where a module has one schema.

    Raises:
        UsageError: nothing was given, the module cannot be imported, or there is no schema of that name.
    """
    name, _, attribute = spec.partition(":")
    if not name:
        raise UsageError("say where the schema is declared: --schema package.module:name, or ONEREAD_SCHEMA")
    module = _imported(name)
    schemas = {key: value for key, value in vars(module).items() if isinstance(value, Schema)}
    if not attribute:
        if len(schemas) != 1:
            raise UsageError(
                "say which schema of this module: --schema package.module:name", module=name, schemas=sorted(schemas)
            )
        return next(iter(schemas.values()))
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError(
                "the module has nothing of this name", module=name, name=attribute, schemas=sorted(schemas)
            )
        found = getattr(found, part)
    if not isinstance(found, Schema):
        kind = found if isinstance(found, type) else type(found)
        raise UsageError("this is no Schema(...)", module=name, name=attribute, found=kind, schemas=sorted(schemas))
    return found


def _imported(name: str) -> ModuleType:
    """The module of this name; whatever its import raises is told with the line it was raised at."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if name.endswith(".py") or "/" in name:
        raise UsageError(
            "a schema is named by its module, not by its file", given=name, perhaps=_module_of(name), folder=here
        )
    _refuse_absent(name, here)
    try:
        return import_module(name)
    except InvalidDeclaration as error:
        raise InvalidDeclaration(error.message, **{"module": name, **error.facts}) from error
    except (Exception, SystemExit) as error:
        raise UsageError(
            "importing the module of the schema failed", module=name, at=_line_of(error), error=_said(error)
        ) from error


def _refuse_absent(name: str, folder: str) -> None:
    """Raises UsageError for the first part of a dotted name that is not there, apart from failures inside of it."""
    parts = name.split(".")
    for place in range(len(parts)):
        part = ".".join(parts[: place + 1])
        try:
            there = find_spec(part) is not None
        except (ImportError, ValueError):
            there = False
        except (Exception, SystemExit) as error:
            raise UsageError(
                "importing the module of the schema failed", module=name, at=_line_of(error), error=_said(error)
            ) from error
        if not there:
            raise UsageError("there is no module of this name, here or installed", module=part, folder=folder)


def _module_of(path: str) -> str:
    return path.removesuffix(".py").strip("./").replace("/", ".")


def _line_of(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith("<frozen")]
    if isinstance(error, OnereadError):  # raised in here; asked for by a line of theirs
        frames = [each for each in frames if not each.filename.startswith(_LIBRARY)] or frames
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def reading(db: str, schema: Schema) -> Database:
    """Opens a store to look at it; nothing is written, and no worker runs.

    Raises:
        InvalidUrl, SchemaMismatch, StoreError: as `connect`.
    """
    return connect(_with_read_only(_url(db)), schema, workers=0)


def writing(db: str, schema: Schema, *, make: bool = False, evolve: bool = True, workers: int = 0) -> Database:
    """Opens a store to change it.

    Arguments:
        db: its URL.
        schema: the declarations.
        make: whether a new store is made where none is.
        evolve: whether the store takes over what the schema adds or changes, as it does for every program; who only
            mends must not cut off programs with the older schema by the way.
        workers: threads that do the tasks of the outbox.

    Raises:
        InvalidUrl: as `connect`; and no store is there and none shall be made.
        SchemaMismatch, StoreError: as `connect`; and the schema differs from the store's and must not.
    """
    url = _url(db)
    if not make:
        _refuse_new(url)
    if not evolve:
        reading(url, schema).close()
    return connect(url, schema, workers=workers)


def looking(db: str, schema: Schema) -> Migration:
    """Opens a store beside a schema that may differ, to look at what would change.

    Raises:
        InvalidUrl, StoreError: as `connect`.
    """
    return migration(_with_read_only(_url(db)), schema)


def changing(db: str, schema: Schema) -> Migration:
    """Opens a store that is there beside a schema that may differ, to change it.

    Raises:
        InvalidUrl: as `connect`; and no store is there.
        StoreError: as `connect`.
    """
    url = _url(db)
    _refuse_new(url)
    return migration(url, schema)


def _url(db: str) -> str:
    if not db:
        raise UsageError("say which store: --db lmdb:///var/lib/shop, or ONEREAD_DB")
    if "://" not in db:
        path = db.removeprefix("lmdb:")
        raise InvalidUrl("a store is named by a URL, not by a path", given=db, perhaps=f"lmdb://{path}")
    return db


def folder_of(url: str) -> Path | None:
    """The folder of a store that lies in one."""
    parts = urlsplit(url)
    return Path(unquote(parts.netloc + parts.path)) if parts.scheme == "lmdb" else None


def _refuse_new(url: str) -> None:
    """A store that is to be changed is there already: a wrong path must not leave an empty store behind."""
    path = folder_of(url)
    if path is not None and not (path / DATA).exists():
        raise InvalidUrl("no store is there; correct the path", path=str(path))


def _with_read_only(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "lmdb":
        return url
    given = parse_qsl(parts.query, keep_blank_values=True)
    if any(name == READ_ONLY for name, _value in given):
        return url
    return parts._replace(query=urlencode([*given, (READ_ONLY, "true")])).geturl()


def declared(schema: Schema, names: Sequence[str]) -> list[Any]:
    """Models and views by the name of their class, or the one they have in the store.

    Raises:
        UsageError: the schema has no such class.
    """
    by_name: dict[str, Any] = {stored_name(each): each for each in schema.models}
    by_name |= {stored_name(each): each for each in schema.views} | schema.named()
    unknown = [name for name in names if name not in by_name]
    if unknown:
        near = get_close_matches(unknown[0], by_name, n=1)
        perhaps = {"perhaps": near[0]} if near else {"known": sorted(schema.named())}
        raise UsageError("the schema has no model or view of this name", name=unknown[0], **perhaps)
    return [by_name[name] for name in names]


def completed(context: typer.Context, incomplete: str) -> list[str]:
    """Names of models and views for shell completion; none when the schema is not given or cannot be imported."""
    spec = context.params.get("schema")
    try:
        known = schema_of(str(spec)) if spec else None
    except OnereadError:
        known = None
    return [] if known is None else [name for name in sorted(known.named()) if name.startswith(incomplete)]
