"""Rows, records and differences in words: entities and views by name, values by field, never bytes.

What cannot be decoded is named by what is known of it: its table, the number of its model or view, its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from oneread.derivations.emitted_record import (
    COPIED,
    HELD,
    HIDDEN,
    LAST_VALUES,
    REFERENCES,
    ROWS,
    SUMS,
    UNIQUE,
    Contributions,
    Record,
    form_of,
    group_amounts,
    row_suffixes,
    view_of,
)
from oneread.errors import shown
from oneread.models.references import Copy, Ref, copied_names
from oneread.plans.progress import ValueDifference
from oneread.store.keys import (
    PREFIX_BYTES,
    holder_part,
    kind_part,
    number_and_generation,
    pointed_part,
    pointer_part,
    view_part,
)
from oneread.store.rows import Table
from oneread.transactions.deltas import Number
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS, group_of_root, is_group_root
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces

_POINTERS: Final[Mapping[bytes, str]] = {BACK_REFERENCES: "back-reference", HOLDS: "hold"}
_FORMS: Final[Mapping[int, tuple[str, Table]]] = {
    ROWS: ("rows in", "views"),
    SUMS: ("amounts in", "counts"),
    UNIQUE: ("unique values in", "counts"),
}
_WITHOUT_VIEW: Final[Mapping[int, str]] = {
    REFERENCES: "back-references",
    HELD: "holds",
    HIDDEN: "hidden copies",
    COPIED: "digest of copied values",
    LAST_VALUES: "last values",
}
_NAMED: Final = 3
"""Contributions of one token that the difference of a record names."""
_UNQUOTED: Final = 40
"""The longest text in a key that is named without quotes."""


def spell_entity(keyspaces: StoreKeyspaces, key: bytes) -> str:
    """An entity's model and key as the command line takes them: `Purchase 537626/1`; a group by its root row."""
    if is_group_root(key):
        return spell_row(keyspaces, "counts", group_of_root(key))
    try:
        kind = keyspaces.catalog.kind_of(key)
        return f"{kind.cls.__name__} {spell_values(kind.parts_of(key))}"
    except DAMAGED:
        return keyspaces.name_of(key)


def spell_values(values: Iterable[object]) -> str:
    """The values of a key in one word each; text in quotes where it would not be clear where it ends."""
    return "/".join(map(_spell, values))


def _spell(value: object) -> str:
    if isinstance(value, Ref):
        return spell_values(value.key)
    if type(value) is str:
        is_plain = 0 < len(value) <= _UNQUOTED and value.isprintable() and not set(value) & set(" '\"/,:")
        return value if is_plain else shown(value)
    isoformat = getattr(value, "isoformat", None)
    return str(isoformat()) if isoformat is not None else shown(value)


def row_name(keyspaces: StoreKeyspaces, table: Table, key: bytes) -> str:
    """A derived row by its view and the values in its key: `PurchasesOfBuyer(12347, 1)`; a pointer by both ends."""
    keyspace = keyspaces.keyspace_of(table, key)
    try:
        if keyspace is not None:
            return f"{keyspace.name}({', '.join(map(_quoted, keyspace.values(key)))})"
        source = keyspaces.source_of(key)
    except DAMAGED:
        return damaged_row(keyspaces, table, key)
    return f"{keyspaces.name_of(source)} <- {keyspaces.name_of(holder_part(pointed_part(key)[len(source) :]))}"


def spell_row(keyspaces: StoreKeyspaces, table: Table, key: bytes) -> str:
    """A derived row as `row_name` has it, its key as the command line takes it."""
    keyspace = keyspaces.keyspace_of(table, key)
    try:
        if keyspace is not None:
            return f"{keyspace.name} {spell_values(keyspace.values(key))}"
        source = keyspaces.source_of(key)
    except DAMAGED:
        return damaged_row(keyspaces, table, key)
    holder = spell_entity(keyspaces, holder_part(pointed_part(key)[len(source) :]))
    return f"{_POINTERS[pointer_part(key)]} from {spell_entity(keyspaces, source)} to {holder}"


def damaged_row(keyspaces: StoreKeyspaces, table: Table, key: bytes) -> str:
    """What is known of a row whose key cannot be read, or that is under no model or view."""
    size = f"a key of {len(key)} bytes"
    if len(key) < PREFIX_BYTES.get(table, 0):
        return f"a row of {table} with {size}"
    if table == "roots":
        return f"a row of roots of model number {int.from_bytes(kind_part(key))}, with {size}"
    if table == "system":
        return f"a row of system named {shown(key.decode(errors='replace'))}"
    keyspace = keyspaces.keyspace_of(table, key)
    if keyspace is not None:
        return f"a row of {keyspace.name} with a damaged key of {len(key)} bytes"
    if pointer_part(key) in _POINTERS:
        return f"a {_POINTERS[pointer_part(key)]} with {size}"
    number, generation = number_and_generation(view_part(key))
    return f"a row of {table} of view number {number}, generation {generation}, with {size}"


def fields_of(keyspaces: StoreKeyspaces, table: Table, key: bytes, data: bytes | None) -> Mapping[str, str] | None:
    """The values of a derived row by field, as text; None where they cannot be read."""
    if data is None:
        return {}
    keyspace = keyspaces.keyspace_of(table, key)
    if keyspace is None or (table == "counts" and not keyspace.width):
        return {"owner": spell_entity(keyspaces, data)} if keyspace is not None else {}
    if keyspace.fields is None:
        return None
    try:
        return flat_values(keyspace.fields(data))
    except DAMAGED:
        return None


