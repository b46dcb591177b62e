"""Older and newer layouts: reads documents of another declaration as entities of the current one.

A document of an older layout is converted to the current layout element by element, without decoding unchanged ones,
and then decoded like any other. One of a newer layout, whose fields this program knows in part, is read in the same
way, and written with the elements that it does not know. Documents of the current layout do not take this path. See
"Documents" of docs/formats/rows.md, and docs/decisions/0042-older-programs-keep-what-they-do-not-know.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar, cast

import msgspec

from oneread.errors import Corrupt, InvalidDeclaration, InvalidValue, OnereadError
from oneread.models.descriptions import Nested, fields_of, same_type
from oneread.models.differences import difference, is_abstract
from oneread.models.evolving import Retyped, steps_of
from oneread.models.fields import FACTORY, Marker, defaults_of, is_rollup
from oneread.models.fingerprints import describe_type
from oneread.models.layout import CopyPlace, Layout
from oneread.models.model import Model, key_names
from oneread.models.paths import Path
from oneread.models.prepare import prepare_type
from oneread.models.references import Copy
from oneread.models.shadow import FieldShape, Shapes, revive
from oneread.models.types import Annotation, FieldType, Names, type_of
from oneread.models.versions import Origin, StoredLayout, Type, origins_through
from oneread.models.wide import pack_wide, unpack_wide
from oneread.store.rows import UNDECODABLE

E = TypeVar("E")

PackedElement: TypeAlias = bytes
"""One element of a document's array, as it is stored."""

MakeElement: TypeAlias = Callable[[list[Any]], PackedElement]
"""Makes one element of the current layout from all elements of the older one."""

_NIL: Final = b"\xc0"
_FALSE: Final = b"\xc2"
_REF_OF_ONE: Final = b"\x91\x91"
"""The head of a reference by a key of one part: an array of the array of its parts."""
_pack: Final = msgspec.msgpack.Encoder(uuid_format="bytes").encode
split_array: Final = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
"""The elements of a packed array, as they are packed. Raises msgspec's errors."""
_ARRAY_16: Final = 16
_CORRUPT: Final = "a document of an older layout does not fit the layout in the schema row"


class _Gap(NamedTuple):
    """A copied value that documents of the older layout lack."""

    field: str
    inner: str


class _StoredField(NamedTuple):
    """A field of the older layout; `copied` are the fields of its copy, None for another field."""

    name: str
    place: int
    copied: list[str] | None
    is_reference: bool


