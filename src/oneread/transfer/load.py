"""Loading: the lines of dumps, and records that others wrote, as changes.

A line of a dump is restored as it stood; a record of others is saved as if a program had given it. See
docs/formats/dumps.md.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.catalog import Catalog, stored_name
from oneread.derivations.emitted_record import LAST_VALUES, Record
from oneread.errors import Corrupt, InvalidValue, OnereadError, SchemaMismatch, UsageError
from oneread.models.shadow import revive
from oneread.transactions.commit import Change
from oneread.transfer.dump import FORMAT, End, Head
from oneread.transfer.forms import ColumnForm, document_entity, key_type
from oneread.transfer.restore import NO_COPIES, DumpedCopies, RestoreEntity, RestoreTombstone

LINE_BYTES: Final = 16 << 20
"""The longest line that is read; a longer one is refused as a whole."""

LoadedRow: TypeAlias = "list[str]"
"""The cells of one record of a CSV file."""

_HEAD_BEGINS: Final = b'{"oneread":'
_JSON_BEGINS: Final = ('"', "[", "{")


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """One entity or tombstone of a dump."""

    model: str
    version: int = 0
    entity: msgspec.Raw = msgspec.Raw()
    document: str = ""
    held: tuple[str, ...] = ()
    used: str = ""
    deleted: msgspec.Raw = msgspec.Raw()
    last: str = ""


_head = msgspec.json.Decoder(Head).decode
_end = msgspec.json.Decoder(End).decode
_line = msgspec.json.Decoder(Line).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode
_cell = msgspec.json.Decoder().decode


def head_of(line: bytes) -> Head | None:
    """What the first line of a dump says; None when it is no dump's.

    Raises:
        Corrupt: it begins as a dump's, and is torn.
    """
    if not line.startswith(_HEAD_BEGINS):
        return None
    try:
        return _head(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt("the dump is torn in its first line; nothing was loaded", reason=str(error)) from error


def end_of(line: bytes) -> End | None:
    """What the last line of a dump says; None when this is another line."""
    if not line.startswith(b'{"end":'):
        return None
    try:
        return _end(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def verified(lines: Iterable[bytes]) -> int:
    """Goes through a whole dump; answers how many lines it has between its first and its last.

    Raises:
        Corrupt: it is torn or was changed, so nothing of it should be loaded.
    """
    digest = hashlib.blake2b(digest_size=16)
    count = -1
    found: End | None = None
    for line in lines:
        if found is not None:
            raise Corrupt("the dump goes on behind its end", line=count + 2)
        found = end_of(line)
        if found is None:
            digest.update(line)
            count += 1
    if found is None:
        raise Corrupt("the dump is torn: its last line is missing; nothing was loaded", lines=max(count, 0))
    if found.end != count or found.digest != digest.hexdigest():
        raise Corrupt("the dump is not as it was written; nothing was loaded", lines=count, declared=found.end)
    return count


class Dumped:
    """Makes changes of the lines of a dump.

    Raises:
        SchemaMismatch: a newer release wrote the dump, or it holds models that the schema does not declare.
    """

    def __init__(self, catalog: Catalog, head: Head) -> None:
        if head.oneread > FORMAT:
            raise SchemaMismatch(
                "a newer release of oneread wrote this dump; upgrade this program", format=head.oneread, known=FORMAT
            )
        self._catalog = catalog
        self._carriers = {stored_name(cls): entity_type for cls, entity_type in catalog.entity_types.items()}
        unknown = sorted(set(head.models) - set(self._carriers))
        if unknown:
            raise SchemaMismatch("the dump holds models that this schema does not declare", models=unknown)
        self._forms = {name: ColumnForm(entity_type) for name, entity_type in self._carriers.items()}
        self._deleted = {
            name: msgspec.json.Decoder(key_type(entity_type.kind)).decode
            for name, entity_type in self._carriers.items()
        }

    def change(self, text: bytes) -> Change:
        """The change that restores what a line says.

        Raises:
            OnereadError: the line is damaged, or does not fit the schema.
        """
        try:
            line = _line(text)
            entity_type = self._carriers[line.model]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidValue("this is no line of a dump", reason=str(error)) from error
        except KeyError as error:
            raise InvalidValue("the schema has no such model", model=str(error.args[0])) from error
        if line.deleted:
            try:
                key = entity_type.kind.key(self._deleted[line.model](line.deleted))
            except msgspec.MsgspecError as error:
                raise InvalidValue("the key does not fit its model", model=line.model, reason=str(error)) from error
            return RestoreTombstone(self._catalog, key, line.version, _unpacked(line.last).get(LAST_VALUES, {}))
        held = document_entity(entity_type.layout, line.document) if line.document else None
        entity = self._forms[line.model].read(line.entity) if line.entity else held
        if entity is None:
            raise InvalidValue("the line has neither an entity nor a document", model=line.model)
        used = entity_type.used_in(_unpacked(line.used))
        copies = NO_COPIES if held is None else DumpedCopies(line.held, held, used)
        return RestoreEntity(self._catalog, entity, line.version, copies)


def _unpacked(text: str) -> Record:
    try:
        return emitted_record.decode_record(b64decode(text, validate=True)) if text else {}
    except (OnereadError, ValueError) as error:
        raise InvalidValue("what was held out of sight cannot be read", reason=str(error)) from error


class Records:
    """Makes changes of records that others wrote: JSON objects, or rows of a CSV file under a header.

    Arguments:
        catalog: the schema compiled for the store.
        model: whose entities they are; None where each object says it in `model`.
        names: their field names to ours.
        header: of a CSV file; None for JSON.

    Raises:
        UsageError: the model is not in the schema, or a column is no field of it.
    """

    def __init__(
        self, catalog: Catalog, model: type | None, names: Mapping[str, str], header: Sequence[str] | None = None
    ) -> None:
        self._catalog = catalog
        self._forms = {stored_name(cls): ColumnForm(entity_type) for cls, entity_type in catalog.entity_types.items()}
        self._model = model
        self._names = names
        self._columns: tuple[str, ...] = ()
        if header is not None:
            self._columns = tuple(names.get(each, each) for each in header)
            self._check_columns()

    def _check_columns(self) -> None:
        if self._model is None:
            raise UsageError("say whose entities the rows of a CSV file are: --model")
        form = self._forms[stored_name(self._model)]
        unknown = [each for each in self._columns if each and each.partition(".")[0] not in form.names]
        missing = [each for each in form.required if each not in {column.partition(".")[0] for column in self._columns}]
        twice = [each for each in self._columns if each and self._columns.count(each) > 1]
        if unknown or missing or twice:
            raise UsageError(
                "the columns do not fit the fields of the model; --map column=field names them, column= leaves one out",
                model=self._model,
                unknown=unknown,
                missing=missing,
                twice=sorted(set(twice)),
            )

    def entity(self, record: bytes | LoadedRow) -> Any:
        """The entity of one record.

        Raises:
            InvalidValue: it is damaged, or does not fit the model.
        """
        if isinstance(record, bytes):
            return self._of_object(record)
        if len(record) != len(self._columns):
            raise InvalidValue(
                "the row has another number of cells than the header", cells=len(record), columns=len(self._columns)
            )
        assert self._model is not None
        form = self._forms[stored_name(self._model)]
        given: dict[str, Any] = {}
        for column, cell in zip(self._columns, record, strict=True):
            if column:
                name, _, part = column.partition(".")
                if part:
                    given.setdefault(name, []).append(cell)
                else:
                    _put_cell(given, form, name, cell)
        for name, value in given.items():
            if name in form.references and isinstance(value, list) and not any(value):
                given[name] = None
        return form.taken(given)

    def _of_object(self, text: bytes) -> Any:
        try:
            found = _object(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidValue("this is no JSON object", reason=str(error)) from error
        if self._model is not None:
            return self._forms[stored_name(self._model)].taken(self._named(found))
        name, entity = found.get("model"), found.get("entity")
        form = self._forms.get(name) if isinstance(name, str) else None
        if form is None or not isinstance(entity, dict):
            raise InvalidValue('a line is {"model": name, "entity": {...}}; or give --model', model=name)
        return form.taken(self._named(entity))

    def _named(self, found: Mapping[str, Any]) -> dict[str, Any]:
        return {ours: value for name, value in found.items() if (ours := self._names.get(name, name))}


def _put_cell(given: dict[str, Any], form: ColumnForm, name: str, cell: str) -> None:
    """One cell as a value: an empty one is None or left out; JSON where the field takes no text, or begins as such."""
    annotation = form.plain[name].concrete
    if cell[:1] in _JSON_BEGINS and (cell[0] == '"' or not _takes("x", annotation)):
        try:
            given[name] = _cell(cell.encode(errors="surrogatepass"))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            given[name] = cell
    elif cell:
        given[name] = cell
    elif form.plain[name].optional or _takes(None, annotation):
        given[name] = None
    elif name in form.required:
        given[name] = ""


def _takes(value: object, annotation: Any) -> bool:
    try:
        msgspec.convert(value, annotation, dec_hook=revive)
    except (msgspec.MsgspecError, TypeError):
        return False
    return True
