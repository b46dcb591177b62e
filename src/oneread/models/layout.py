"""Layouts: encode a model's instance as a document, and decode it.

A document is a layout id (two bytes, big-endian) and one msgpack array with the fields in the order of declaration. The
functions that run per document are generated, because a loop over fields would cost more than msgspec does. See
"Documents" of docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, NoReturn, Protocol, TypeVar

import msgspec

from oneread.errors import Corrupt, InvalidDeclaration, InvalidValue, OnereadError, Outdated
from oneread.models.differences import Mismatch, difference, is_abstract
from oneread.models.fields import FACTORY, Marker, defaults_of
from oneread.models.layout_code import functions_of, settler
from oneread.models.model import Model, has_check, key_of
from oneread.models.prepare import prepare_type
from oneread.models.refusals import spelled
from oneread.models.shadow import FieldShape, Shapes, revive, shadow_of
from oneread.models.types import Names
from oneread.models.value_checks import UnfitValue, check_of
from oneread.models.versions import StoredLayout
from oneread.models.wide import check_bounded, pack_wide, unpack_wide
from oneread.store.limits import LAST_NUMBER
from oneread.store.rows import UNDECODABLE

E = TypeVar("E")

WIDE_BIT: Final = 0x8000
WIDE_WITHOUT_ID: Final = b"\xc1"  # the one byte that never begins a msgpack value
_FAULTS: Final = (TypeError, ValueError, OverflowError, AttributeError, RecursionError, msgspec.MsgspecError)
_REFUSED: Final = "a value does not fit its field"
_NO_REFERENCE: Final = "it must refer to an entity: give a reference, not None, or declare the field with | None"
_CHANGED: Final = "this value would be read back as another one; give it in the type that the field declares"
_NOT_FINITE: Final = "NaN and infinite Decimals are not stored"
_EMPTY: Final = (list, set, dict, bytearray)
"""What msgspec makes of an empty default that could be changed, for each entity."""
_UNFIT_DEFAULT: Final = "this default does not fit its field; write it in the type that the field declares"
_NO_COPY: Final = "the default of a copy refers to an entity, Buyer.of(1), or is None"
_SHARED_DEFAULT: Final = (
    "all entities would share this default, which can change; use msgspec.field(default_factory=...)"
)
_CORRUPT: Final = "a stored document does not fit its model"
_pack: Final = msgspec.msgpack.Encoder(uuid_format="bytes").encode


class Layout(Generic[E]):
    """The document format of one class: a model, a copy, or the row class of a view.

    A `layout_id` of None leaves the first two bytes out. `nullable` are the copy classes whose copied fields may be
    None in a document whatever their type.

    Raises:
        InvalidDeclaration: a type cannot be resolved, or cannot be stored.
    """

    encode: Callable[[E], bytes]
    """The document of an entity. Types are not checked. Raises InvalidValue for what cannot be encoded."""
    decode: Callable[[bytes], E]
    """The entity of a document. Raises Corrupt."""
    decode_known: Callable[[bytes], E]
    """`decode` for a document whose first two bytes have been checked."""

    def __init__(
        self,
        cls: type[E],
        layout_id: int | None,
        *,
        nullable: frozenset[type] = frozenset(),
        names: Names = MappingProxyType({}),
    ) -> None:
        if layout_id is not None and not 0 <= layout_id <= LAST_NUMBER:
            raise InvalidDeclaration("there are no more layout ids", declaration=cls, layout=layout_id)
        self.cls = cls
        self.layout_id = layout_id
        self.prefix = b"" if layout_id is None else layout_id.to_bytes(2, "big")
        self.wide_prefix = WIDE_WITHOUT_ID if layout_id is None else (layout_id | WIDE_BIT).to_bytes(2, "big")
        self.fields = Shapes(names, nullable).of(cls)
        self._shadow = shadow_of(cls, {each.name: each.concrete for each in self.fields})
        found = {each.name: check_of(each.type) for each in self.fields}
        self._checks = {name: check for name, check in found.items() if check is not None}
        """Of the fields whose types have any."""
        self._has_own_check = has_check(cls)
        self.has_check = self._has_own_check or bool(self._checks)
        self.has_limits = any(each.has_limits for each in self.fields)
        """Whether decoding refuses values that an earlier declaration may have accepted."""
        self._loose = frozenset(each.name for each in self.fields if each.kind == "plain" and is_abstract(each.type))
        self._marked = _marked_fields(cls) if issubclass(cls, Model) else frozenset()
        self._generate()
        if issubclass(cls, Model):
            self._check_defaults(cls)

    def _check_defaults(self, cls: type[Model[Any]]) -> None:
        """Refuses a default that no save accepts, or that entities share; None only makes the field required."""
        defaults = defaults_of(cls)
        for field in self.fields:
            default = defaults[field.name]
            if isinstance(default, FACTORY) and default.factory in _EMPTY:
                default = default.factory()
            elif default is None or default is msgspec.NODEFAULT or isinstance(default, (FACTORY, Marker)):
                continue
            elif field.kind == "copy":
                if not isinstance(default, field.cls):
                    _refuse_default(_NO_COPY, cls, field.name, default)
            elif _is_mutable(default):
                _refuse_default(_SHARED_DEFAULT, cls, field.name, default)
            try:
                self.check_values({field.name: default})
            except InvalidValue as error:
                _refuse_default(
                    _UNFIT_DEFAULT, cls, field.name, default, reason=error.facts.get("reason", error.message)
                )

    def _generate(self) -> None:
        try:
            unpack = msgspec.msgpack.Decoder(prepare_type(self._shadow), dec_hook=revive).decode
            self._unpack_many = msgspec.msgpack.Decoder(list[self._shadow], dec_hook=revive).decode  # type: ignore[name-defined]
        except (TypeError, NameError) as error:
            raise InvalidDeclaration(
                "msgspec cannot store a field of this class", declaration=self.cls, reason=str(error)
            ) from error
        scope = {
            "PREFIX": self.prefix,
            "FAULTS": _FAULTS,
            "pack": _pack,
            "unpack": unpack,
            "encode_beyond": self._encode_beyond,
            "decode_beyond": self._decode_beyond,
            "difference": difference,
            "loose": self._loose,
            "marked": self._marked,
        }
        made = functions_of(self.cls, self.fields, scope, has_id=self.layout_id is not None)
        self.encode, self.decode, self.decode_known = made["encode"], made["decode"], made["decode_known"]
        self._settle_many = settler(self.cls, self.fields, ())
        self._row, self._take, self._settle, self._same = (made[name] for name in ("row", "take", "settle", "same"))
        self._given = made["given"]

    def decode_many(self, docs: Sequence[bytes]) -> list[E]:
        """The entities of several documents, in one call of msgspec when none of them is wide."""
        return self._settle_many(self.parse_many(docs))

    def settler(self, emptied: Collection[str]) -> Callable[[list[E]], list[E]]:
        """Makes the function that makes what `parse_many` returned entities, in place, and returns the list.

        The copies in the fields `emptied` are left with their reference alone. Again it changes nothing.
        """
        return settler(self.cls, self.fields, emptied)

    def parse_many(self, docs: Sequence[bytes]) -> list[E]:
        """`decode_many` without its last step: the results may be shadows, which have the same values. Raises Corrupt.

        Give them to nothing that asks for their class, before a function of `settler` made them entities.
        """
        prefix, size = self.prefix, len(self.prefix)
        if size:
            if any(doc[:size] != prefix for doc in docs):
                return [self.decode(doc) for doc in docs]
            bodies: Sequence[bytes] = [doc[size:] for doc in docs]
        else:
            bodies = docs
        array = b"".join((b"\xdd", len(docs).to_bytes(4, "big"), *bodies))
        try:
            parsed: list[E] = self._unpack_many(array)
        except _FAULTS:
            return [self.decode(doc) for doc in docs]  # one is wide or corrupt: decode them one by one
        return parsed

    def validated(self, entity: E) -> tuple[bytes, E]:
        """The document of an entity, and the entity as it will be read: types, constraints and its own `check` hold.

        Raises:
            InvalidValue: with the dotted path of the field and the reason.
        """
        if type(entity) is not self.cls:
            raise InvalidValue("this is not an instance of the model", model=self.cls.__name__, given=type(entity))
        doc = self.encode(entity)
        try:
            seen = self._take_bounded(entity, doc) if doc.startswith(self.wide_prefix) else self._take(doc)
        except _FAULTS as error:
            self._refuse(entity, error)
        try:
            is_same = self._same(entity, seen)
        except _FAULTS:  # nested too deeply
            is_same = False
        if not is_same:
            self._refuse_changed(entity, seen)
        return doc, self._checked(seen) if self.has_check else seen

    def encode_given(self, entity: E) -> bytes | None:
        """The document of an entity before its copies are filled: each has its reference alone.

        None for an entity that cannot be encoded so; `validated` says whether one can be stored.
        """
        try:
            document: bytes = self._given(entity)
        except _FAULTS:
            return None
        return document

    def read_back(self, given: E, document: bytes) -> E | None:
        """The entity of a document that was made of one that was given; None where `validated` has to judge.

        Raises:
            InvalidValue: a check refuses it.
        """
        try:
            seen = self._take(document)
            is_same = self._same(given, seen)
        except _FAULTS:
            return None
        if not is_same:
            return None
        return self._checked(seen) if self.has_check else seen

    def check_values(self, values: Mapping[str, Any]) -> None:
        """Raises InvalidValue for the first of these values, by field, that does not fit; copies are left out."""
        for field in self.fields:
            if field.kind == "copy" or field.name not in values:
                continue
            value = values[field.name]
            try:
                packed = pack_wide((value,))
                check_bounded(packed)
                read = msgspec.convert(unpack_wide(packed)[0], field.concrete, dec_hook=revive)
                loose = field.name in self._loose
                found = difference(value, read, loose=loose) if field.kind == "plain" else None
            except _FAULTS as error:
                reason = str(error).partition(" - at ")[0]
                raise InvalidValue(
                    _REFUSED, model=self.cls.__name__, field=field.name, reason=reason, value=value
                ) from error
            self._refuse_difference(field.name, found)
            self._run_check(field.name, value)

    def _refuse_changed(self, given: E, read: E) -> None:
        """Raises InvalidValue for the first value that would be read back as another one, if any."""
        for field in self.fields:
            place, value = _given(field, given)
            try:
                found = difference(value, _given(field, read)[1], loose=field.name in self._loose)
            except _FAULTS as error:
                raise self._refusal(given, place, str(error)) from error
            self._refuse_difference(place, found)

    def _refuse_difference(self, place: str, found: Mismatch | None) -> None:
        """Raises InvalidValue for a value that would be read back as another one."""
        if found is not None:
            raise InvalidValue(
                _NOT_FINITE if type(found.read) is Decimal and not found.read.is_finite() else _CHANGED,
                model=self.cls.__name__,
                field=f"{place}{found.path}",
                given=found.given,
                type=type(found.given),
                read=found.read,
            )

    def _run_check(self, name: str, value: object, **key: object) -> None:
        """Raises InvalidValue for a value that the checks of its field's type refuse."""
        check = self._checks.get(name)
        if check is None:
            return
        try:
            check(value)
        except UnfitValue as error:
            raise InvalidValue(
                _REFUSED, model=self.cls.__name__, field=f"{name}{error.path}", reason=str(error), value=value, **key
            ) from error

    def _checked(self, entity: E) -> E:
        for name in self._checks:
            self._run_check(name, getattr(entity, name), **_key_fact(entity))
        if self._has_own_check:
            try:
                entity.check()  # type: ignore[attr-defined]
            except ValueError as error:
                raise InvalidValue(
                    "the model's own check refuses it", model=self.cls.__name__, reason=str(error), **_key_fact(entity)
                ) from error
        return entity

    def _encode_beyond(self, entity: E, error: Exception) -> bytes:
        """Encodes what the fast path cannot: ints beyond 64 bits. Raises InvalidValue for other values."""
        if not isinstance(error, OverflowError):
            self._refuse_unencodable(entity, error)
        try:
            return self.wide_prefix + pack_wide(self._row(entity))
        except _FAULTS as deeper:
            self._refuse_unencodable(entity, deeper)

    def _decode_beyond(self, doc: bytes, error: Exception | None) -> E:
        """Decodes what the fast path cannot: wide documents. Raises Corrupt for others."""
        if doc.startswith(self.wide_prefix):
            try:
                return self._take_wide(doc)
            except _FAULTS as deeper:
                error = deeper
        reason = "the document has another layout id" if error is None else str(error)
        raise Corrupt(_CORRUPT, model=self.cls.__name__, layout=self.layout_id, reason=reason) from error

    def _take_wide(self, doc: bytes) -> E:
        plain = unpack_wide(doc[len(self.wide_prefix) :])
        entity: E = self._settle(msgspec.convert(plain, self._shadow, dec_hook=revive))
        return entity

    def _take_bounded(self, entity: E, doc: bytes) -> E:
        """Decodes a wide document that is about to be stored, after checking the size of its ints."""
        try:
            check_bounded(doc[len(self.wide_prefix) :])
        except ValueError as error:
            self._refuse_unencodable(entity, error)
        return self._take_wide(doc)

    def _refuse_none(self, entity: E, error: Exception) -> None:
        """Raises InvalidValue where a reference is None that must not be; the error of the codec is of stored forms."""
        for field in self.fields:
            if field.kind != "plain" and not field.optional and getattr(entity, field.name) is None:
                raise InvalidValue(
                    _REFUSED,
                    model=self.cls.__name__,
                    field=field.name,
                    reason=_NO_REFERENCE,
                    **_key_fact(entity),
                ) from error

    def _refuse(self, entity: E, error: Exception) -> NoReturn:
        self._refuse_none(entity, error)
        reason, _, where = str(error).partition(" - at ")
        path = field_path(where[where.rfind("`$") + 1 :].strip("`"), self.fields)
        raise self._refusal(entity, path, spelled(reason, entity, path)) from error

    def _refuse_unencodable(self, entity: E, error: Exception) -> NoReturn:
        """Raises InvalidValue; msgspec names no path when it encodes, so each field is tried."""
        self._refuse_none(entity, error)
        raise self._refusal(entity, _unencodable(entity, self.fields), str(error)) from error

    def _refusal(self, entity: E, path: str, reason: str) -> InvalidValue:
        known = _value_at(entity, path) | _key_fact(entity)
        return InvalidValue(_REFUSED, model=self.cls.__name__, field=path, reason=reason, **known)


