"""Converts the lines of dumps to changes, and the records of other files to entities.

A line of a dump is restored with its version; a record of another file is saved as by `db.save`. See
docs/formats/dumps.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from oneread.counters.dumping import (
    CacheCounterLine,
    CounterLine,
    RestoreCacheCounter,
    RestoreCounter,
    RestoreCounters,
    RestoreTokens,
    TokensLine,
)
from oneread.derivations.catalog import Catalog
from oneread.derivations.emitted_record import HIDDEN
from oneread.errors import Corrupt, InvalidValue, SchemaMismatch, UsageError
from oneread.models.json_body import FAULTS
from oneread.models.model import stored_name
from oneread.models.shadow import revive
from oneread.store.keys import kind_part
from oneread.transactions.commit import Change
from oneread.transactions.sequences import LAST_OF_SEQUENCE, NumberSequence, TakenNumber
from oneread.transfer.dump import FORMAT, End, Head
from oneread.transfer.forms import (
    HIDDEN_COPIES,
    LAST,
    ColumnForm,
    document_entity,
    forms_by_name,
    key_type,
    unpack_values,
)
from oneread.transfer.restore import NO_COPIES, DumpedCopies, KeptVersion, RestoreEntity, RestoreTombstone

LINE_BYTES: Final = 16 << 20
"""The longest line that is read; a longer one is refused."""

CsvRow: TypeAlias = "list[str]"
"""The cells of one record of a CSV file."""

_COUNTER_BEGINS: Final = b'{"counter":'
_CACHE_COUNTER_BEGINS: Final = b'{"cache_counter":'
_TOKENS_BEGIN: Final = b'{"tokens":'
_HEAD_BEGINS: Final = b'{"oneread":'
_JSON_BEGINS: Final = ('"', "[", "{")


class DumpLine(msgspec.Struct, forbid_unknown_fields=True):
    """One entity or tombstone of a dump."""

    model: str
    version: int = 0
    entity: msgspec.Raw = msgspec.Raw()
    document: str = ""
    held: tuple[str, ...] = ()
    used: str = ""
    deleted: msgspec.Raw = msgspec.Raw()
    last: str = ""
    numbers: dict[str, int] = {}


_head = msgspec.json.Decoder(Head).decode
_end = msgspec.json.Decoder(End).decode
_line = msgspec.json.Decoder(DumpLine).decode
_counter = msgspec.json.Decoder(CounterLine).decode
_cache_counter = msgspec.json.Decoder(CacheCounterLine).decode
_tokens = msgspec.json.Decoder(TokensLine).decode
_object = msgspec.json.Decoder(dict[str, object]).decode
_cell = msgspec.json.Decoder().decode


def parse_head(line: bytes) -> Head | None:
    """Parses the first line of a dump; None for another file. Raises Corrupt for a damaged line."""
    if not line.startswith(_HEAD_BEGINS):
        return None
    try:
        return _head(line)
    except FAULTS as error:
        raise Corrupt("the first line of the dump is incomplete; nothing was loaded", reason=str(error)) from error


def parse_end(line: bytes) -> End | None:
    """Parses the last line of a dump; None for another line."""
    if not line.startswith(b'{"end":'):
        return None
    try:
        return _end(line)
    except FAULTS:
        return None


def check_dump(lines: Iterable[bytes]) -> int:
    """The lines between the first and the last of a dump; raises Corrupt unless it is complete and unchanged."""
    digest = hashlib.blake2b(digest_size=16)
    count = -1
    found: End | None = None
    for line in lines:
        if found is not None:
            raise Corrupt("the dump has lines after its last line", line=count + 2)
        found = parse_end(line)
        if found is None:
            digest.update(line)
            count += 1
    if found is None:
        raise Corrupt("the dump is incomplete: its last line is missing; nothing was loaded", lines=max(count, 0))
    if found.end != count or found.digest != digest.hexdigest():
        raise Corrupt("the dump was changed after it was written; nothing was loaded", lines=count, declared=found.end)
    return count


class DumpReader:
    """Converts the lines of a dump to changes; raises SchemaMismatch for a newer format and unknown models."""

    _always = False
    """Whether entities have their own versions whatever this store shows."""
    _of_deleted: type[RestoreTombstone] = RestoreTombstone

    def __init__(self, catalog: Catalog, head: Head) -> None:
        if head.oneread > FORMAT:
            raise SchemaMismatch(
                "a newer release of oneread wrote this dump; upgrade this program", format=head.oneread, known=FORMAT
            )
        self._catalog = catalog
        self._types = {stored_name(cls): entity_type for cls, entity_type in catalog.entity_types.items()}
        unknown = sorted(set(head.models) - set(self._types))
        if unknown:
            raise SchemaMismatch("the dump has models that this schema does not declare", models=unknown)
        self._forms = forms_by_name(catalog)
        self._deleted = {
            name: msgspec.json.Decoder(key_type(entity_type.kind)).decode for name, entity_type in self._types.items()
        }

    def change(self, text: bytes) -> Change | RestoreCounters:
        """What restores the entity, tombstone, counter or tokens of a line; raises OnereadError for a damaged line."""
        try:
            if text.startswith(_COUNTER_BEGINS):
                return RestoreCounter(_counter(text))
            if text.startswith(_CACHE_COUNTER_BEGINS):
                return RestoreCacheCounter(_cache_counter(text))
            if text.startswith(_TOKENS_BEGIN):
                return RestoreTokens(_tokens(text))
            line = _line(text)
            entity_type = self._types[line.model]
        except FAULTS as error:
            raise InvalidValue("the line is not a line of a dump", reason=str(error)) from error
        except KeyError as error:
            raise InvalidValue("the schema has no such model", model=str(error.args[0])) from error
        if line.deleted:
            try:
                key = entity_type.kind.key(self._deleted[line.model](line.deleted))
            except FAULTS as error:
                raise InvalidValue("the key does not fit its model", model=line.model, reason=str(error)) from error
            numbers = self._numbers(line, key)
            return self._of_deleted(self._catalog, key, line.version, unpack_values(LAST, line.last), numbers)
        held = document_entity(entity_type.layout, line.document) if line.document else None
        entity = self._forms[line.model].decode(line.entity) if line.entity else held
        if entity is None:
            raise InvalidValue("the line has neither an entity nor a document", model=line.model)
        used = entity_type.hidden.used_in({HIDDEN: unpack_values(HIDDEN_COPIES, line.used)})
        copies = NO_COPIES if held is None else DumpedCopies(line.held, held, used)
        kind = entity_type.kind
        numbers = self._numbers(line, kind.key(kind.parts(entity))) if line.numbers else ()
        return RestoreEntity(self._catalog, entity, KeptVersion(line.version, self._always), copies, numbers)

    def _numbers(self, line: DumpLine, root: bytes) -> tuple[TakenNumber, ...]:
        """The numbers that an entity has given to children. Raises InvalidValue."""
        found: list[TakenNumber] = []
        for name, last in line.numbers.items():
            child = self._types.get(name)
            model = None if child is None or child.numbered is None else child.kind.child_of
            if child is None or model is None or self._catalog.kinds[model].prefix != kind_part(root):
                raise InvalidValue("the line counts numbers of what has none, or is of another model", model=name)
            if not 1 <= last <= LAST_OF_SEQUENCE:
                raise InvalidValue("the line counts numbers that no sequence gives", model=name, last=last)
            found.append(TakenNumber(NumberSequence(root, child.kind.prefix), last))
        return tuple(found)


class RecordReader:
    """Converts records to entities: JSON objects, or rows of a CSV file with a header.

    Without a model each object names its own in `model`; `names` maps names in the file to fields.
    """

    def __init__(
        self, catalog: Catalog, model: type | None, names: Mapping[str, str], header: Sequence[str] | None = None
    ) -> None:
        self._forms = forms_by_name(catalog)
        self._model = model
        self._names = names
        self._columns: tuple[str, ...] = ()
        if header is not None:
            self._columns = tuple(names.get(each, each) for each in header)
            self._check_columns()

    def _check_columns(self) -> None:
        if self._model is None:
            raise UsageError("a CSV file needs --model")
        form = self._forms[stored_name(self._model)]
        given = frozenset(self._columns)
        unknown = [each for each in self._columns if each and each not in form.by_name and each not in form.parts]
        begun = given.intersection(form.parts)
        fields = {form.parts[each] for each in begun}
        missing = [each for each in form.required if each not in given and each not in fields]
        missing += [each for each, field in form.parts.items() if field in fields and each not in given]
        twice = [each for each in self._columns if each and self._columns.count(each) > 1]
        twice += sorted(fields & given)
        if unknown or missing or twice:
            raise UsageError(
                "the columns do not fit the fields of the model; --map column=field renames one, column= skips it",
                model=self._model,
                unknown=unknown,
                missing=missing,
                twice=sorted(set(twice)),
            )

    def entity(self, record: bytes | CsvRow) -> Any:
        """Converts one record to an entity; raises InvalidValue where it is damaged or does not fit the model."""
        if isinstance(record, bytes):
            return self._from_object(record)
        if len(record) != len(self._columns):
            raise InvalidValue(
                "the number of cells differs from the header", cells=len(record), columns=len(self._columns)
            )
        assert self._model is not None
        form = self._forms[stored_name(self._model)]
        given: dict[str, object] = {}
        cells = dict(zip(self._columns, record, strict=True))
        parts: dict[str, list[str]] = {}
        for column, field in form.parts.items():
            if column in cells:
                parts.setdefault(field, []).append(cells.pop(column))
        for column, cell in cells.items():
            if column:
                _put_cell(given, form, column, cell)
        for field, several in parts.items():
            given[field] = [_cell_of_part(each) for each in several] if any(several) else None
        return form.from_text(given)

    def _from_object(self, text: bytes) -> Any:
        try:
            found = _object(text)
            _check_names(text.decode())
        except FAULTS as error:
            raise InvalidValue("the line is not a JSON object", reason=str(error)) from error
        if self._model is not None:
            return self._forms[stored_name(self._model)].from_text(self._rename_fields(found))
        name, entity = found.get("model"), found.get("entity")
        form = self._forms.get(name) if isinstance(name, str) else None
        if form is None or not isinstance(entity, dict):
            raise InvalidValue('a line is {"model": name, "entity": {...}}; or give --model', model=name)
        return form.from_text(self._rename_fields(entity))

    def _rename_fields(self, found: Mapping[str, object]) -> dict[str, object]:
        ours = [each for name in found if (each := self._names.get(name, name))]
        if len(set(ours)) < len(ours):
            raise InvalidValue("two names of the record are of one field", fields=sorted(ours))
        return {each: value for name, value in found.items() if (each := self._names.get(name, name))}


def _refuse_repeated(pairs: Sequence[tuple[str, object]]) -> object:
    """Called for each object of a line. Raises ValueError for two values of one name, of which others keep the last."""
    if len(dict(pairs)) < len(pairs):
        names = [name for name, _value in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return None


_check_names = json.JSONDecoder(object_pairs_hook=_refuse_repeated, parse_float=len, parse_int=len).decode


def _cell_of_part(cell: str) -> object:
    """The value of one part of a key: JSON where it is quoted."""
    try:
        return _cell(cell.encode(errors="surrogatepass")) if cell.startswith('"') else cell
    except FAULTS:
        return cell


def _put_cell(given: dict[str, object], form: ColumnForm, name: str, cell: str) -> None:
    """Puts the value of one cell: None or nothing for an empty cell, JSON where the field is not text, or is quoted."""
    annotation = form.by_name[name].concrete
    if cell[:1] in _JSON_BEGINS and (cell[0] == '"' or not _takes("x", annotation)):
        try:
            given[name] = _cell(cell.encode(errors="surrogatepass"))
        except FAULTS:
            given[name] = cell
    elif cell:
        given[name] = cell
    elif form.by_name[name].optional or _takes(None, annotation):
        given[name] = None
    elif name in form.required:
        given[name] = ""


def _takes(value: object, annotation: Any) -> bool:
    try:
        msgspec.convert(value, annotation, dec_hook=revive)
    except (msgspec.MsgspecError, TypeError):
        return False
    return True
