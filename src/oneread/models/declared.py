"""How a class becomes a declaration: the metaclass of models, copies and views.

It makes fields keyword-only (msgspec does not inherit that option), keeps the types of `Model[str, int]` as
`type_arguments` (a struct cannot be generic over them at run time), and refuses field names that declarations need.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn
from unicodedata import normalize
from weakref import WeakSet

import msgspec
from typing_extensions import TypeVarTuple, Unpack

from oneread.errors import InvalidDeclaration, InvalidFields, perhaps

_RESERVED: Final = (
    "this field name is reserved: an option is written without a type, `max_limit = 50`, and a field needs another "
    "name; a copy and a view may show a field under it, "
    "`origin: str = shown(Visit.source)`, and msgspec.field(name=...) keeps a name in JSON"
)
_TOO_LATE: Final = "a route takes or shows this model already: declare its variants before, so that they are among them"
_NOT_A_NAME: Final = "a field's name is a Python identifier in normal form (NFKC) and not a keyword"
_IN_THE_BODY: Final = "an option of a class is written in its body: `max_limit = 50`"
_MISSPELT: Final = "there is no such option, and there is one of a similar name; give this attribute another name"
_LIKE: Final = 0.8
"""How alike a name and an option's are before it is refused, as difflib measures it: `expire_after` is, `limit` not."""
_HIDES: Final = "this attribute hides a field of a base class; give it another name"


DESCRIBED: Final[WeakSet[type]] = WeakSet()
"""The classes whose forms a web framework has, which does not ask again when a variant is declared later."""
FORMS: Final[list[dict[Any, Any]]] = []
"""What was made of declared classes; emptied when a variant is declared, because the form of its model changes."""


def _check_names(name: str, bases: tuple[type, ...], space: dict[str, Any]) -> None:
    """Raises InvalidDeclaration for a name that a field cannot have."""
    taken = frozenset().union(*(getattr(base, "reserved_names", ()) for base in bases))
    inherited = {field for base in bases for field in getattr(base, "__struct_fields__", ())}
    annotations = space.get("__annotations__", {})
    for field, annotation in annotations.items():
        if "ClassVar" in str(annotation):
            continue
        if field in taken or field.startswith("_"):
            raise InvalidDeclaration(_RESERVED, declaration=name, field=field)
        if not field.isidentifier() or iskeyword(field) or normalize("NFKC", field) != field:
            raise InvalidDeclaration(_NOT_A_NAME, declaration=name, field=field)
    for field in sorted(inherited & (space.keys() - annotations.keys())):
        raise InvalidDeclaration(_HIDES, declaration=name, field=field)
    for attribute, value in space.items():
        if attribute in annotations or attribute in taken or attribute.startswith("_") or _is_behaviour(value):
            continue
        near = perhaps(attribute, taken, likeness=_LIKE)
        if near:
            raise InvalidDeclaration(_MISSPELT, declaration=name, option=attribute, **near)


def _is_behaviour(value: object) -> bool:
    """Whether an attribute of a class is a method, a property or a class: options are values."""
    return callable(value) or hasattr(type(value), "__get__")


def _announce_variant(name: str, bases: tuple[type, ...]) -> None:
    """Empties what was made of models; raises InvalidDeclaration where a web framework has one as it was."""
    extended = [each for base in bases for each in base.__mro__ if getattr(each, "__struct_fields__", ())]
    for model in extended:
        if model in DESCRIBED:
            raise InvalidDeclaration(_TOO_LATE, variant=name, model=model)
    if extended:
        for forms in FORMS:
            forms.clear()


def _explain_empty(entity: object, name: str) -> NoReturn:
    """Says why a field has no value: the `__getattr__` of models with totals, whose fields may be empty.

    Other models do not have it: with it, each access to each attribute costs several times as much.
    """
    cls: Any = type(entity)
    if name in cls.__struct_fields__:
        reason = f"{cls.__name__}.{name} is not built yet; run a backfill"
    else:
        reason = f"{cls.__name__!r} object has no attribute {name!r}"
    raise AttributeError(reason, name=name, obj=entity)


class KeyedView:
    """`Index[Purchase, int]` at run time: a base that resolves to `Index[Purchase]` and keeps the types of the key."""

    def __init__(self, base: Any, key_arguments: tuple[Any, ...]) -> None:
        self.base = base
        self.key_arguments = key_arguments
        self.__args__ = base.__args__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> Any:
        return self.base.__mro_entries__(bases)


KeyTypes = TypeVarTuple("KeyTypes", default=Unpack[tuple[Any, ...]])

