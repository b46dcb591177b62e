"""The rules of a view as the schema row has them, and the class that is made from them again.

A view holds no code: its rules and conditions are data. So a program can write and read a generation of a view that no
program declares any more. See docs/decisions/0147-a-view-edited-in-place.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import new_class
from typing import Any, Final, cast
from uuid import UUID

import msgspec

from oneread.derivations.access import Access, Accesses
from oneread.derivations.compiled_schema import FormerView
from oneread.derivations.derivation import VIEW_KINDS, kind_of_view
from oneread.derivations.rules import BucketSize, FeedJoin, Rule, rules_of
from oneread.derivations.views import Aggregate, Feed, Index, View
from oneread.feeds.feed_rules import feed_rules
from oneread.models.expiry import Expiry, rule_of
from oneread.models.expressions import Condition, Expression, Joined, Negated
from oneread.models.fingerprints import describe_type
from oneread.models.model import Model, stored_name
from oneread.models.paths import Path, path_of
from oneread.models.references import Ref, ref_class
from oneread.models.registry import root_model
from oneread.models.types import Names, field_types, type_of
from oneread.models.versions import (
    Description,
    StoredCondition,
    StoredFeed,
    StoredOperand,
    StoredRule,
    StoredRules,
    Type,
)

WHERE: Final = "where="
"""Before the condition of a number, at the end of the text of its rule."""

_MICROSECOND: Final = timedelta(microseconds=1)

_TEXTS: Final[Mapping[type, tuple[Callable[[Any], str], Callable[[str], Any]]]] = {
    bool: (lambda value: "1" if value else "", bool),
    int: (str, int),
    float: (float.hex, float.fromhex),
    str: (str, str),
    Decimal: (str, Decimal),
    bytes: (bytes.hex, bytes.fromhex),
    datetime: (datetime.isoformat, datetime.fromisoformat),
    date: (date.isoformat, date.fromisoformat),
    timedelta: (lambda value: str(value // _MICROSECOND), lambda text: int(text) * _MICROSECOND),
    UUID: (str, UUID),
}
"""The values of conditions as text, and back; whatever their field is, since 2.5 may be compared with an int."""
_BY_NAME: Final = {cls.__name__: read for cls, (_write, read) in _TEXTS.items()}
_ENUM, _REF = "Enum", "Ref"


class _CannotStore(Exception):
    """A condition compares with a value that has no text."""


def stored_rules(
    view: type[View[Any]], of: type[Any], names: Names, way: Callable[[str, tuple[str, ...]], Description]
) -> StoredRules | None:
    """The rules of a view as data; None for other kinds, and a condition that has no such form.

    `of` is what the view is about; `way` is from a field (empty for the condition) and a path to the values on it.
    """
    bases: tuple[type[View[Any]], ...] = (Index, Aggregate, Feed)
    kinds = [VIEW_KINDS[base] for base in bases]
    if kind_of_view(view) not in kinds:
        return None
    types = {name: describe_type(given, view, name, names) for name, given in field_types(view, names).items()}
    try:
        where = None if view.where is None else _stored_condition(view.where)
        rules = tuple([_stored_rule(name, rule, types[name], way) for name, rule in rules_of(view).items()])
    except _CannotStore:
        return None
    conditions = () if view.where is None else tuple([way("", path.names) for path in view.where.paths()])
    watched = 0 if view.watched is None else view.watched // _MICROSECOND
    if issubclass(view, Aggregate):
        ttl = None if view.ttl is None else rule_of(view.ttl)
        conditions = conditions if ttl is None else (*conditions, way("", ttl.path))
        return StoredRules("aggregate", rules, where, conditions, ttl and (ttl.path, ttl.after))
    if issubclass(view, Feed):
        return _stored_feed(view, of, names, StoredRules("feed", rules, where, conditions, watched=watched), way)
    assert issubclass(view, Index), "the kinds of views that have rules"
    index: type[Index[Any]] = view
    own, model = (None if given is None else rule_of(given) for given in (index.ttl, _model_ttl(of)))
    conditions = (*conditions, *(way("", ttl.path) for ttl in (own, model) if ttl is not None))
    ttls = (own and (own.path, own.after), model and (model.path, model.after))
    return StoredRules("index", rules, where, conditions, *ttls, index.unique, index.spread, watched=watched)


def _stored_feed(
    view: type[Feed[Any]], of: type[Any], names: Names, found: StoredRules, way: Callable[..., Description]
) -> StoredRules:
    """The rules of a feed, with its options. Both sides of `joined` are ways, as those of a condition."""
    rules, joined = feed_rules(view, names), view.joined
    assert joined is not None, "feed_rules refuses a feed without it"
    item, membership = path_of(joined.item), path_of(joined.membership)
    age = -1 if view.expires_after is None else view.expires_after // _MICROSECOND
    large = view.large_group or 0
    feed = StoredFeed(
        item.names, membership.names, stored_name(rules.membership), age, item.every, view.at_most or 0, large,
        view.merged_groups if large else 0,
    )  # fmt: skip
    ways = way("", item.names), way(next(iter(rules.member)), membership.names)
    model = _model_ttl(of)
    ttl = None if model is None else rule_of(model)
    return msgspec.structs.replace(
        found, conditions=(*found.conditions, *ways), model_ttl=ttl and (ttl.path, ttl.after), feed=feed
    )


def _model_ttl(of: type[Any]) -> Expiry | None:
    found: Expiry | None = root_model(of).ttl if issubclass(of, Model) else None
    return found


def _stored_rule(name: str, rule: Rule, given: Type, way: Callable[[str, tuple[str, ...]], Description]) -> StoredRule:
    paths = [path_of(given) for given in rule.given_fields]
    first = paths[0] if paths else None
    return StoredRule(
        name,
        given,
        rule.kind,
        () if first is None else first.names,
        first is not None and first.every,
        rule.descending,
        rule.none,
        rule.hashed,
        rule.size or "",
        rule.fold or "",
        () if rule.by is None else path_of(rule.by).names,
        rule.most,
        tuple([way(name, path.names) for path in paths]),
        None if rule.where is None else _stored_condition(rule.where),
        tuple([way(name, path.names) for path in rule.condition_paths]),
    )


def _stored_condition(given: Expression) -> StoredCondition:
    if isinstance(given, Joined):
        return StoredCondition(given.how, parts=tuple(map(_stored_condition, given.parts)))
    if isinstance(given, Negated):
        return StoredCondition("not", parts=(_stored_condition(given.condition),))
    assert isinstance(given, Condition)
    operands: Iterable[Any] = given.operand if given.relation == "one_of" else (given.operand,)
    if given.relation in ("is_none", "is_not_none"):
        operands = ()
    return StoredCondition(given.relation, given.path.names, tuple(map(_stored_operand, operands)))


def _stored_operand(value: Any) -> StoredOperand:
    if isinstance(value, Enum):
        return StoredOperand(_ENUM, parts=(_stored_operand(value.value),))
    if isinstance(value, Ref):
        return StoredOperand(_REF, parts=tuple(map(_stored_operand, value.key)))
    if type(value) not in _TEXTS:
        raise _CannotStore
    write, _read = _TEXTS[type(value)]
    return StoredOperand(type(value).__name__, write(value))


def former_classes(
    formers: Iterable[FormerView], views: Mapping[str, type[View[Any]]], models: Mapping[str, type[Any]], names: Names
) -> Iterator[type[View[Any]]]:
    """The classes of views that are written besides those that are declared, `views`; `models` are by stored name.

    Raises:
        InvalidDeclaration: the rules are about fields that the models do not have.
    """
    made: dict[str, type[Any]] = {}
    for former in sorted(formers, key=lambda each: each.rules.kind):  # aggregates before the indexes over their groups
        of = next(known[former.model] for known in (models, views, made) if former.model in known)
        made[former.name] = _former_class(former, views.get(former.former_of), of, models, Accesses(names))
        yield made[former.name]


def _former_class(
    former: FormerView, now: Any, of: type[Any], models: Mapping[str, type[Any]], accesses: Accesses
) -> type[View[Any]]:
    stored = former.rules
    members = of if stored.feed is None else models[stored.feed.members]
    about = {each.name: members if each.kind == "key" and not each.descending else of for each in stored.rules}
    rules = {each.name: _rule(each, about[each.name], accesses) for each in stored.rules}
    annotations = {each.name: _annotation(each, rules[each.name], about[each.name], accesses) for each in stored.rules}
    if stored.feed is not None:
        base, options = cast("Any", Feed), _feed_options(stored.feed, of, members, accesses)
    elif stored.kind == "aggregate":
        options = {} if now is None else {"shards": now.shards}
        base, options = cast("Any", Aggregate), options | _ttl_option(stored, of, accesses)
    else:
        base, options = cast("Any", Index), _index_options(stored, of, accesses)
    where = None if stored.where is None else _condition(stored.where, of, accesses)
    kept = stored.watched * _MICROSECOND or None
    name = former.name if now is None else now.__name__ + former.name.removeprefix(former.former_of)

    def declare(space: dict[str, Any]) -> None:
        space |= {
            "__module__": of.__module__,
            "__annotations__": annotations,
            "__doc__": "A view that is written and that no program of this schema declares.",
            "stored_as": former.name,
            "where": where,
            "watched": kept if now is None else now.watched,
            "is_added": True,
            "former_of": now,
            **options,
            **rules,
        }

    return new_class(name, (base[of],), {}, declare)


def _feed_options(stored: StoredFeed, of: type[Any], members: type[Any], accesses: Accesses) -> dict[str, Any]:
    large = {"large_group": stored.large_group, "merged_groups": stored.merged_groups} if stored.large_group else {}
    return {
        "joined": FeedJoin(
            _path(stored.item, of, accesses, every=stored.every), _path(stored.membership, members, accesses)
        ),
        "expires_after": None if stored.expires_after < 0 else stored.expires_after * _MICROSECOND,
        "at_most": stored.at_most or None,
        **large,
    }


def _index_options(stored: StoredRules, of: type[Any], accesses: Accesses) -> dict[str, Any]:
    return {"unique": stored.unique, "spread": stored.spread, **_ttl_option(stored, of, accesses)}


def _ttl_option(stored: StoredRules, of: type[Any], accesses: Accesses) -> dict[str, Any]:
    if stored.ttl is None:
        return {}
    path, after = stored.ttl
    return {"ttl": Expiry(_path(path, of, accesses), after * _MICROSECOND if after else None)}


def _path(names: tuple[str, ...], of: type[Any], accesses: Accesses, *, every: bool = False) -> Path:
    steps: list[tuple[type, str]] = [(of, names[0])]
    for place, name in enumerate(names[1:], 1):
        access = accesses.of_route(of, names[:place])
        is_shown = access.copy is not None and name in access.copy.__struct_fields__
        steps.append((cast("type", access.copy if is_shown else access.target or access.type), name))
    return Path(tuple(steps), every=every)


def _rule(stored: StoredRule, of: type[Any], accesses: Accesses) -> Rule:
    return Rule(
        stored.kind,
        _path(stored.path, of, accesses, every=stored.every) if stored.path else None,
        stored.descending,
        stored.none,
        stored.hashed,
        cast("BucketSize | None", stored.size or None),
        stored.fold or None,
        _path(stored.by, of, accesses) if stored.by else None,
        stored.most,
        None if stored.where is None else _condition(stored.where, of, accesses),
    )


def _annotation(stored: StoredRule, rule: Rule, of: type[Any], accesses: Accesses) -> Any:
    """The type of a field, which is that of the values that it takes."""
    if rule.fold == "count":
        return int
    access = accesses.of_path(of, stored.name, rule.field, of)
    found: Any = access.type
    if rule.fold == "mean":
        found = Decimal if found is int else found
    if rule.fold == "newest_values":
        return list[found]
    if access.stands_for is not None and stored.value_type.name != "Ref":
        found = access.stands_for
    return found | None if stored.is_optional else found


def condition_text(stored: StoredCondition) -> str:
    """A condition for people, as it is declared but for the class."""
    parts = [condition_text(each) for each in stored.parts]
    if stored.relation == "not":
        return f"~{parts[0]}"
    if stored.relation in ("and", "or"):
        return f"({(' & ' if stored.relation == 'and' else ' | ').join(parts)})"
    path, operands = ".".join(stored.path), ", ".join(map(_operand_text, stored.operands))
    if stored.relation.isidentifier():
        return f"{path}.{stored.relation}({operands})"
    return f"({path} {stored.relation} {operands})"


def differing_rules(
    fields: Iterable[tuple[str, str]], others: Iterable[tuple[str, str]], stored: StoredRules | None
) -> str:  # fmt: skip
    """The rules that differ from the other side's. A condition is shown where it is stored as data."""
    known = set(others)
    conditions = {} if stored is None else {rule.name: rule.where for rule in stored.rules} | {"where": stored.where}
    return "; ".join(
        f"{name}: {_shown_rule(name, text, conditions.get(name))}" for name, text in fields if (name, text) not in known
    )