def flat_values(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as text, those of a copy one by one: `buyer.name`."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if not isinstance(value, Copy):
            flat[name] = spell_values(value.key) if isinstance(value, Ref) else shown(value)
            continue
        flat[name] = spell_values(value.ref.key)
        own = {each: getattr(value, each) for each in copied_names(type(value)) if hasattr(value, each)}
        flat |= {f"{name}.{each}": shown(held) for each, held in own.items()}
        if hasattr(value, "deleted"):
            flat[f"{name}.deleted"] = str(value.deleted)
    return flat


def numbers_of(names: tuple[str, ...], amounts: Iterable[Number]) -> dict[str, str]:
    """The numbers of a group by what they are."""
    return {
        names[place] if place < len(names) else f"number {place + 1}": str(amount)
        for place, amount in enumerate(amounts)
    }


def differences_of(expected: Mapping[str, str], found: Mapping[str, str]) -> tuple[ValueDifference, ...]:
    """What differs between values by field."""
    names = dict.fromkeys([*expected, *found])
    return tuple(
        ValueDifference(name, expected.get(name, ""), found.get(name, ""))
        for name in names
        if expected.get(name) != found.get(name)
    )


def spell_differences(differences: Iterable[ValueDifference]) -> str:
    """Differences in one line, each from what was found to what was expected: `buyer.name: 'Ada' -> 'Bea'`."""
    return ", ".join(f"{each.field}: {each.found or 'nothing'} -> {each.expected or 'nothing'}" for each in differences)


def record_differences(
    keyspaces: StoreKeyspaces, tokens: Iterable[int], expected: Record, found: Record
) -> tuple[ValueDifference, ...]:
    """What a record says of each token and what it should say: only what both do not have in common."""
    differences: list[ValueDifference] = []
    for token in tokens:
        wanted, recorded = (_contributions(keyspaces, token, each.get(token)) for each in (expected, found))
        only_wanted = [each for each in wanted if each not in recorded]
        only_recorded = [each for each in recorded if each not in wanted]
        if not only_wanted and not only_recorded:
            only_wanted, only_recorded = ["as the entity has it"], ["another order, or other values"]
        differences.append(ValueDifference(_token_name(keyspaces, token), _listed(only_wanted), _listed(only_recorded)))
    return tuple(differences)


def spell_record(keyspaces: StoreKeyspaces, record: Record) -> str:
    """What a record says, token by token."""
    said = {_token_name(keyspaces, token): _listed(_contributions(keyspaces, token, record[token])) for token in record}
    return ", ".join(f"{name}: {each}" for name, each in said.items() if each)


def _token_name(keyspaces: StoreKeyspaces, token: int) -> str:
    form, prefix = form_of(token), view_of(token)
    if form not in _FORMS:
        return _WITHOUT_VIEW.get(form, "contributions of an unknown form")
    words, table = _FORMS[form]
    keyspace = keyspaces.keyspaces.get((table, prefix))
    if keyspace is not None:
        return f"{words} {keyspace.name}"
    number, generation = number_and_generation(prefix)
    return f"{words} view number {number}, generation {generation}"


def _contributions(keyspaces: StoreKeyspaces, token: int, given: Contributions) -> list[str]:
    """The contributions of one token in words."""
    spell = _SPELLED.get(form_of(token), _spell_digest)
    try:
        return spell(keyspaces, view_of(token), given) if given else []
    except DAMAGED:
        return ["unreadable"]


def _spell_rows(keyspaces: StoreKeyspaces, prefix: bytes, given: Contributions) -> list[str]:
    return [_suffix(keyspaces, "views", prefix + suffix) for suffix, _digest in row_suffixes(given)]


def _spell_claims(keyspaces: StoreKeyspaces, prefix: bytes, given: Contributions) -> list[str]:
    return [_suffix(keyspaces, "counts", prefix + suffix) for suffix in given]


def _spell_sums(keyspaces: StoreKeyspaces, prefix: bytes, given: Contributions) -> list[str]:
    groups = [(_suffix(keyspaces, "counts", prefix + suffix), amounts) for suffix, amounts in group_amounts(given)]
    return [f"{group} by {', '.join(map(str, amounts))}" for group, amounts in groups]


def _spell_entities(keyspaces: StoreKeyspaces, _prefix: bytes, given: Contributions) -> list[str]:
    return [spell_entity(keyspaces, each) for each in given]


def _spell_sources(keyspaces: StoreKeyspaces, _prefix: bytes, given: Contributions) -> list[str]:
    """Each without the selection behind its key."""
    return [spell_entity(keyspaces, keyspaces.source_of(BACK_REFERENCES + each)) for each in given]


def _spell_values(_keyspaces: StoreKeyspaces, _prefix: bytes, given: Contributions) -> list[str]:
    return [f"{name}={shown(value)}" for name, value in given.items()]


def _spell_digest(_keyspaces: StoreKeyspaces, _prefix: bytes, _given: Contributions) -> list[str]:
    return ["present"]


_SPELLED: Final[Mapping[int, Callable[[StoreKeyspaces, bytes, Contributions], list[str]]]] = {
    ROWS: _spell_rows,
    UNIQUE: _spell_claims,
    SUMS: _spell_sums,
    REFERENCES: _spell_sources,
    HELD: _spell_entities,
    HIDDEN: _spell_values,
    LAST_VALUES: _spell_values,
    COPIED: _spell_digest,
}


def _suffix(keyspaces: StoreKeyspaces, table: Table, key: bytes) -> str:
    keyspace = keyspaces.keyspace_of(table, key)
    return "a row" if keyspace is None else spell_values(keyspace.values(key))


def _listed(words: list[str]) -> str:
    more = [f"... ({len(words)} in all)"] if len(words) > _NAMED else []
    return ", ".join([*words[:_NAMED], *more])


def _quoted(value: object) -> str:
    isoformat = getattr(value, "isoformat", None)
    return shown(value) if isoformat is None else str(isoformat())
