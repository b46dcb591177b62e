"""Emitters: the functions that emit entities of one class, each without other views, and which views may be left out.

What is remembered here depends on declarations alone, so that any stores and threads may share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from oneread.derivations.copies import Reference
from oneread.derivations.derivation import CompiledView, inputs_of
from oneread.derivations.emission_code import EmissionCode, Emit
from oneread.derivations.emitted_record import Record
from oneread.derivations.keyed import reference_signature
from oneread.derivations.operations import ViewProgram

NO_TOKENS: Final[frozenset[int]] = frozenset()
_WAYS: Final = 64
"""In which entities of one type may change and keep contributions: each may need a function that emits the others."""


class Emitters:
    """The emitters of one entity class. `tokens` are those of all views of its kind, `views` those that it emits."""

    def __init__(
        self, owner: str, references: Sequence[Reference], views: Sequence[CompiledView], tokens: frozenset[int]
    ) -> None:
        self._owner = owner
        self._tokens = tokens
        self._inputs = tuple((view, inputs_of(view)) for view in views)
        self.encoded = {
            reference_signature(each.name): f"refs[{each.name!r}][0][{len(each.kind.root_of(b''))}:]"
            for each in references
            if not each.many
        }
        """The expressions of elements of keys that are in the keys of root rows, by signature."""
        self._emitters: dict[AbstractSet[int], Emit] = {}
        self._order: tuple[int, ...] = ()
        self._kept: dict[frozenset[str], frozenset[int]] = {}
        self._recorded: dict[frozenset[int], frozenset[int]] = {}

    def skipping(self, skipped: AbstractSet[int]) -> Emit:
        """The function that emits the views without these tokens."""
        return self._emitters.get(skipped) or self._generate(skipped)

    def programs(self, skipped: AbstractSet[int] = NO_TOKENS) -> Iterator[ViewProgram]:
        """What each view without these tokens does, in the order in which it is done."""
        return (view.program() for view, _needed in self._inputs if skipped.isdisjoint(view.tokens))

    def _generate(self, skipped: AbstractSet[int]) -> Emit:
        code = EmissionCode(self._owner, self.encoded)
        for program in self.programs(skipped):
            program.add_to(code)
        for token in self._tokens - skipped:
            code.contributions(token)
        found = self._emitters[frozenset(skipped)] = code.compiled()
        if not skipped:
            self._order = code.tokens
        return found

    def order(self) -> tuple[int, ...]:
        """The tokens of all views, in the order of a record."""
        if not self._order:
            self._generate(NO_TOKENS)
        return self._order

    def recorded_tokens(self, record: Record) -> frozenset[int]:
        """The tokens of declared views that a record has all tokens of; none where this is asked in many ways."""
        recorded = frozenset(record)
        kept = self._recorded.get(recorded)
        if kept is None:
            if len(self._recorded) >= _WAYS:
                return NO_TOKENS
            kept = _tokens_of(view for view, _needed in self._inputs if recorded.issuperset(view.tokens))
            self._recorded[recorded] = kept
        return kept

    def tokens_without(self, differing: frozenset[str]) -> frozenset[int]:
        """The tokens of views that need none of these inputs (`inputs_of`); none where this is asked in many ways."""
        kept = self._kept.get(differing)
        if kept is None:
            if len(self._kept) >= _WAYS:
                return NO_TOKENS
            kept = _tokens_of(view for view, needed in self._inputs if needed.isdisjoint(differing))
            self._kept[differing] = kept
        return kept

    def tokens_with(self, inputs: AbstractSet[str]) -> frozenset[int]:
        """The tokens of views that need any of these inputs."""
        return _tokens_of(view for view, needed in self._inputs if needed & inputs)


def _tokens_of(views: Iterable[CompiledView]) -> frozenset[int]:
    return frozenset(token for view in views for token in view.tokens)
