"""The contract of a derivation: what one view makes of one entity.

Knows entities, keys and records. Must not know which view it is. A derivation is pure: it is asked for an entity's
contributions, and the diff of two emitted records does the rest. The law is "The commit row remembers what it told its
views" of the architecture page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from oneread.derivations.emitted_record import Emission
from oneread.models.model import Model


class Derivation(Protocol):
    """One view, compiled."""

    model: type[Model[Any]]
    tokens: tuple[bytes, ...]
    """What it writes into the record; each stands there even when the entity contributes nothing."""

    def emit(
        self, entity: Any, used: Mapping[str, Any], parts: tuple[Any, ...], suffix: bytes, into: Emission, /
    ) -> None:
        """Adds what the entity contributes.

        Arguments:
            entity: with its copies filled.
            used: its hidden copies by name.
            parts: its key's parts.
            suffix: its key as bytes, without the prefix of its kind.
            into: what is added to.
        """
        ...
