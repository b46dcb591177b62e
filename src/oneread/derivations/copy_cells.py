"""Copied values in cells: what a source has for it, and how a holder's document is read with it.

A cell has the values of one selection by their routes, as a document would have them, so that laying it over one is an
exchange of elements: the document keeps its layout, which may be that of an older or newer program. See
docs/formats/rows.md and docs/decisions/0085-leaf-copies-in-cells.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.copies import Reference, Source
from oneread.errors import Corrupt, OnereadError
from oneread.models.layout import WIDE_BIT, WIDE_WITHOUT_ID, CopyPlace, Layout, Layouts
from oneread.models.older import array_header, split_array
from oneread.store.keys import SELECTION_BYTES, kind_part, source_part
from oneread.store.rows import REMOVED, UNDECODABLE, Cell, Row
from oneread.transactions.copy_cells import COPY_CELL
from oneread.transactions.intents import USED_BY_CELLS, read_used, used_cell
from oneread.transactions.root import BODY, Root

_NIL: Final = b"\xc0"
_FALSE: Final = b"\xc2"
_TRUE: Final = b"\xc3"


class CopiedCell(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a cell has: whether the source is deleted, and its values by route, as elements of documents.

    With `wide` some element holds an int beyond 64 bits.
    """

    deleted: bool
    wide: bool
    values: dict[str, msgspec.Raw]


_encode: Final = msgspec.msgpack.Encoder(order="sorted").encode
_decode: Final = msgspec.msgpack.Decoder(CopiedCell).decode

EMPTY_CELL: Final = _encode(CopiedCell(deleted=True, wide=False, values={}))
"""Of a source that was erased, where this program does not know what the holder takes of it."""


class _Newer(NamedTuple):
    """A cell that is newer than what the document has."""

    taken: bytes
    cell: Cell


_Leaf: TypeAlias = tuple[Reference, Layout[Any]]


_UNREADABLE: Final = "copied values beside a document cannot be read; run `oneread repair`"