class OlderLayout(Generic[E]):
    """The decoder of one older layout.

    `stored` says where each current field is in it; `unfilled` are the copies of which its documents lack values, and
    the fields of the key that did not refer; `copy_places` are the copies that both layouts have.

    Raises:
        InvalidDeclaration: a conversion of a field to its current type is not declared.
    """

    def __init__(self, stored: StoredLayout, current: Layout[E], names: Names) -> None:
        self.stored = stored
        self.cls = current.cls
        self.prefix = stored.number.to_bytes(2, "big")
        self.wide_prefix = (stored.number | 0x8000).to_bytes(2, "big")
        self._current = current
        self._names = names
        self._gaps: list[_Gap] = []
        self._now_refer: set[str] = set()
        self._retyping = _Retyping(current.cls, names)
        self._key_fields = key_names(current.cls) if issubclass(current.cls, Model) else ()
        self._stored_fields = {
            name: _StoredField(name, place, None if each.copy is None else list(each.inner), _refers(each.type))
            for place, (name, each) in enumerate(fields_of(stored.fields).items())
        }
        self._origins = {each.field: each for each in stored.origins}
        self._defaults = defaults_of(current.cls)
        self._lacking = {
            name: default
            for name, default in self._defaults.items()
            if is_rollup(default) and name not in self._origins
        }
        self._takers = [self._taker(field) for field in current.fields]
        self.unfilled = frozenset(gap.field for gap in self._gaps) | self._now_refer
        copies = {each.name: each.cls for each in current.fields}
        self._emptying = [(gap.field, getattr(copies[gap.field], gap.inner).__delete__) for gap in self._gaps]
        self.copy_places = self._copy_places()

    def _copy_places(self) -> tuple[CopyPlace, ...]:
        described = fields_of(self.stored.fields)
        held = {name: self._stored_fields[each.of] for name, each in self._origins.items() if "." not in name}
        return tuple(
            CopyPlace(name, each.place, tuple([described[each.name].inner[inner].of for inner in each.copied]))
            for name, each in held.items()
            if each.copied is not None
        )

    def retypes(self, copy: str) -> bool:
        """Whether documents of this layout have a value of a copy as another type than it has now."""
        return any(each.was and each.field.startswith(f"{copy}.") for each in self.stored.origins)

    def decode(self, doc: bytes) -> E:
        """The entity; copied values and totals that the document lacks are empty. Raises Corrupt and InvalidValue."""
        entity = self.whole(doc)
        for name in self._lacking:
            getattr(self.cls, name).__delete__(entity)
        for field, take_out in self._emptying:
            copy = getattr(entity, field)
            if copy is not None:
                take_out(copy)
        return entity

    def whole(self, doc: bytes) -> E:
        """The entity with None for copied values that the document lacks, to be filled from their sources.

        Totals that it lacks are their markers, as in an entity that was not saved yet.
        """
        try:
            elements = split_array(doc[2:])
        except UNDECODABLE as error:
            raise self._corrupt(reason=str(error)) from error
        if len(elements) != len(self._stored_fields):
            raise self._corrupt(fields=len(self._stored_fields), found=len(elements))
        try:
            made = b"".join([array_header(len(self._takers)), *(take(elements) for take in self._takers)])
        except OnereadError:
            raise
        except (msgspec.MsgspecError, TypeError, ValueError, IndexError) as error:
            raise self._corrupt(reason=str(error)) from error
        entity: Any = self._decoded(made, wide=doc[:2] == self.wide_prefix)
        for name, marker in self._lacking.items():
            msgspec.structs.force_setattr(entity, name, marker)
        return cast("E", entity)

    def keeping(self, doc: bytes) -> Callable[[bytes], bytes] | None:  # noqa: ARG002 - a newer layout's is needed
        """None: a document of an older layout has nothing that an entity of the current one lacks."""
        return None

    def _corrupt(self, **facts: object) -> Corrupt:
        return Corrupt(_CORRUPT, model=self.cls.__name__, layout=self.stored.number, **facts)

    def _decoded(self, array: bytes, *, wide: bool) -> E:
        current = self._current
        if wide:
            return current.decode(current.wide_prefix + array)
        try:
            return current.decode(current.prefix + array)
        except Corrupt:
            return current.decode(current.wide_prefix + array)  # a retyped value may have become a big int

    def _taker(self, field: FieldShape) -> MakeElement:
        origin = self._origins.get(field.name)
        if origin is None:
            default = self._defaults[field.name]
            return _constant(_packed(empty_total(field.type)) if is_rollup(default) else _default(default))
        stored = self._stored_fields[origin.of]
        place = stored.place
        if field.kind == "copy":
            return self._copy_taker(field, stored)
        if stored.copied is not None:  # a copy that only refers now: its first element is the reference
            return lambda elements: _NIL if elements[place] == _NIL else bytes(split_array(elements[place])[0])
        if not origin.was:
            if field.name in self._key_fields and (field.kind == "ref") != stored.is_reference:
                self._now_refer |= {field.name} if field.kind == "ref" else set()
                return _part_taker(place, now_refers=field.kind == "ref")
            return lambda elements: bytes(elements[place])
        retype = self._retyping.chain(field, field.name, origin.was)
        return lambda elements: retype(bytes(elements[place]))

    def _copy_taker(self, field: FieldShape, stored: _StoredField) -> MakeElement:
        """Makes the array of a copy from the stored array, or from the reference that it was."""
        takers = [self._inner_taker(field, each, stored) for each in field.fields]
        header = array_header(len(takers))

        def take(elements: list[Any]) -> PackedElement:
            element = bytes(elements[stored.place])
            if element == _NIL:
                return _NIL
            parts = [element] if stored.copied is None else split_array(element)
            return b"".join([header, *(each(parts) for each in takers)])

        return take

    def _inner_taker(self, field: FieldShape, copied: FieldShape, stored: _StoredField) -> MakeElement:
        """Makes one element of a copy from the elements of the stored one."""
        name = copied.name
        if name == "ref":
            return lambda parts: bytes(parts[0])
        if name == "deleted":
            return _constant(_FALSE) if stored.copied is None else lambda parts: bytes(parts[1])
        origin = self._origins.get(f"{field.name}.{name}")
        if origin is None or stored.copied is None:
            self._gaps.append(_Gap(field.name, name))
            return _constant(_NIL)
        place = stored.copied.index(origin.of.removeprefix(f"{stored.name}.")) + len(Copy.__struct_fields__)
        if not origin.was:
            return lambda parts: bytes(parts[place])
        retype = self._retyping.chain(copied, f"{field.name}.{name}", origin.was, field.cls)
        return lambda parts: _NIL if parts[place] == _NIL else retype(bytes(parts[place]))


