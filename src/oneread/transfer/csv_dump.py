"""CSV dumps: the entities of one model, one row each under a header.

A reference by a key of one part is that part, by several parts a column for each (`product.order`); a value that is
neither text nor a number is JSON. None is an empty cell; text that is empty or begins with a quote is JSON, so that
loading can distinguish them, and so is text that a spreadsheet would take for a formula. Totals are left out, since
loading adds them up. Every row is read as a load does before it is written: what would be loaded as another entity is
refused. See docs/formats/dumps.md.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from typing import Final, NoReturn

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import InvalidValue, UsageError
from oneread.models.model import stored_name
from oneread.plans.arguments import check_function
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter
from oneread.plans.scans import fetch_data, scan_all
from oneread.store.requests import Found
from oneread.store.rows import RowRange
from oneread.transactions.copy_cells import NO_CELLS, CopyCells
from oneread.transactions.root import parse_root
from oneread.transfer.dump import BATCH, WriteLine
from oneread.transfer.forms import ColumnForm
from oneread.transfer.load import CsvRow, RecordReader

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class CsvDump:
    """One dump of the entities of one model; one of a variant ends it, because a variant has other columns."""

    def __init__(
        self, catalog: Catalog, model: type, write: WriteLine, progress: Reporter, cells: CopyCells = NO_CELLS
    ) -> None:
        check_function("write", write)
        check_function("progress", progress)
        self._catalog = catalog
        self._lay = cells.lay
        self._form = ColumnForm(catalog.entity_types[model])
        self._write = write
        self._progress = progress
        self._several = Counter(self._form.parts.values())
        self.entities = 0
        self._now = 0

    def write_lines(self) -> Plan[int]:
        """Writes the header and all rows; returns the number of entities.

        Raises SchemaMismatch when a newer program has added fields, which this dump would lack, and UsageError when
        entities of variants would be missing.
        """
        self._catalog.refuse_older((yield from stored_schema()))
        parts = self._form.parts.items()
        names = [name for name in self._form.by_name if name not in self._form.totals]
        self._now = yield from Now()
        columns = [column for name in names for column in [each for each, of in parts if of == name] or [name]]
        self._read = RecordReader(self._catalog, self._form.cls, {}, columns).entity
        self._write(_line(columns))
        within = RowRange.under(self._form.entity_type.kind.prefix)
        yield from scan_all("roots", within, self._batch, BATCH, fetch_data)
        return self.entities

    def _batch(self, found: list[Found]) -> None:
        layouts = self._catalog.layouts[self._form.entity_type.kind.prefix]
        for key, row in found:
            body = parse_root(self._lay(key, row)).body
            entity = None if body is None else layouts.decode(body)
            if self._catalog.is_expired(key, entity, self._now):
                continue
            if type(entity) is self._form.cls:
                self._write(self._row(self._given(entity), key))
                self.entities += 1
            elif isinstance(entity, self._form.cls):
                self._refuse_variants()
        self._progress(Progress(f"dumping {stored_name(self._form.cls)}", self.entities))

    def _given(self, entity: object) -> object:
        """An entity as it is dumped."""
        return entity

    def _refuse_variants(self) -> NoReturn:
        cls = self._form.cls
        variants = [each for each in self._catalog.models if issubclass(each, cls) and each is not cls]
        raise UsageError(
            "CSV holds one class, and entities of variants would be missing: dump each variant, or JSON lines",
            model=cls,
            variants=variants,
        )

    def _row(self, entity: object, key: bytes) -> bytes:
        text = self._form.encode(entity)
        if text is not None:
            cells = self._cells(text)
            if self._is_read_as(cells, text):
                return _line(cells)
        raise InvalidValue(
            "CSV cannot represent a value of this entity exactly; dump JSON lines", key=self._catalog.name_of(key)
        )

    def _cells(self, text: bytes) -> CsvRow:
        cells: CsvRow = []
        for name, value in _decode(text).items():
            reference = self._form.references.get(name)
            if name in self._several:
                cells += [""] * self._several[name] if value is None else [_cell(part) for part in value]
            elif reference is not None and not reference.many and value is not None:
                cells.append(_cell(value[0]))
            else:
                cells.append(_cell(value))
        return cells

    def _is_read_as(self, cells: CsvRow, text: bytes) -> bool:
        """Whether loading the cells gives the entity of this JSON."""
        try:
            return self._form.encode(self._read(cells)) == text
        except InvalidValue:
            return False


def _line(cells: CsvRow) -> bytes:
    """A line of CSV, ended by a line feed; the writer quotes a carriage return only where it ends lines with one."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue().removesuffix("\r\n").encode() + b"\n"


_FORMULA: Final = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]").match
"""Text that a spreadsheet computes, which it does not where a quote is before it."""
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?").fullmatch


def _cell(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value or value.startswith('"'):
        return _encode(value).decode()
    return _encode(value).decode() if _FORMULA(value) and not _NUMBER(value) else value
