"""The functions that run once per document, generated: one statement a field, as dataclasses generate theirs.

See encoding/codegen.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from decimal import Decimal
from keyword import iskeyword
from types import WrapperDescriptorType
from typing import Any, Final

import msgspec

from oneread.encoding.codegen import function, indented
from oneread.errors import InvalidDeclaration
from oneread.models.differences import is_exact
from oneread.models.fields import Marker
from oneread.models.references import copied_names
from oneread.models.set_order import order_sets
from oneread.models.shadow import FieldShape, become

LEFT_OUT: Final = msgspec.msgpack.Ext(5, b"")
"""In a document that is not filled yet, in place of a value that the store gives."""


def functions_of(
    cls: type, fields: tuple[FieldShape, ...], scope: dict[str, Any], *, has_id: bool
) -> dict[str, Callable[..., Any]]:
    """Generates the functions of a layout by name: encode, decode and their parts; and `given`.

    `scope` holds what they call: PREFIX, FAULTS, pack, unpack, encode_beyond, decode_beyond, difference; `loose`, the
    fields of abstract types, and `marked`, those that the store gives values.
    """
    if odd := [each.name for each in fields if iskeyword(each.name)]:
        raise InvalidDeclaration("a field cannot be named like a keyword", declaration=cls, field=odd[0])
    space: dict[str, Any] = scope | {"become": become, "in_order": order_sets, "CLS": cls}
    space |= {"Marker": Marker, "LEFT_OUT": LEFT_OUT}
    space |= {f"COPY_{at}": field.cls for at, field in enumerate(fields) if field.kind == "copy"}
    space |= {_ref_name(each): each.shadow for field in fields for each in (field, *field.fields) if _is_set(each)}
    copies = [f"copy_{at} = entity.{field.name}" for at, field in enumerate(fields) if field.kind == "copy"]
    row = f"({''.join(_value(at, field) for at, field in enumerate(fields))})"
    marked = scope["marked"]
    given = f"({''.join(_given(at, field, marked) for at, field in enumerate(fields))})"
    settle = _settled(cls, fields)
    take = [f"entity = unpack(doc{'[2:]' if has_id else ''})", *settle, "return entity"]
    decode = ["try:", *indented(take), "except FAULTS as error: return decode_beyond(doc, error)"]
    same = " and ".join(_same(field, field.name in scope["loose"], marked) for field in fields) or "True"
    bodies = {
        "row": ("entity", [*copies, f"return {row}"]),
        "encode": (
            "entity",
            [
                "try:",
                *indented([*copies, f"return PREFIX + pack({row})"]),
                "except FAULTS as error: return encode_beyond(entity, error)",
            ],
        ),
        "given": ("entity", [*copies, f"return PREFIX + pack({given})"]),
        "settle": ("entity", [*settle, "return entity"]),
        "take": ("doc", take),
        "decode_known": ("doc", decode),
        "same": ("given, read", [f"return {same}"]),
    }
    if has_id:
        bodies["decode"] = ("doc", ["if doc[:2] != PREFIX: return decode_beyond(doc, None)", *decode])
    made = {
        name: function(name, arguments, lines, space, cls.__qualname__) for name, (arguments, lines) in bodies.items()
    }
    return {"decode": made["decode_known"]} | made


def settler(cls: type, fields: tuple[FieldShape, ...], emptied: Collection[str]) -> Callable[[list[Any]], list[Any]]:
    """Generates the function that makes parsed shadows instances of the user's classes, in place, and returns the list.

    The copies in the fields `emptied` lose their copied fields and `deleted`, which no document of theirs has.
    """
    scope: dict[str, Any] = {"become": become, "CLS": cls}
    scope |= {f"COPY_{at}": field.cls for at, field in enumerate(fields) if field.kind == "copy"}
    scope |= {_ref_name(each): each.shadow for field in fields for each in (field, *field.fields) if _is_set(each)}
    for at, field in enumerate(fields):
        if field.name in emptied:
            names = _emptied_names(field)
            scope |= {f"out_{at}_{place}": getattr(field.cls, name).__delete__ for place, name in enumerate(names)}
    lines = ["for entity in entities:", *indented(_settled(cls, fields, emptied))]
    # An instance of a frozen class refuses: another thread that shares the page has settled it, an interrupted call, or
    # the decoder of one document. `become` sets a class again, and what is empty stays so.
    again = ["for entity in entities:", *indented(_settled(cls, fields, emptied, again=True))]
    body = ["try:", *indented(lines), "except AttributeError:", *indented(again), "return entities"]
    return function("settle_many", "entities", body, scope, cls.__qualname__)


def _emptied_names(field: FieldShape) -> tuple[str, ...]:
    return "deleted", *copied_names(field.cls)


def _value(at: int, field: FieldShape) -> str:
    """One element of the array, as an expression and a comma."""
    if field.kind != "copy":
        return f"{_in_order(field, f'entity.{field.name}')}, "
    copy = f"copy_{at}"
    elements = "".join(f"{_in_order(inner, f'{copy}.{inner.name}')}, " for inner in field.fields)
    return f"None if {copy} is None else ({elements}), " if field.optional else f"({elements}), "


def _given(at: int, field: FieldShape, marked: Collection[str]) -> str:
    """`_value` of an entity before it is filled: a copy is its reference alone, LEFT_OUT is in place of a marker."""
    if field.name in marked:
        return f"LEFT_OUT if type(entity.{field.name}) is Marker else {_value(at, field)}"
    if field.kind != "copy":
        return _value(at, field)
    return f"None if copy_{at} is None else (copy_{at}.ref,), " if field.optional else f"(copy_{at}.ref,), "


def _in_order(field: FieldShape, value: str) -> str:
    """The expression of a value as it is stored."""
    return f"in_order({value})" if field.sets else value


def _same(field: FieldShape, loose: bool, marked: Collection[str]) -> str:  # noqa: FBT001
    """The expression that is True only when a field is read as it was given; False needs a closer comparison.

    The values of a copy are its source's, so only its reference is compared; a key's parts are exact types. In place of
    a marker the store has given a value.
    """
    if field.name in marked:
        return f"(type(given.{field.name}) is Marker or {_same(field, loose, ())})"
    given, read = f"given.{field.name}", f"read.{field.name}"
    if field.kind in ("copy", "ref"):
        key = "ref.key" if field.kind == "copy" else "key"
        return f"({given} is None or {_same_key(f'{given}.{key}', f'{read}.{key}')})"
    present = field.type.present
    if present.bare is Decimal:
        return f"(type({given}) is type({read}) and ({read} is None or {read}.is_finite()))"
    if present.cls is list and present.parts and is_exact(present.parts[0]):
        return f"({given} is None or (type({given}) is list and {_same_types(given, read)}))"
    return (
        f"type({given}) is type({read})"
        if is_exact(field.type)
        else f"difference({given}, {read}, loose={loose}) is None"
    )


def _same_key(given: str, read: str) -> str:
    """`_same_types` of keys, most of which have one part."""
    first = f"type(g[0]) is type(r[0]) if len(g := {given}) == len(r := {read}) == 1"
    return f"({first} else {_same_types('g', 'r')})"


def _same_types(given: str, read: str) -> str:
    return f"[*map(type, {given})] == [*map(type, {read})]"


def _settled(
    cls: type, fields: tuple[FieldShape, ...], emptied: Collection[str] = (), *, again: bool = False
) -> list[str]:
    """The statements that turn decoded shadows into instances of the user's classes; `again` if some may be already."""
    lines: list[str] = []
    for at, field in enumerate(fields):
        if field.kind != "copy":
            lines += _settled_refs("entity", field)
            continue
        copy = f"copy_{at}"
        inner = _emptied(at, field, again=again) if field.name in emptied else []
        inner += [_become(copy, f"COPY_{at}", field.cls, again=again)]
        inner += [line for each in field.fields for line in _settled_refs(copy, each)]
        lines += [f"{copy} = entity.{field.name}", *_unless_none(copy, inner, optional=field.optional)]
    return [*lines, _become("entity", "CLS", cls, again=again)]