class NewerLayout(OlderLayout[E]):
    """The decoder of a newer layout, which has every field of the current one and others that are unknown here.

    `stored` is one of `newer_layouts`.
    """

    def __init__(self, stored: StoredLayout, current: Layout[E], names: Names) -> None:
        super().__init__(msgspec.structs.replace(stored, renew=False, notify_again=False), current, names)
        known = [self._stored_fields[self._origins[field.name].of].place for field in current.fields]
        self._known = known
        self._unknown = sorted({each.place for each in self._stored_fields.values()} - {*known})

    def keeping(self, doc: bytes) -> Callable[[bytes], bytes]:
        """The function that brings a document of the current layout to this one, with the unknown elements of `doc`.

        A document of another layout, as that of another variant, is left as it is.
        """
        current = self._current

        def keep(body: bytes) -> bytes:
            if body[:2] not in (current.prefix, current.wide_prefix):
                return body
            elements, given = split_array(doc[2:]), split_array(body[2:])
            for place, element in zip(self._known, given, strict=True):
                elements[place] = element
            is_wide = body[:2] == current.wide_prefix or (
                doc[:2] == self.wide_prefix and any(_is_wide(elements[place]) for place in self._unknown)
            )
            head = self.wide_prefix if is_wide else self.prefix
            return b"".join([head, array_header(len(elements)), *elements])

        return keep


def newer_layouts(layouts: Sequence[StoredLayout], own: int) -> Iterator[StoredLayout]:
    """The layouts behind that at the place `own`, each with where the fields of that one are in it.

    `layouts` are those of one class, the newest last; an older one says where the fields of the newest are in it.
    """
    back = tuple(Origin(each.of, each.field) for each in layouts[own].origins)
    for layout in layouts[own + 1 :]:
        yield msgspec.structs.replace(layout, origins=origins_through(layout.origins, back) if layout.origins else back)


def _refers(given: Type) -> bool:
    """Whether a stored type of a key field is a reference."""
    return given.name == "Key" and given.arguments[0].name == "Ref"


def _part_taker(place: int, *, now_refers: bool) -> MakeElement:
    """Makes a reference of the part of the key that it was, or the other way round."""
    if now_refers:
        return lambda elements: _REF_OF_ONE + bytes(elements[place])
    return lambda elements: bytes(split_array(split_array(elements[place])[0])[0])


class _Found(Exception):
    """An extension was met."""


def _is_wide(element: PackedElement) -> bool:
    """Whether a packed element holds an int beyond 64 bits anywhere."""
    try:
        _find_extension(element)
    except _Found:
        return True
    return False


def _found(_code: int, _data: memoryview) -> NoReturn:
    raise _Found


_find_extension: Final = msgspec.msgpack.Decoder(ext_hook=_found).decode


class _TypeReader(NamedTuple):
    """Reads elements of one type; with `loose`, one kind of list, set or dict may be given for another."""

    read: Callable[[PackedElement], Any]
    loose: bool