def _shown_rule(name: str, text: str, stored: StoredCondition | None) -> str:
    """A rule for people; in the place of the bytes of a condition the condition, where it is stored as data."""
    condition = "another condition" if stored is None else condition_text(stored)
    if name == "where":
        return condition
    rule, has_condition, _bytes = text.partition(f" {WHERE}")
    return f"{rule} where {condition}" if has_condition else text


def _operand_text(stored: StoredOperand) -> str:
    return ", ".join(map(_operand_text, stored.parts)) or repr(_BY_NAME[stored.type](stored.text))


def _condition(stored: StoredCondition, of: type[Any], accesses: Accesses) -> Expression:
    parts = tuple([_condition(each, of, accesses) for each in stored.parts])
    if stored.relation == "not":
        return Negated(parts[0])
    if stored.relation in ("and", "or"):
        return Joined("and" if stored.relation == "and" else "or", parts)
    access = accesses.of_route(of, stored.path)
    values = tuple([_operand(each, access, of, accesses.names) for each in stored.operands])
    operand = values if stored.relation == "one_of" else values[0] if values else None
    return Condition(_path(stored.path, of, accesses), stored.relation, operand)


def _operand(stored: StoredOperand, access: Access, of: type[Any], names: Names) -> Any:
    parts = tuple([_operand(each, access, of, names) for each in stored.parts])
    if stored.type == _ENUM:
        found = [each.cls for each in type_of(access.type, names, of, "where").walk() if each.kind == "enum"]
        return next(cls(parts[0]) for cls in found if parts[0] in {each.value for each in cls})
    if stored.type == _REF:
        return Ref(parts) if access.target is None else ref_class(access.target)(parts)
    return _BY_NAME[stored.type](stored.text)
