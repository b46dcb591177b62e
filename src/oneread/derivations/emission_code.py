"""The function that emits an entity, while it is written: operations add statements, and use what others have made.

One straight function for all views of a class makes each element of a key, each amount and each value once, as a local
variable. See docs/decisions/0065-one-function-emits-all-views.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeAlias

from oneread.derivations.buckets import STARTS, in_utc
from oneread.derivations.emitted_record import Emission, short_hash
from oneread.encoding import ordered
from oneread.encoding.codec import Codec, KeyElement
from oneread.encoding.codegen import function, indented
from oneread.encoding.values import digest
from oneread.errors import LimitExceeded
from oneread.models.set_order import order_sets
from oneread.store.keys import spread_part
from oneread.store.limits import KEY_BYTES
from oneread.transactions.deltas import digits_of, exact_number

Emit: TypeAlias = Callable[
    [Any, Mapping[str, Any], tuple[Any, ...], bytes, Mapping[str, Sequence[bytes]], int], Emission
]
"""From an entity, its hidden copies by name, its key's parts, its key, what it refers to by field, and the clock."""


SCOPE: Final[Mapping[str, object]] = {
    "Emission": Emission,
    "LimitExceeded": LimitExceeded,
    "digest": digest,
    "exact": exact_number,
    "hashed": short_hash,
    "in_order": order_sets,
    "in_utc": in_utc,
    "microsecond": timedelta(microseconds=1),
    "spread_part": spread_part,
    "text": digits_of,
    "whole": ordered.encode,
    **{f"start_{size}": start for size, start in STARTS.items()},
}
"""What the statements of operations call."""


class Shared(NamedTuple):
    """A variable, and the statements that give it a value unless those of another view have."""

    variable: str
    lines: list[str]


class EmissionCode:
    """The statements of some views about one class.

    They see `e` (the entity), `u` (its hidden copies), `k` (its key's parts), `suffix` (its key), `refs` (the keys of
    the root rows that it refers to, by field) and `now` (the clock; 0 to have rows that have expired too), and add to
    `shown`, `deltas` and `claims` of the emission. `encoded` has the expressions of elements of keys that are encoded
    already, by signature.
    """

    def __init__(self, owner: str, encoded: Mapping[str, str] = {}) -> None:
        self.encoded = encoded
        self._owner = owner
        self._scope: dict[str, object] = {**SCOPE}
        self._names: dict[tuple[str, int], str] = {}
        self._encoders: dict[tuple[KeyElement, ...], str] = {}
        self._tokens: dict[int, str] = {}
        self.registers: dict[str, str] = {}
        """The variables of what is shared, by signature."""
        self._lines: list[str] = []
        self._is_repeated = False

    def name(self, hint: str, value: object) -> str:
        """The name of a value: the hint and a number."""
        known = self._names.get((hint, id(value)))
        if known is None:
            known = self._names[hint, id(value)] = f"{hint}_{len(self._names)}"
            self._scope[known] = value
        return known

    def encoder(self, elements: tuple[KeyElement, ...]) -> str:
        """The name of the function that encodes values of these elements."""
        known = self._encoders.get(elements)
        if known is None:
            known = self._encoders[elements] = self.name("encode", Codec(elements, max_length=KEY_BYTES).encode)
        return known

    def contributions(self, token: int) -> str:
        """The list of the contributions of a token, to which statements add."""
        return self._tokens.setdefault(token, f"c{len(self._tokens)}")

    def adds(self, token: int, added: str) -> str:
        """The statement of one row that adds to the contributions of a token."""
        return f"{self.contributions(token)} {f'+= {added}' if self._is_repeated else f'= [{added}]'}"

    @contextmanager
    def rows(self, *, is_repeated: bool) -> Generator[None]:
        """While the statements of a row are written: an entity may have several."""
        self._is_repeated = is_repeated
        yield
        self._is_repeated = False

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens whose contributions the function lists, in their order."""
        return tuple(self._tokens)

    def shared(self, signature: str, lines: Callable[[str], Sequence[str]]) -> Shared:
        """The variable of what has this signature; `lines` assign it a value that is not None."""
        variable = self.registers.setdefault(signature, f"s{len(self.registers)}")
        return Shared(variable, [f"if {variable} is None:", *indented(lines(variable))])

    def add_view(self, view: type, lines: Sequence[str]) -> None:
        """Adds the statements of a view; a `break` ends them where the entity is not in it."""
        self._lines += [f"# {view.__qualname__!a}", "while True:", *indented([*lines, "break"])]

    def compiled(self) -> Emit:
        """The function."""
        record = ", ".join(f"{token!r}: {variable}" for token, variable in self._tokens.items())
        lines = ["shown = {}; deltas = []; claims = []", *(f"{variable} = []" for variable in self._tokens.values())]
        if self.registers:
            lines.append(f"{' = '.join(self.registers.values())} = None")
        lines += [*self._lines, f"return Emission({{{record}}}, shown, deltas, claims)"]
        return function("emit", "e, u, k, suffix, refs, now", lines, self._scope, self._owner)