def _marked_fields(cls: type[Model[Any]]) -> frozenset[str]:
    """The fields that are left out of an entity that is given: stamps and totals, which the store gives."""
    given = ("created", "updated", "rollup")
    return frozenset(
        name for name, default in defaults_of(cls).items() if isinstance(default, Marker) and default.what in given
    )


def _refuse_default(problem: str, cls: type, field: str, default: object, **facts: object) -> NoReturn:
    raise InvalidDeclaration(problem, declaration=cls, field=field, default=default, type=type(default), **facts)


def _is_mutable(default: object) -> bool:
    """Whether a value can change: whatever holds a list has no hash, and a dataclass says whether it is frozen."""
    try:
        hash(default)
    except TypeError:
        return True
    parameters = getattr(type(default), "__dataclass_params__", None)
    return parameters is not None and not parameters.frozen


def _value_at(entity: object, path: str) -> dict[str, object]:
    """The fact of the value at a dotted path, as far as its names lead; none without a path."""
    found = entity
    for name in path.split("[", maxsplit=1)[0].split("."):
        if not hasattr(type(found), "__struct_fields__") or not hasattr(found, name):
            break
        found = getattr(found, name)
    return {} if found is entity else {"value": found}


def _key_fact(entity: object) -> dict[str, object]:
    """The fact of an entity's key; none for what is not an entity."""
    return {"key": key_of(entity)} if isinstance(entity, Model) else {}


