"""The function that emits an entity, while it is written: views add statements, and use what others have made.

One straight function for all views of a class makes each element of a key, each amount and each value once, as a local
variable. See docs/decisions/0065-one-function-emits-all-views.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from oneread.derivations.emitted_record import Emission
from oneread.encoding.codegen import function, indented

Emit: TypeAlias = Callable[
    [Any, Mapping[str, Any], tuple[Any, ...], bytes, Mapping[str, Sequence[bytes]], int], Emission
]
"""From an entity, its hidden copies by name, its key's parts, its key, what it refers to by field, and the clock."""


class Shared(NamedTuple):
    """A variable, and the statements that give it a value unless those of another view have."""

    variable: str
    lines: list[str]


class NumberCondition(NamedTuple):
    """The condition of a number of an aggregate; conditions of one signature hold for the same entities."""

    text: str
    """For people."""
    signature: str
    test: Callable[[Any], bool]


class EmissionCode:
    """The statements of some views about one class.

    They see `e` (the entity), `u` (its hidden copies), `k` (its key's parts), `suffix` (its key), `refs` (the keys of
    the root rows that it refers to, by field) and `now` (the clock; 0 to have rows that have expired too), and add to
    `shown`, `deltas` and `claims` of the emission. `encoded` has the expressions of elements of keys that are encoded
    already, by signature.
    """

    def __init__(self, owner: str, encoded: Mapping[str, str] = {}) -> None:
        self._owner = owner
        self._encoded = encoded
        self._scope: dict[str, object] = {"Emission": Emission}
        self._names: dict[tuple[str, int], str] = {}
        self._tokens: dict[int, str] = {}
        self._shared: dict[str, str] = {}
        self._lines: list[str] = []

    def use(self, scope: Mapping[str, object]) -> None:
        """Gives the statements names that mean the same in those of every view, and that none of them assigns."""
        self._scope.update(scope)

    def name(self, hint: str, value: object) -> str:
        """The name of a value: the hint and a number."""
        known = self._names.get((hint, id(value)))
        if known is None:
            known = self._names[hint, id(value)] = f"{hint}_{len(self._names)}"
            self._scope[known] = value
        return known

    def contributions(self, token: int) -> str:
        """The list of the contributions of a token, to which statements add: `c0 += found, digest`."""
        return self._tokens.setdefault(token, f"c{len(self._tokens)}")

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens whose contributions the function lists, in their order."""
        return tuple(self._tokens)

    def shared(self, signature: str, lines: Callable[[str], Sequence[str]]) -> Shared:
        """The variable of what has this signature; `lines` assign it a value that is not None."""
        variable = self._shared.setdefault(signature, f"s{len(self._shared)}")
        return Shared(variable, [f"if {variable} is None:", *indented(lines(variable))])

    def element(self, signature: str, code: str) -> Shared:
        """The variable of an element of a key, which the expression `code` encodes."""
        return self.shared(signature, lambda variable: [f"{variable} = {self._encoded.get(signature, code)}"])

    def condition(self, condition: NumberCondition) -> Shared:
        """The variable that says whether a condition holds for the entity."""
        test = self.name("holds", condition.test)
        return self.shared(f"where {condition.signature}", lambda variable: [f"{variable} = {test}(e)"])

    def add_view(self, view: type, lines: Sequence[str]) -> None:
        """Adds the statements of a view; a `break` ends them where the entity is not in it."""
        self._lines += [f"# {view.__qualname__!a}", "while True:", *indented([*lines, "break"])]

    def compiled(self) -> Emit:
        """The function."""
        record = ", ".join(f"{token!r}: {variable}" for token, variable in self._tokens.items())
        lines = ["shown = {}; deltas = []; claims = []", *(f"{variable} = []" for variable in self._tokens.values())]
        if self._shared:
            lines.append(f"{' = '.join(self._shared.values())} = None")
        lines += [*self._lines, f"return Emission({{{record}}}, shown, deltas, claims)"]
        return function("emit", "e, u, k, suffix, refs, now", lines, self._scope, self._owner)