class LaidCopies:
    """The cells of a schema's copies: see `CopyCells`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._leaves: dict[tuple[bytes, bytes, bytes], list[_Leaf]] = {}
        self._known: set[tuple[bytes, bytes, bytes]] = set()
        self._places: dict[type, list[CopyPlace]] = {}
        for cls, entity_type in catalog.entity_types.items():
            at = {field.name: place for place, field in enumerate(entity_type.layout.fields)}
            self._places[cls] = []
            for each in entity_type.references:
                self._known.add((each.kind.prefix, each.selection, entity_type.kind.prefix))
                if each.copy is not None:
                    routes = tuple([route for _name, route in each.routes])
                    self._places[cls].append(CopyPlace(each.name, at[each.name], routes))
                    if each.is_leaf and not _is_retyped(catalog.layouts[entity_type.kind.prefix], cls, each):
                        place = each.kind.prefix, each.selection, entity_type.kind.prefix
                        self._leaves.setdefault(place, []).append((each, catalog.layout_of_copy(each.copy)))

    def declares(self, taken: bytes, holder: bytes) -> bool:
        """Whether this program declares what a holder takes of a source, by the source and selection."""
        return (kind_part(taken), taken[-SELECTION_BYTES:], kind_part(holder)) in self._known

    # What a source has.

    def has_leaf(self, source: bytes, selection: bytes, holder: bytes) -> bool:
        """Whether nothing follows from what a holder takes of a source by this selection, as this schema has it."""
        return source != holder and (kind_part(source), selection, kind_part(holder)) in self._leaves

    def is_erased(self, source: bytes, root: Root) -> bool:
        """Whether a source was erased."""
        return self._catalog.source(source, root).erased

    def value(self, source: bytes, root: Root, selection: bytes, holder: bytes) -> bytes | None:
        """What a cell of a holder has of a source; None where the holder must be committed."""
        state, values = self._catalog.source(source, root), dict[str, msgspec.Raw]()
        is_wide = False
        for reference, layout in self._leaves[kind_part(source), selection, kind_part(holder)]:
            if not _is_whole(reference, state):
                return None
            if reference.keeps_last_values(state) or state.entity is not None:
                try:
                    wide, elements = self._elements(reference, layout, source, state)
                except OnereadError:
                    return None
                is_wide |= wide
                values.update(elements)
        return _encode(CopiedCell(state.entity is None, is_wide, values))

    def _elements(
        self, reference: Reference, layout: Layout[Any], key: bytes, source: Source
    ) -> tuple[bool, dict[str, msgspec.Raw]]:
        """The values that one reference takes, by route, and whether one of them is wide."""
        copy = reference.copy
        assert copy is not None, "a leaf is a copy"
        blank = copy.of(*reference.kind.parts_of(key))
        doc, _read = layout.validated(reference.updated_copy(blank, source))
        is_wide = doc.startswith(WIDE_WITHOUT_ID)
        names = [field.name for field in layout.fields]
        elements = dict(zip(names, split_array(doc[len(WIDE_WITHOUT_ID) if is_wide else 0 :]), strict=True))
        return is_wide, {route: elements[name] for name, route in reference.routes}

    # How a holder is read.

    def lay(self, key: bytes, row: Row) -> Row:
        """A root row with the newer values of its cells in its document, and their versions among those used."""
        columns = [column for column in row if column.startswith(COPY_CELL)]
        body = row.get(BODY)
        if not columns or body is None or body.value == REMOVED:
            return row
        try:
            used = read_used(row, USED_BY_CELLS)
            newer = [
                _Newer(taken, row[column])
                for column in columns
                if (known := used.get(taken := column[len(COPY_CELL) :])) is not None and row[column].stamp > known
            ]
            if not newer:
                return row
            newer.sort(key=lambda each: each.cell.stamp)
            doc = self._laid(key, body.value, newer, used)
        except UNDECODABLE as error:
            raise Corrupt(_UNREADABLE, table="roots", key=key) from error
        version = row[USED_BY_CELLS].stamp
        return {**row, BODY: Cell(doc, body.stamp), USED_BY_CELLS: used_cell(used, version)}

    def _laid(self, key: bytes, doc: bytes, newer: Sequence[_Newer], used: dict[bytes, int]) -> bytes:
        """A document with newer values; notes their versions in `used`."""
        layouts = self._catalog.layouts_at(key)
        entity = layouts.whole(doc)
        entity_type = self._catalog.entity_types[type(entity)]
        refs, references = entity_type.refs(entity), {each.name: each for each in entity_type.references}
        elements = split_array(doc[2:])
        number = int.from_bytes(doc[:2], "big")
        older = layouts.older(doc)
        for place in self._places[type(entity)] if older is None else older.copy_places:
            reference, keys = references[place.field], refs[place.field]
            for taken, cell in newer if keys and elements[place.place] != _NIL else ():
                if self._is_of(reference, keys[0], taken, key):
                    found = _decode(cell.value)
                    elements[place.place] = msgspec.Raw(_element(reference, place, elements[place.place], found))
                    used[taken] = max(used[taken], cell.stamp)
                    number |= WIDE_BIT if found.wide else 0
        return b"".join([number.to_bytes(2, "big"), array_header(len(elements)), *elements])

    def _is_of(self, reference: Reference, source: bytes, taken: bytes, holder: bytes) -> bool:
        """Whether a reference takes what a cell has: its own selection, or one that only another program declares."""
        if source_part(taken) != source:
            return False
        return taken[-SELECTION_BYTES:] == reference.selection or not self.declares(taken, holder)


def _is_whole(reference: Reference, source: Source) -> bool:
    """Whether a source says all that a reference takes, so that nothing depends on what the holder has."""
    if not source.existed or reference.narrowed(source) is not source:
        return False
    if source.entity is not None or not reference.keeps_last_values(source):
        return True
    return all(route in source.last for _name, route in reference.routes)


def _is_retyped(layouts: Layouts, cls: type, reference: Reference) -> bool:
    """Whether documents of an older layout have some of a copy's values as other types."""
    return any(each.cls is cls and each.retypes(reference.name) for each in layouts.others())


def _element(reference: Reference, place: CopyPlace, before: bytes, cell: CopiedCell) -> bytes:
    """The array of a copy in a document with other values."""
    ref, _deleted, *held = split_array(before)
    is_cleared = cell.deleted and reference.on_delete == "clear"
    values: Mapping[str, Any] = dict.fromkeys(place.routes, _NIL) if is_cleared else cell.values
    made = [values.get(route, old) for route, old in zip(place.routes, held, strict=True)]
    return b"".join([array_header(2 + len(made)), ref, _TRUE if cell.deleted else _FALSE, *made])