def _given(field: FieldShape, entity: object) -> tuple[str, Any]:
    """The dotted path and value given for a field; of a copy its reference, since the values are the source's."""
    value: Any = getattr(entity, field.name)
    if field.kind == "copy" and value is not None:
        return f"{field.name}.ref", value.ref
    return field.name, value


def _unencodable(owner: object, fields: tuple[FieldShape, ...]) -> str:
    """The dotted path of the first field of `owner` that cannot be encoded."""
    for field in fields:
        try:
            value = getattr(owner, field.name)
            if field.kind != "copy" or (value is None and field.optional):
                check_bounded(pack_wide((value,)))
            elif not isinstance(value, field.cls):
                return field.name
            elif inner := _unencodable(value, field.fields):
                return f"{field.name}.{inner}"
        except _FAULTS:
            return field.name
    return ""


def field_path(path: str, fields: tuple[FieldShape, ...]) -> str:
    """Msgspec's path (`$[2][3]`) as the user knows it (`buyer.name`)."""
    named = ""
    rest = path.removeprefix("$")
    while fields and rest.startswith("["):
        number, _, further = rest[1:].partition("]")
        if not number.isdecimal():
            break
        field, rest = fields[int(number)], further
        named = f"{named}.{field.name}" if named else field.name
        fields = field.fields
        if field.kind == "ref" and rest.startswith("[0]"):
            rest = f".key{rest.removeprefix('[0]')}"
    return named + rest


