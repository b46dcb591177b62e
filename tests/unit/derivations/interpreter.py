"""A plain interpreter of programs: what operations mean, without a line of the text that they write."""

from contextlib import suppress
from datetime import timedelta

from oneread.derivations import operations as op
from oneread.derivations import row_operations as row
from oneread.derivations.buckets import STARTS, in_utc
from oneread.derivations.emitted_record import Emission, short_hash
from oneread.encoding import ordered
from oneread.encoding.codec import Codec
from oneread.encoding.values import digest
from oneread.errors import LimitExceeded
from oneread.models.expiry import NEVER
from oneread.models.set_order import order_sets
from oneread.store.keys import spread_part
from oneread.store.limits import KEY_BYTES, VALUES_BYTES
from oneread.transactions.deltas import digits_of, exact_number


class NotInView(Exception):
    """The entity is not in the view."""


class Interpreter:
    """One entity, run through the programs of views."""

    def __init__(self, entity, hidden, own, suffix, now):
        self.entity, self.hidden, self.own, self.suffix, self.now = entity, hidden, own, suffix, now
        self.shown, self.deltas, self.claims, self.record = {}, [], [], {}

    def emission(self, programs, tokens):
        """What these programs emit, with every token of the record."""
        for program in programs:
            with suppress(NotInView):
                self._view(program)
        return Emission({token: self.record.get(token, []) for token in tokens}, self.shown, self.deltas, self.claims)

    def _view(self, program):
        self.parts, self.several = [], [None]
        self.until = self.found = self.amounts = None
        for each in program.once:
            getattr(self, f"_{type(each).__name__}")(each)
        for element in self.several:
            self.element = element
            for each in program.rows:
                getattr(self, f"_{type(each).__name__}")(each)

    def _value(self, path):
        if path is None:
            return self.element
        found = self.hidden.get(path.name) if path.is_hidden else getattr(self.entity, path.name)
        for step in path.steps:
            found = None if found is None else getattr(found, step)
        return found

    def _expires(self, each):
        return each.rule.until(self._value(each.since))

    # Which entities are in a view.

    def _SkipUnless(self, each):  # noqa: N802 - by the name of the operation
        if not each.condition.test(self.entity):
            raise NotInView

    def _SkipExpired(self, each):  # noqa: N802
        if any(self._expires(end) <= self.now for end in each.ends):
            raise NotInView

    def _FirstExpiry(self, each):  # noqa: N802
        self.until = min(*map(self._expires, each.ends), NEVER)
        if self.until <= self.now:
            raise NotInView

    # The keys of rows.

    def _bytes(self, element, value):
        if value is None:
            values = (None,) * len(element.elements)
        elif element.of == "value":
            values = (digest(ordered.encode((value,))) if element.rule.hashed else _started(value, element.rule.size),)
        else:
            values = value.key if element.of == "reference" else value.ref.key
        return Codec(element.elements, max_length=KEY_BYTES).encode(values)

    def _TakeValue(self, each):  # noqa: N802
        value = self._value(each.element.value)
        if value is None and each.element.rule.none is None:
            raise NotInView
        self._bytes(each.element, value)

    def _TakeEach(self, each):  # noqa: N802
        values = self._value(each.element.value) or ()
        self.several = list(dict.fromkeys(_started(one, each.element.rule.size) for one in values if one is not None))
        if not self.several:
            raise NotInView
        if each.is_unordered:
            self.several.sort(key=lambda one: self._bytes(each.element, one))

    def _TakeSpread(self, each):  # noqa: N802
        return spread_part(self.suffix, each.ranges)

    def _part(self, each):
        if isinstance(each, op.TakeSpread):
            return self._TakeSpread(each)
        return self._bytes(
            each.element, self.element if isinstance(each, op.TakeEach) else self._value(each.element.value)
        )

    def _FindPlace(self, each):  # noqa: N802
        self.found = b"".join(map(self._part, each.parts))
        if each.most is not None and len(self.found) > each.most:
            each.refuse_long(self.found)

    # The rows.

    def _add(self, token, *added):
        self.record.setdefault(token, []).extend(added)

    def _item(self, each):
        if isinstance(each, row.OwnKey):
            return (self.own,)
        value = self._value(each.value)
        if isinstance(each, row.ShownValue):
            return order_sets(value) if each.holds_sets else None if value is None else _started(value, each.bucket)
        if value is None:
            return None
        if isinstance(each, row.ShownCopy):
            held = [(getattr(value, name), sets) for name, sets in each.fields]
            return (value.ref, value.deleted, *[order_sets(one) if sets else one for one, sets in held])
        return (value.ref if each.is_copy else value, False, *[None] * each.fields)

    def _PutRow(self, each):  # noqa: N802
        values = tuple(map(self._item, each.shows))
        try:
            doc = each.pack(values)
        except OverflowError:
            doc = each.pack_wide(values)
        if each.ends_in_expiry:
            doc += self.until.to_bytes(8, "big")
        place = self.found + self.suffix
        if each.most is not None and len(place) > each.most:
            each.refuse_long(len(place))
        self._add(each.token, self.found, short_hash(doc))
        self.shown[each.prefix + place] = doc

    def _PutClaim(self, each):  # noqa: N802
        if all(self._value(path) is not None for path in each.values):
            self._add(each.token, self.found)
            self.claims.append(each.prefix + self.found)

    def _amount(self, slot):
        if slot.condition is not None and not slot.condition.test(self.entity):
            return None
        value = 1 if slot.value is None else self._value(slot.value)
        if value is None:
            return None
        return {
            "one": lambda: 1,
            "present": lambda: 1,
            "whole": lambda: value,
            "microseconds": lambda: value // timedelta(microseconds=1),
            "exact": lambda: exact_number(value),
        }[slot.of]()

    def _MakeAmounts(self, each):  # noqa: N802
        try:
            self.amounts = tuple(map(self._amount, each.slots))
            self.recorded = [
                one if slot.is_int else digits_of(one) for slot, one in zip(each.slots, self.amounts, strict=True)
            ]
        except LimitExceeded as error:
            each.refuse(error)

    def _AddToGroup(self, each):  # noqa: N802
        self._add(each.token, self.found, self.recorded)
        self.deltas.append((each.prefix + self.found, self.amounts, 1))

    def _MakeExtreme(self, each):  # noqa: N802
        self._extreme(each)

    def _extreme(self, each):
        if each.condition is not None and not each.condition.test(self.entity):
            return None
        value, order = self._value(each.value), self._value(each.order)
        if value is None or order is None:
            return None
        return (each.codec.encode((order,)), *each.pack(value))

    def _PutExtreme(self, each):  # noqa: N802
        made = self._extreme(each.extreme)
        if made is None:
            return
        element, doc, kept = made
        if len(self.found) + len(element) > VALUES_BYTES:
            each.refuse_long(each.field)
        self._add(each.token, self.found + element, kept)
        self.shown[each.prefix + self.found + element + self.suffix] = doc


def _started(value, size):
    return value if size is None else STARTS[size](in_utc(value))
