"""The JSON form of entities and view rows: what a web client reads and may send, and, with options, a line of a dump.

A reference is its key: the part of a key of one part, else the list of its parts; clients may send a list in both
cases, and a dump has a list in both. A copy is an object with its `ref` and the copied fields, or only its `ref`
while it is not filled, so that a client can send back what it got; in a dump it is the key alone, since loading fills
it. Numbers of groups are left out while they are not built, and of dumps. See "JSON" in docs/reference/web.md, and
docs/formats/dumps.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import GenericAlias
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from oneread.encoding.codegen import function
from oneread.errors import InvalidValue
from oneread.models.declared import FORMS
from oneread.models.fields import Marker, defaults_of, is_rollup
from oneread.models.json_body import FAULTS, NOT_FITTING, BodyRules, JsonBody, Tag, several_references
from oneread.models.json_numbers import may_hold_floats, spell_floats
from oneread.models.json_schema import Choice, Definition, define, define_choice
from oneread.models.model import Model, key_names
from oneread.models.references import Copy
from oneread.models.set_order import order_sets
from oneread.models.shadow import FieldShape, Shapes, wrapped
from oneread.models.types import Annotation, Named, unwrap
from oneread.models.variants import discriminator_of, is_variants_only

E = TypeVar("E")


class JsonForm(Generic[E]):
    """The JSON form of one class.

    Raises:
        InvalidDeclaration: a type cannot be resolved from the module of its class.
    """

    shows_copies: ClassVar[bool] = True
    """Whether a copy is an object with the copied fields, under the names that clients see; else its key."""

    write: Callable[[E], dict[str, object]]
    """Converts an entity to what msgspec's JSON encoder takes."""
    write_all: Callable[[Sequence[E]], list[dict[str, object]]]
    """Converts several entities of exactly this class."""

    def __init__(self, cls: type[E], fields: tuple[FieldShape, ...] = ()) -> None:
        self.cls = cls
        self._stand_ins = dict[tuple[type, bool], Annotation]()
        self.fields = fields or Shapes(Named(()), frozenset()).of(cls)
        self.spelled = spelled_names(cls) if self.shows_copies else {each.name: each.name for each in self.fields}
        # In the class of a view what stands behind a field is its rule.
        given = defaults_of(cls) if issubclass(cls, (Model, Copy)) else {}
        defaults = {name: each for name, each in given.items() if not _is_required(each)}
        self.defaults = {self.spelled[name]: each for name, each in defaults.items()}
        self.optional = frozenset(defaults)
        self.stamped = frozenset(name for name, each in defaults.items() if isinstance(each, Marker))
        """The fields that the database sets."""
        self.totals = frozenset(name for name, each in defaults.items() if is_rollup(each))
        """The numbers of groups among them, which are left out while they are not built."""
        self.keys = key_names(cls) if issubclass(cls, Model) else ()
        self.discriminator = discriminator_of(cls) if self.shows_copies else None
        """The field that says of which variant an entity is; None for a model without variants, and in dumps."""
        made = self._compile(self.fields)
        self.write, self.write_all = made["write"], made["write_all"]

    def make_writer(self, fields: tuple[FieldShape, ...]) -> Callable[[E], dict[str, object]]:
        """Makes the function that writes these fields only."""
        return self._compile(fields)["write"]

    def _compile(self, fields: tuple[FieldShape, ...]) -> dict[str, Callable[..., Any]]:
        """The functions that write one row and many: generated; a loop over fields would cost more than the JSON."""
        by_key = frozenset(name for name, each in defaults_of(self.cls).items() if getattr(each, "kind", None) == "key")
        writer = _JsonWriter(self._count_parts if self.shows_copies else None, by_key, self._has_float_key)
        parts = "" if self.discriminator is None else f"{self.discriminator.name!r}: {self.discriminator.value!r}, "
        parts += "".join(
            writer.total(self.spelled[each.name], each) if each.name in self.totals
            else writer.entry(self.spelled[each.name], f"row.{each.name}", each)
            for each in fields if self.shows_copies or each.name not in self.totals
        )  # fmt: skip
        scope = {"in_order": order_sets, "spell": spell_floats, "UNSET": msgspec.UNSET, "NOT_SHOWN": _NOT_SHOWN}
        named = self.cls.__qualname__
        return {
            "write": function("write", "row", [f"return {{{parts}}}"], scope, named),
            "write_all": function("write_all", "rows", [f"return [{{{parts}}} for row in rows]"], scope, named),
        }

    def body(self, name: str, fields: Sequence[FieldShape], *, partial: bool) -> JsonBody:
        """What may be sent for some of the fields: those with a default, or all, may be left out."""
        count = self._count_parts if self.shows_copies else None
        rules = BodyRules(self.spelled, self.optional, self._sendable, count, self._has_numbers, self._tag)
        return JsonBody(name, fields, rules, partial=partial)

    @property
    def _tag(self) -> Tag | None:
        """None for a class of which no entity is, too: no body names it."""
        found = self.discriminator
        return None if found is None or is_variants_only(found.cls) else Tag(found.name, found.value)

    @property
    def is_choice(self) -> bool:
        """Whether an entity that is read as this class may be of another one."""
        return self.discriminator is not None and self.discriminator.is_choice

    @functools.cached_property
    def whole(self) -> JsonBody:
        """All fields, as for `save`."""
        return self.body(self.cls.__name__, self.fields, partial=False)

    @functools.cached_property
    def partial(self) -> JsonBody:
        """Any fields but the key's, as for `patch`."""
        others = [each for each in self.fields if each.name not in self.keys]
        return self.body(self.cls.__name__, others, partial=True)

    def decode(self, body: bytes) -> E:
        """Decodes an entity; its copies are not filled, and fields with a default may be left out.

        Of a class with variants it is the one that the discriminator names.

        Raises:
            InvalidValue: the body is not JSON, fields are unknown, missing, or of another type, or the discriminator
                names no variant; `faults` has them.
        """
        found = self.discriminator
        chosen: JsonForm[E] = form(found.choose(body)) if found is not None and found.is_choice else self
        return chosen.make(chosen.whole.decode(body))

    def convert(self, value: object, *, strict: bool = True) -> E:
        """Converts JSON that was parsed before, as `decode` does; unless `strict`, numbers and instants may be text."""
        return self.make(self.whole.convert(value, strict=strict))

    def changes(self, body: bytes) -> dict[str, Any]:
        """Decodes the fields that a client wants changed, for `db.patch`. The key's parts are not among them.

        Raises:
            InvalidValue: as `decode`.
        """
        return self.partial.decode(body)

    def make(self, values: Mapping[str, Any]) -> E:
        """An entity of these fields. Raises InvalidValue where the class itself refuses them."""
        try:
            return self.cls(**values)
        except FAULTS as error:  # of `__post_init__`
            raise InvalidValue(NOT_FITTING, model=self.cls.__name__, field=None, reason=str(error)) from error

    def _count_parts(self, field: FieldShape) -> int:
        return len(self.key_types(field))

    def _has_numbers(self, field: FieldShape) -> bool:
        if field.kind == "plain" and several_references(field) is None:
            return any(each.bare in (float, Decimal) for each in field.type.walk())
        return any(unwrap(each).bare in (float, Decimal) for each in self.key_types(field))

    def _has_float_key(self, field: FieldShape) -> bool:
        return any(unwrap(each).bare is float for each in self.key_types(field))

    def key_types(self, field: FieldShape) -> tuple[Annotation, ...]:
        """The types of the key's parts that a field refers by; the field knows the classes of its schema by name."""
        reference = several_references(field) or field.reference()
        return Shapes(reference.names, frozenset()).key_types(reference)

    def _key(self, field: FieldShape) -> Annotation:
        """The type of the key that a field refers by, as it is written."""
        types = self.key_types(field)
        return types[0] if len(types) == 1 else GenericAlias(tuple, types)

    def _sendable(self, field: FieldShape) -> Annotation:
        """The type of what is sent for a field; of a copy only its `ref` is taken."""
        if several_references(field) is not None:
            several = GenericAlias(field.type.present.cls, (self._key(field),))
            return wrapped(several, field.type.metadata, optional=field.optional)
        if field.kind == "plain":
            return field.concrete
        found = self._stand_in(field, shown=False) if field.kind == "copy" else self._key(field)
        return found | None if field.optional else found

    def schema(self, *, sent: bool = False) -> Definition:
        """The JSON schema of what a client reads, or of what it may send.

        Raises:
            InvalidDeclaration: a field has no JSON schema.
        """
        return self.choice(self.cls.__name__, lambda each: form(each).own_schema(sent=sent))

    def own_schema(self, *, sent: bool) -> Definition:
        """The JSON schema of entities of exactly this class."""
        return self.sent_schema(self.whole) if sent else self.shown_schema(self.cls.__name__, self.fields)

    def choice(self, name: str, of_class: Callable[[type[Any]], Definition], *, patches: bool = False) -> Definition:
        """The schema of any entity that is read as this class: its own, or that of one of its variants."""
        found = self.discriminator
        if found is None or not found.is_choice:
            return of_class(self.cls)
        choices = {value: of_class(each) for value, each in (found.patched if patches else found.variants).items()}
        # A patch that names no class fits several.
        way = "anyOf" if patches else "oneOf"
        return define_choice(self.cls, name, Choice(found.name, choices, frozenset(found.variants), way))

    def _own_name(self, name: str) -> str:
        """The name of a component for exactly this class, where `name` is that of any of its variants."""
        return f"Plain{name}" if self.is_choice else name

    def sent_schema(self, body: JsonBody) -> Definition:
        """The JSON schema of what a client may send for exactly this class."""
        defaults = {} if body.partial else self.defaults
        sent = {name: each for name, each in defaults.items() if name in body.types}
        found = define(self.cls, body.struct, sent, self._tag, may_lack_tag=body.partial and self.is_choice)
        return found._replace(name=self._own_name(found.name))

    def shown_schema(self, name: str, fields: Sequence[FieldShape]) -> Definition:
        """The JSON schema of what a client reads, of these fields of exactly this class."""
        spelled = {each.name: self.spelled[each.name] for each in fields}
        typed: list[Any] = [
            (each.name, self._showable(each) | msgspec.UnsetType, msgspec.UNSET) if each.name in self.totals
            else (each.name, self._showable(each))
            for each in fields
        ]  # fmt: skip
        found = define(self.cls, msgspec.defstruct(name, typed, rename=spelled, kw_only=True), {}, self._tag)
        return found._replace(name=self._own_name(found.name))

    def _showable(self, field: FieldShape) -> Annotation:
        if field.kind != "copy":
            return self._sendable(field)
        found = self._stand_in(field, shown=True)
        return found | None if field.optional else found

    def _stand_in(self, field: FieldShape, *, shown: bool) -> Annotation:
        """A struct for a copy's class, as it is shown or sent: one for all fields of it, since a schema names it."""
        known = self._stand_ins.get((field.cls, shown))
        if known is not None:
            return known
        parts: list[Any] = [("ref", self._key(field)), *(self._shown_parts(field) if shown else ())]
        spelled = spelled_names(field.cls) if shown else {}
        name, module = field.cls.__name__, field.cls.__module__
        places = {"__qualname__": field.cls.__qualname__}
        made = msgspec.defstruct(name, parts, rename=spelled, kw_only=True, module=module, namespace=places)
        self._stand_ins[field.cls, shown] = made
        return made

    def _shown_parts(self, field: FieldShape) -> list[tuple[str, Annotation, object]]:
        """What a client is shown of a copy besides its `ref`."""
        own = Copy.__struct_fields__
        # The fields of a row's grouping copy are not there; of a source that does not exist yet they are None.
        absent = (
            msgspec.UnsetType | None if field.cls.missing_ok or field.cls.on_delete == "clear" else msgspec.UnsetType
        )
        deleted = ("deleted", bool | msgspec.UnsetType, msgspec.UNSET)
        copied = [each for each in field.fields if each.name not in own]
        return [deleted, *((each.name, self._sendable(each) | absent, msgspec.UNSET) for each in copied)]