class _Retyping:
    """Finds the declared functions that convert values from type to type."""

    def __init__(self, cls: type, names: Names) -> None:
        self._cls = cls
        self._names = names

    def chain(
        self, field: FieldShape, path: str, was: Iterable[Type], declaring: type | None = None
    ) -> Callable[[PackedElement], PackedElement]:
        """Converts through every type that the field had; `declaring` is the copy class of a copied field."""
        owner = declaring or self._cls
        steps = [self._step(owner, field.name, path, each) for each in was]
        shapes = Shapes(self._names, frozenset())
        before = [type_of(each.was, self._names, owner, each.name) for each in steps]
        first, *after = [
            *(_TypeReader(_reader(shapes.concrete(each)), is_abstract(each)) for each in before),
            _TypeReader(_reader(field.concrete), is_abstract(field.type)),
        ]

        def retype(element: PackedElement) -> PackedElement:
            value = first.read(element)
            for step, reader in zip(steps, after, strict=True):
                element, value = self._apply(step, value, path, reader)
            return element

        return retype

    def _apply(self, step: Retyped, value: object, path: str, after: _TypeReader) -> tuple[PackedElement, Any]:
        """Converts a value by one step: the stored element and the value; `after` reads the next type."""
        facts: dict[str, Any] = {"model": self._cls.__name__, "field": path, "value": value}
        facts["function"] = getattr(step.by, "__qualname__", repr(step.by))
        try:
            made = step.by(value)
        except Exception as error:
            raise InvalidValue(
                "the function that retypes this field failed on a stored value",
                **facts, reason=f"{type(error).__name__}: {error}",
            ) from error  # fmt: skip
        try:
            element = _packed(made)
            read = after.read(element)
            found = difference(made, read, loose=after.loose)
        except (InvalidValue, msgspec.MsgspecError, TypeError, ValueError) as error:
            raise InvalidValue(
                "the function that retypes this field did not make a value of the declared type",
                **facts, made=made, reason=str(error),
            ) from error  # fmt: skip
        if found is not None:
            raise InvalidValue(
                "the function that retypes this field made a value that would be read back as another value",
                **facts, made=made, read=read,
            )  # fmt: skip
        return element, made

    def _step(self, owner: type, name: str, path: str, was: Type) -> Retyped:
        for each in steps_of(owner):
            if isinstance(each, Retyped) and each.name == name:
                declared = describe_type(each.was, owner, name, self._names)
                if same_type(declared, was, Nested()):
                    return each
        raise InvalidDeclaration(
            "stored rows hold this field as another type; declare retyped(...)",
            declaration=owner, field=path, was=str(was),
        )  # fmt: skip


def _reader(kind: Annotation) -> Callable[[PackedElement], Any]:
    """Makes the reader of elements of a type, also of those with an int beyond 64 bits."""
    decode = msgspec.msgpack.Decoder(prepare_type(kind), dec_hook=revive).decode

    def read(element: PackedElement) -> Any:
        try:
            return decode(element)
        except msgspec.MsgspecError:
            return msgspec.convert(unpack_wide(element), kind, dec_hook=revive)

    return read


def _packed(value: object) -> PackedElement:
    try:
        return _pack(value)
    except OverflowError:
        (element,) = split_array(pack_wide((value,)))
        return bytes(element)
    except (TypeError, msgspec.MsgspecError) as error:
        raise InvalidValue("a retyped value cannot be stored", value=value, reason=str(error)) from error


def _constant(element: PackedElement) -> MakeElement:
    return lambda _elements: element


def _default(default: Any) -> PackedElement:
    """The element of a field that older documents lack."""
    if isinstance(default, FACTORY):
        return _packed(default.factory())
    if default is msgspec.NODEFAULT or isinstance(default, Marker | Path):
        return _NIL
    return _packed(default)


def empty_total(given: FieldType) -> object:
    """What a total of this type is for an empty group: None where it may be None, else zero."""
    return None if given.optional else given.present.cls()


def array_header(size: int) -> bytes:
    """The head of a msgpack array."""
    return bytes((0x90 | size,)) if size < _ARRAY_16 else b"\xdc" + size.to_bytes(2, "big")