def _become(name: str, made: str, cls: type, *, again: bool) -> str:
    """The statement that sets a class; a class may have a `__setattr__` of its own, which is not asked."""
    own = type(cls.__setattr__) is not WrapperDescriptorType
    return f"become({name}, {made})" if again or own else f"{name}.__class__ = {made}"


def _emptied(at: int, field: FieldShape, *, again: bool) -> list[str]:
    """The statements that empty a copy; `again` if parts of it may be empty already."""
    names = _emptied_names(field)
    outs = [f"out_{at}_{place}(copy_{at})" for place in range(len(names))]
    if again:
        return [line for out in outs for line in (f"try: {out}", "except AttributeError: pass")]
    own = type(field.cls.__delattr__) is not WrapperDescriptorType
    return outs if own else [f"del {', '.join(f'copy_{at}.{name}' for name in names)}"]


def _settled_refs(owner: str, field: FieldShape) -> Iterator[str]:
    if not _is_set(field):
        return
    become_ref = f"become(ref, {_ref_name(field)})"
    if field.kind == "ref":
        yield f"ref = {owner}.{field.name}"
        yield from _unless_none("ref", [become_ref], optional=field.optional)
    else:
        many = f"{owner}.{field.name} or ()" if field.optional else f"{owner}.{field.name}"
        yield f"for ref in {many}: {become_ref}"


def _is_set(field: FieldShape) -> bool:
    """Whether the class of a field's references has to be set after decoding."""
    return field.kind in ("ref", "refs") and field.shadow is not None


def _ref_name(field: FieldShape) -> str:
    return f"REF_{id(field.shadow)}"


def _unless_none(name: str, lines: list[str], *, optional: bool) -> Iterator[str]:
    if optional:
        lines = [f"if {name} is not None:", *indented(lines)]
    yield from lines
