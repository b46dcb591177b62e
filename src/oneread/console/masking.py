"""Which values a console masks: those of personal fields, wherever pages show them.

All that decides it is here. Of which field a value is that stands elsewhere, the declarations say, as for `oneread
privacy` and for dumps without personal data. See docs/decisions/0161-consoles-mask-personal-values.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from typing import Any, Final

from oneread.console.sealing import Seal
from oneread.derivations.access import Accesses
from oneread.derivations.catalog import Catalog
from oneread.derivations.personal_fields import DeclaredValue, PersonalFields
from oneread.derivations.rules import rules_of
from oneread.derivations.views import View
from oneread.errors import InvalidQuery, OnereadError, shown
from oneread.evolution.privacy import personal_places
from oneread.evolution.schema import Schema
from oneread.models.paths import path_of
from oneread.models.references import Copy
from oneread.models.registry import EntityKind, root_model, target_of

MASK: Final = "•••"
"""What stands in place of a personal value, whatever that is; a page says to screen readers what it means."""
_NAMES: Final = frozenset(
    {"by", "did", "example", "field", "job", "known", "limit", "model", "of", "part", "parts", "view"}
)
"""Facts of errors that are of declarations and of the console, and not of values."""


class Masking:
    """What is masked of one store."""

    def __init__(self, schema: Schema, catalog: Catalog, seal: Seal) -> None:
        self._schema = schema
        self._catalog = catalog
        self._seal = seal
        self.shows = False
        self._personal = PersonalFields(catalog)
        self._accesses = Accesses(catalog.names)
        self._holding = frozenset(each.place.partition(".")[0] for each in personal_places(schema))
        self._known: dict[tuple[type, str], bool] = {}

    @property
    def masks(self) -> bool:
        """Whether there is anything to mask."""
        return bool(self._holding) and not self.shows

    def shown(self) -> Masking:
        """The same for what may be read by someone: masks nothing in texts, and seals what is in addresses."""
        made = copy(self)
        made.shows = True
        return made

    def masks_any_of(self, cls: type) -> bool:
        """Whether rows of a model or view may have a personal value."""
        own = {cls, root_model(cls)} if cls in self._catalog.entity_types else {cls}
        return self.masks and any(each.__name__ in self._holding for each in own)

    def masks_named(self, name: str) -> bool:
        """Whether a text that is about a declaration of this name may quote a personal value; any other text may."""
        cls = self._schema.named().get(name)
        return self.masks if cls is None else self.masks_any_of(cls)

    def text_of(self, name: str, text: str) -> str:
        """A text that is about a declaration of this name."""
        return MASK if text and self.masks_named(name) else text

    def masks_part(self, cls: type, place: int) -> bool:
        """Whether a part of the key of a model or view is masked."""
        return self.masks and place < len(parts := self._personal_parts(cls)) and parts[place]

    def of_entity(self, text: str) -> str:
        """The text of an entity, `Customer(7)` or `Customer 7`; of a row, `Home(7)`; of a counter."""
        name = text.replace("(", " ").partition(" ")[0].partition(".")[0]
        cls = self._schema.named().get(name)
        if cls is None:
            return MASK if self.masks else text
        is_personal = any(self._personal_parts(cls)) if cls in self._catalog.kinds else self.masks_any_of(cls)
        return f"{name} {MASK}" if self.masks and is_personal else text

    def counter(self, name: str) -> str:
        """The name of a counter: one that an entity shows has the key of this entity."""
        return MASK if self.masks and self._is_of_key(name) else name

    def sealed_counter(self, name: str) -> str:
        """The name of a counter for an address."""
        return self._seal.seal(name) if self._holding and self._is_of_key(name) else name

    def check_prefix(self, prefix: str) -> None:
        """Raises InvalidQuery for the beginning of a masked name, by which names could be found out step by step."""
        if self.masks and self._is_of_key(prefix, longer=True):
            raise InvalidQuery(
                "names of these counters are masked, and not searched by what they begin with", prefix=prefix
            )

    def words(self, cls: Any, words: Sequence[str]) -> list[str]:
        """The words of a key as they are shown, the first parts of those of a view; all may be personal of None."""
        return [MASK if self.masks and each else word for word, each in self._with_parts(cls, words)]

    def sealed_words(self, cls: Any, words: Sequence[str]) -> list[str]:
        """The words of a key for an address."""
        return [self._seal.seal(word) if each else word for word, each in self._with_parts(cls, words)]

    def sealed(self, text: str) -> str:
        """A text for an address that may have a key of any class."""
        return self._seal.seal(text) if text and self._holding else text

    def error(self, error: OnereadError, typed: Collection[str] = ()) -> str:
        """An error in words, without facts that may be values; those that were typed by the one who asks stay."""
        if not self.masks or not error.facts:
            return str(error)

        def said(name: str, fact: object) -> str:
            is_known = name in _NAMES or fact is None or isinstance(fact, (type, bool)) or fact in typed
            return shown(fact) if is_known else MASK

        return f"{error.message} ({', '.join(f'{name}={said(name, fact)}' for name, fact in error.facts.items())})"

    def _with_parts(self, cls: Any, words: Sequence[str]) -> list[tuple[str, bool]]:
        """Each word, and whether it is personal: words behind the key of a view are the key of what it is about."""
        if not self._holding or not (cls in self._catalog.kinds or cls in self._catalog.views):
            return [(word, bool(self._holding)) for word in words]
        parts = self._personal_parts(cls)
        view = self._catalog.views.get(cls)
        if view is not None and view.model in self._catalog.kinds:
            parts = (*parts, *self._personal_parts(view.model))
        return [(word, place >= len(parts) or parts[place]) for place, word in enumerate(words)]

    def _personal_parts(self, cls: Any) -> tuple[bool, ...]:
        """Of each part of a key, whether it is personal."""
        view = self._catalog.views.get(cls)
        if view is None:
            return tuple(self._parts_of_kind(self._catalog.kinds[cls]))
        return tuple(
            self._is_personal(cls, part.field)
            for part in view.key.parts
            for _element in (part.elements if not part.rule.hashed else (part,))
        )

    def _parts_of_kind(self, kind: EntityKind) -> list[bool]:
        found: list[bool] = []
        for field in kind.fields:
            if field.target is not None:
                found += self._personal_parts(root_model(field.target))
            else:
                found.append(self._personal.is_personal(DeclaredValue(kind.cls, (field.name,))))
        return found

    def masks_value(self, cls: type, name: str) -> bool:
        """Whether a field of a model or view has a value that is personal, or holds one that is."""
        return self.masks and self._is_personal(cls, name)

    def _is_personal(self, cls: type, name: str) -> bool:
        if (cls, name) not in self._known:
            self._known[cls, name] = self._comes_of_personal(cls, name)
        return self._known[cls, name]

    def _comes_of_personal(self, cls: Any, name: str) -> bool:
        if not issubclass(cls, View):
            route = tuple(name.split("."))
            return route[0] not in cls.__struct_fields__ or bool(self._personal.origins(cls, route))
        rule = rules_of(cls).get(name)
        if rule is None:  # `source`, the entity that a row is of
            return any(self._personal_parts(self._catalog.views[cls].model))
        if rule.fold == "count":
            return False
        about = self._personal.about(cls)[name]
        only = rule.kind == "key"
        return any(self._personal.origins(about, path_of(each).names, only_refers=only) for each in rule.given_fields)

    def masks_copied(self, copy: type[Copy[Any]], name: str) -> bool:
        """Whether a value that a copy has is personal."""
        target: Any = target_of(copy, self._catalog.names)
        return self.masks and bool(self._personal.origins(target, self._accesses.source_route(copy, name)))

    def _is_of_key(self, name: str, *, longer: bool = False) -> bool:
        """Whether a name may be of a counter that an entity of a personal key shows; `longer` than how all begin."""
        for entity_type in self._catalog.entity_types.values():
            for rollup in entity_type.rollups:
                begins = str(getattr(rollup.shown, "name", "")).partition("{")[0]
                is_like = rollup.number is None and begins and name.startswith(begins)
                is_like = is_like and not (longer and name == begins)
                if is_like and any(self._personal_parts(entity_type.kind.cls)):
                    return True
        return False