class CopyPlace(NamedTuple):
    """A copy in documents of one layout: the field that it is now, its element, and the routes of its values."""

    field: str
    place: int
    routes: tuple[str, ...]


class Older(Protocol):
    """A decoder of the documents of another layout of a class, an older or a newer one."""

    cls: type
    prefix: bytes
    wide_prefix: bytes
    stored: StoredLayout
    unfilled: frozenset[str]
    copy_places: tuple[CopyPlace, ...]

    def retypes(self, copy: str) -> bool: ...

    def decode(self, doc: bytes) -> Any: ...

    def whole(self, doc: bytes) -> Any: ...

    def keeping(self, doc: bytes) -> Callable[[bytes], bytes] | None: ...


class Layouts:
    """The layouts of one model and its variants, picked by the first two bytes of a document.

    `last` is the last number that the store had given to declarations of this program's schema: a document with a
    greater one was written by a program with a newer schema.
    """

    def __init__(self, last: int = LAST_NUMBER) -> None:
        self._last = last
        self._older: dict[bytes, Older] = {}
        self._readers: dict[bytes, Callable[[bytes], Any]] = {}
        self._whole: dict[bytes, Callable[[bytes], Any]] = {}
        self._withheld: Mapping[type, Sequence[str]] = {}
        self._by_prefix: dict[bytes, Layout[Any]] = {}
        self._classes: dict[bytes, type] = {}

    def add(self, layout: Layout[Any]) -> None:
        """Adds a layout, whose id must not be in use."""
        if layout.layout_id is None or layout.prefix in self._readers:
            raise InvalidDeclaration("a layout needs an id of its own", declaration=layout.cls, layout=layout.layout_id)
        self._by_prefix[layout.prefix] = layout
        self._classes[layout.prefix] = self._classes[layout.wide_prefix] = layout.cls
        for prefix, read in ((layout.prefix, layout.decode_known), (layout.wide_prefix, layout.decode)):
            self._readers[prefix] = self._whole[prefix] = read

    def add_older(self, older: Older) -> None:
        """Adds the decoder of an older layout."""
        for prefix in (older.prefix, older.wide_prefix):
            self._older[prefix] = older
            self._classes[prefix] = older.cls
            self._readers[prefix] = older.decode
            self._whole[prefix] = older.whole

    def add_newer(self, newer: Older) -> None:
        """Adds the decoder of a newer layout, which has every field of the current one."""
        self.add_older(newer)
        for prefix in (newer.prefix, newer.wide_prefix):
            self._readers[prefix] = self._without_withheld(newer.decode)

    def older(self, doc: bytes) -> Older | None:
        """The decoder of a document of an older or a newer layout; None for a current one."""
        return self._older.get(doc[:2]) if self._older else None

    def decode(self, doc: bytes) -> Any:
        """The entity of a document of any of the layouts. Raises Corrupt, and Outdated for a newer one."""
        try:
            reader = self._readers[doc[:2]]
        except KeyError:
            raise self._unknown(doc) from None
        return reader(doc)

    def whole(self, doc: bytes) -> Any:
        """Like `decode`, with None for copied values that a document of an older layout does not have.

        Fields that are withheld from users are there.
        """
        try:
            reader = self._whole[doc[:2]]
        except KeyError:
            raise self._unknown(doc) from None
        return reader(doc)

    def shown(self, entity: Any) -> Any:
        """An entity as users see it: a copy without the fields that are withheld, or itself."""
        return self._take_out(msgspec.structs.replace(entity)) if type(entity) in self._withheld else entity

    def _take_out(self, entity: Any) -> Any:
        """Empties the fields that are withheld."""
        for name in self._withheld.get(type(entity), ()):
            if hasattr(entity, name):  # a document of an older layout may lack it
                getattr(type(entity), name).__delete__(entity)
        return entity

    def _without_withheld(self, read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        return lambda doc: self._take_out(read(doc))

    def others(self) -> Collection[Older]:
        """The decoders of older and newer layouts."""
        return self._older.values()

    def withhold(self, fields: Mapping[type, Sequence[str]]) -> None:
        """Leaves these fields of entities empty in what `decode` and `decode_many` return from now on."""
        self._withheld = fields
        for layout in self._by_prefix.values():
            for prefix in (layout.prefix, layout.wide_prefix):
                read = self._whole[prefix]
                self._readers[prefix] = self._without_withheld(read) if layout.cls in fields else read

    def class_of(self, doc: bytes) -> type:
        """The class of the entity that a document holds. Raises Corrupt, and Outdated for a newer one."""
        try:
            return self._classes[doc[:2]]
        except KeyError:
            raise self._unknown(doc) from None

    def _unknown(self, doc: bytes) -> OnereadError:
        if int.from_bytes(doc[:2], "big") & LAST_NUMBER > self._last and _is_array(doc[2:]):
            return Outdated(
                "this entity was written under a newer schema; restart this program with the newer one; where there is "
                "none, the entity is damaged",
                layout=doc[:2].hex(),
            )
        return Corrupt("a stored document has an unknown layout", layout=doc[:2].hex())

    def decode_many(self, docs: Sequence[bytes]) -> list[Any]:
        """The entities of several documents, together where all have the same layout."""
        layout = self._by_prefix.get(docs[0][:2]) if docs else None
        if layout is None or layout.cls in self._withheld or _mixed(docs):
            return [self.decode(doc) for doc in docs]
        return layout.decode_many(docs)


_decode_elements: Final = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def _is_array(data: bytes) -> bool:
    """Whether this is what a document holds, whatever its fields are; damage seldom is."""
    try:
        return bool(_decode_elements(data))
    except UNDECODABLE:
        return False


def _mixed(docs: Sequence[bytes]) -> bool:
    first = docs[0][:2]
    return any(doc[:2] != first for doc in docs)