if TYPE_CHECKING:
    Declared = msgspec.StructMeta
    DeclaredModel = msgspec.StructMeta

    class Keyed(Generic[*KeyTypes]):
        """Carries the types of the key's parts for type checkers."""
else:

    class Declared(msgspec.StructMeta):
        """The metaclass of every declaration."""

        def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], **config: object) -> Any:
            written = space.get("__orig_bases__", ())  # the bases as they are written: Model[str, int]
            if written:
                space["__orig_bases__"] = tuple(
                    base.base if isinstance(base, (_KeyedBase, KeyedView)) else base for base in written
                )
            _check_names(name, bases, space)
            _check_options(name, bases, config)
            try:
                made = super().__new__(mcs, name, bases, space, **config | {"kw_only": True})
            except (TypeError, ValueError) as error:
                raise InvalidDeclaration(
                    "this class cannot be declared", declaration=name, reason=str(error)
                ) from error
            arguments = _arguments_of(written)
            if arguments and any(hasattr(base, "reserved_names") for base in bases):  # elsewhere they are variables
                made.type_arguments = arguments
            for base in written:
                if isinstance(base, KeyedView):
                    made.key_arguments = base.key_arguments
            return made

    class DeclaredModel(Declared):
        """The metaclass of models: a constructor that is given other fields says which."""

        def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], **config: object) -> Any:
            _announce_variant(name, bases)
            if any(getattr(value, "what", None) == "rollup" for value in space.values()):
                space.setdefault("__getattr__", _explain_empty)
            return super().__new__(mcs, name, bases, space, **config)

        def __call__(self, /, *given: object, **fields: object) -> Any:
            try:
                return _construct(self, *given, **fields)
            except TypeError as error:
                _refuse_fields(self, given, fields, error)
                raise

    _construct = msgspec.StructMeta.__call__

    def _refuse_empty(entity: Any, name: str) -> Any:
        """Says why a total is empty; called only where there is no value."""
        if name in type(entity).__struct_fields__:
            reason = f"{type(entity).__name__}.{name} is not built yet; run a backfill"
        else:
            reason = f"{type(entity).__name__!r} object has no attribute {name!r}"
        raise AttributeError(reason, name=name, obj=entity)

    def _refuse_fields(cls: Any, given: tuple[object, ...], fields: dict[str, object], error: TypeError) -> None:
        """Raises InvalidFields where the names of the fields are why a constructor failed."""
        known = cls.__struct_fields__
        defaults = dict(zip(reversed(known), reversed(cls.__struct_defaults__), strict=False))
        unknown = [name for name in fields if name not in known]
        allowed = [name for name in known if getattr(defaults.get(name), "what", None) != "rollup"]  # no totals
        if given:
            raise InvalidFields("fields are given by name", model=cls, given=given, fields=allowed) from error
        if unknown:
            near = {name: found[0] for name in unknown if (found := get_close_matches(name, allowed, n=1))}
            raise InvalidFields(
                "the model has no such fields",
                model=cls,
                unknown=unknown,
                **({"perhaps": near} if near else {"fields": allowed}),
            ) from error
        missing = [
            name for name in known if name not in fields and defaults.get(name, msgspec.NODEFAULT) is msgspec.NODEFAULT
        ]
        if missing:
            raise InvalidFields("the constructor needs these fields too", model=cls, missing=missing) from error

    def _arguments_of(written: tuple[Any, ...]) -> tuple[Any, ...]:
        """The type arguments of the last base that has any."""
        found = [getattr(base, "key_types", None) or getattr(base, "__args__", None) for base in written]
        return tuple(next(filter(None, reversed(found)), ()))

    class _KeyedBase:
        """`Model[str, int]` at run time: a base that resolves to Model and keeps the types."""

        def __init__(self, cls: type, key_types: Any) -> None:
            self.base = cls
            self.key_types = key_types if isinstance(key_types, tuple) else (key_types,)

        def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[type, ...]:
            return (self.base,)

    class Keyed:
        """Carries the types of the key's parts."""

        __slots__ = ()

        def __class_getitem__(cls, key_types: Any) -> Any:
            return _KeyedBase(cls, key_types)


def _check_options(name: str, bases: tuple[type, ...], options: Mapping[str, object]) -> None:
    """Raises InvalidDeclaration for an option of the declaration that is in the head of its class."""
    for option in sorted(options.keys() & {each for base in bases for each in getattr(base, "reserved_names", ())}):
        raise InvalidDeclaration(_IN_THE_BODY, declaration=name, option=option)