_NOT_SHOWN: Final = (Marker, msgspec.UnsetType)
"""The classes of a total that an entity does not have yet: not saved, or not built."""

_FORMS: Final[dict[type[Any], JsonForm[Any]]] = {}


def form(cls: type[E]) -> JsonForm[E]:
    """The JSON form of a model or view, made once."""
    known = _FORMS.get(cls)
    if known is None:
        known = _FORMS[cls] = JsonForm(cls)
    return known


FORMS.append(_FORMS)


def to_plain(value: object) -> object:
    """An entity, a view row, or a list of them, as what msgspec's JSON encoder takes; anything else as it is."""
    if isinstance(value, list):
        return [to_plain(each) for each in value]
    return form(type(value)).write(value) if hasattr(type(value), "reserved_names") else value


def _is_required(default: object) -> bool:
    """Whether a field with this default must be sent: `reference(...)` is a policy and no value."""
    return default is msgspec.NODEFAULT or (isinstance(default, Marker) and default.what == "reference")


def spelled_names(cls: Any) -> dict[str, str]:
    """The names of the fields in JSON."""
    return dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))


class _JsonWriter:
    """Writes the code of `write`: an expression for each field.

    `count_parts` counts the parts of the key that a field refers by; None for dumps, where a copy is its key and each
    key is a list. `by_key` are the fields of a view by which its rows are grouped or in order: copies there only refer.
    """

    def __init__(
        self,
        count_parts: Callable[[FieldShape], int] | None,
        by_key: frozenset[str],
        has_float_key: Callable[[FieldShape], bool],
    ) -> None:
        self._count_parts = count_parts
        self._has_float_key = has_float_key
        self._by_key = by_key
        self._variables = 0

    def entry(self, spelled: str, value: str, field: FieldShape) -> str:
        """The entry of one field."""
        return f"{spelled!r}: {self._value(value, field)}, "

    def total(self, spelled: str, field: FieldShape) -> str:
        """The entry of a number of a group, left out while it is not built, or its entity not saved."""
        given = f"getattr(row, {field.name!r}, UNSET)"
        number = "spell(total)" if may_hold_floats(field.type) else "total"
        return f"**({{{spelled!r}: {number}}} if (total := {given}).__class__ not in NOT_SHOWN else {{}}), "

    def _value(self, value: str, field: FieldShape) -> str:
        """The expression of one field's value."""
        is_of_many = several_references(field) is not None and (field.kind == "refs" or self._count_parts is not None)
        if field.kind == "plain" and not is_of_many:
            return self._in_order(value, field)
        self._variables += 1
        here = f"value_{self._variables}"
        if field.kind == "copy":
            found = self._copy(here, field)
        else:
            of_many = f"[{self._key('each', field)} for each in {self._in_order(here, field)}]"
            found = of_many if is_of_many else self._key(here, field)
        return f"None if ({here} := {value}) is None else {found}"

    def _in_order(self, value: str, field: FieldShape) -> str:
        """A value as JSON has it: floats spelled, sets in one order, so that equal entities have equal JSON."""
        if self._count_parts is None:
            return value
        ordered = f"in_order({value})" if field.sets else value
        if field.type.present.bare is float:
            return f"(number if (number := {value}) is None or number - number == 0 else spell(number))"
        return f"spell({ordered})" if may_hold_floats(field.type) else ordered

    def _key(self, reference: str, field: FieldShape) -> str:
        """The expression of a key: of one part that part, else the list of them."""
        is_one = self._count_parts is not None and self._count_parts(field) == 1
        key = f"{reference}.key[0]" if is_one else f"{reference}.key"
        return f"spell({key})" if self._count_parts is not None and self._has_float_key(field) else key

    def _copy(self, here: str, field: FieldShape) -> str:
        """The expression of a copy: one that only refers is its `ref` alone."""
        key = self._key(f"{here}.ref", field)
        if self._count_parts is None:
            return key
        if field.name in self._by_key:
            return f"{{'ref': {key}}}"
        own = Copy.__struct_fields__
        spelled = spelled_names(field.cls)
        copied = [each for each in field.fields if each.name not in own]
        shown = "".join(self.entry(spelled[each.name], f"{here}.{each.name}", each) for each in copied)
        whole = f"{{'ref': {key}, 'deleted': {here}.deleted, {shown}}}"
        first = copied[0].name if copied else "deleted"
        return f"({whole} if hasattr({here}, {first!r}) else {{'ref': {key}}})"
