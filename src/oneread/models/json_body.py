"""What a client may send: some fields of a class, of which some may be left out, as JSON.

A reference of one part is that part; it may be sent as the list of it too, and any as an object with `ref`. See
"Bodies" in docs/reference/web.md.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from types import NoneType
from typing import Any, Final, NamedTuple, cast

import msgspec

from oneread.errors import InvalidValue
from oneread.models.json_numbers import loose_texts, may_hold_floats, read_spelled
from oneread.models.prepare import prepare_type
from oneread.models.references import Ref, ref_class
from oneread.models.shadow import FieldShape, revive
from oneread.models.types import Annotation, FieldType

FAULTS: Final = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)
"""What msgspec raises for JSON that does not fit, or cannot be written."""
_PLACE: Final = re.compile(r"(?P<reason>.*) - at `(?:key in )?\$(?P<place>.*)`", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
"""How msgspec says where a value is wrong: "Expected `int`, got `str` - at `$.lines[2].price`"."""
_NAMED: Final = re.compile(r"field `([^`]+)`")
"""The field that is missing or unknown."""
NOT_FITTING: Final = "the JSON does not fit the model"
MOST_FAULTS: Final = 20
"""The most places that an error names."""
_TAG: Final = "_tag"
"""The discriminator's field in a struct: no declared field begins with an underscore."""
NAME_LENGTH: Final = 64
"""The most characters of an unknown field's name in an error."""


_REASON_LENGTH: Final = 300
_REASON_START: Final = 100
_REASON_END: Final = 150
"""The end of a message says the place."""


class FieldFault(NamedTuple):
    """Where a body is wrong, and why."""

    place: tuple[str | int, ...]
    reason: str


class Tag(NamedTuple):
    """The discriminator in the JSON of one class: its name, and the value that says this class."""

    name: str
    value: str


class BodyRules(NamedTuple):
    """How the fields of one class are sent; a body may have some of them."""

    spelled: Mapping[str, str]
    """Names in JSON by declared names."""
    optional: frozenset[str]
    """The declared names of those that may be left out."""
    type_of: Callable[[FieldShape], Annotation]
    """The type of what is sent for a field."""
    count_parts: Callable[[FieldShape], int] | None
    """The parts of the key that a field refers by; None in dumps, which have lists of parts and name one fault only."""
    has_numbers: Callable[[FieldShape], bool]
    """Whether a field holds, or refers by, floats or Decimals, which may be text."""
    tag: Tag | None
    """What may be sent to say the class; None for a model without variants, and in dumps."""


class JsonBody:
    """The JSON of some fields of a class, called `name` in schemas; a partial body may lack any of them."""

    def __init__(self, name: str, fields: Sequence[FieldShape], rules: BodyRules, *, partial: bool) -> None:
        self.name = name
        self.fields = tuple(fields)
        self.partial = partial
        self.optional = frozenset(each.name for each in fields) if partial else rules.optional
        self.spelled = {each.name: rules.spelled[each.name] for each in fields}
        self.tag = rules.tag
        self._rules = rules
        self._numeric = [each for each in fields if rules.has_numbers(each)]
        self._floats = [each for each in fields if each.kind == "plain" and may_hold_floats(each.type)]

    @functools.cached_property
    def types(self) -> dict[str, Annotation]:
        """The type of what may be sent for each field, by its name in JSON."""
        return {self.spelled[each.name]: prepare_type(self._rules.type_of(each)) for each in self.fields}

    @functools.cached_property
    def struct(self) -> Annotation:
        """A class that takes the whole body; a field that was not sent is UNSET, because None is a value."""
        spelled, fields = dict(self.spelled), list[Any]()
        if self.tag is not None:
            spelled[_TAG] = self.tag.name
            fields.append((_TAG, Any, msgspec.UNSET))
        for each in self.fields:
            inner = self._rules.type_of(each)
            may_lack = each.name in self.optional
            fields.append((each.name, inner | msgspec.UnsetType, msgspec.UNSET) if may_lack else (each.name, inner))
        made = msgspec.defstruct(self.name, fields, rename=spelled, forbid_unknown_fields=True, kw_only=True)
        return prepare_type(made)

    @functools.cached_property
    def decode_struct(self) -> Callable[[bytes], Any]:
        """Decodes JSON to the struct."""
        return msgspec.json.Decoder(self.struct, dec_hook=revive).decode

    def decode(self, body: bytes) -> dict[str, Any]:
        """The fields that were sent, as the class holds them.

        Raises:
            InvalidValue: the body is not JSON, or fields are unknown, missing, or of another type; `faults` has them.
        """
        try:
            found = dict(self._held(self.decode_struct(body)))
            if self._numeric:
                self._check_numbers(found, _decode_loosely(body))
        except FAULTS as error:
            try:
                # Not by a union of both forms: msgspec 0.22 crashes where a text with a constraint may be a tuple too.
                again = msgspec.json.encode(self._shorten(_decode_exactly(body)))
            except FAULTS:
                raise self._refusal(error, _decode_loosely(body)) from error
        else:
            return found
        given = _decode_loosely(body)
        spelled = self._read_floats(given)
        if spelled is not given:
            return self.convert(spelled | self._exact(body))
        try:
            found = dict(self._held(self.decode_struct(again)))
            self._check_numbers(found, given)
        except FAULTS as error:
            raise self._refusal(error, given) from error
        return found

    def _check_numbers(self, values: Mapping[str, Any], given: object) -> None:
        """Raises ValueError for text that msgspec takes for a Decimal or a float, and that is not a number in JSON."""
        sent = cast("dict[str, object]", given) if isinstance(given, dict) else {}
        for field in self._numeric:
            name = self.spelled[field.name]
            if field.name in values and name in sent:
                _check_number(f"$.{name}", values[field.name], sent[name])

    def _read_floats(self, given: Any) -> Any:
        """What was sent, with the texts of floats that are not finite replaced; itself where there are none."""
        if not isinstance(given, dict):
            return given
        sent = cast("dict[str, object]", given)
        names = {self.spelled[each.name]: each.type for each in self._floats}
        read = {name: read_spelled(names[name], each) if name in names else each for name, each in sent.items()}
        return given if read == sent else read

    def _exact(self, body: bytes) -> dict[str, object]:
        """The fields that hold no floats, with the digits of their fractions as they were sent."""
        floats = {self.spelled[each.name] for each in self._floats}
        sent: dict[str, object] = _EXACT.decode(body)
        return {name: each for name, each in sent.items() if name not in floats}

    def convert(self, given: object, *, strict: bool = True) -> dict[str, Any]:
        """`decode` of JSON that was parsed before; unless `strict`, numbers and instants may be text."""
        try:
            short = self._shorten(self._read_floats(given))
            sent = msgspec.convert(short, self.struct, strict=strict, str_keys=True, dec_hook=revive)
            found = dict(self._held(sent))
            self._check_numbers(found, given)
        except FAULTS as error:
            raise self._refusal(error, given) from error
        return found

    def convert_field(self, spelled: str, given: object) -> object:
        """One field's value in JSON that was parsed before, as `types` has it. Raises ValueError with the reason."""
        try:
            value = self._shorten_field(spelled, given)
            field = next((each for each in self._floats if self.spelled[each.name] == spelled), None)
            if field is not None:
                value = read_spelled(field.type, value)
            found = msgspec.convert(value, self.types[spelled], str_keys=True, dec_hook=revive)
            _check_number("$", found, value)
        except FAULTS as error:
            raise ValueError(reason_of(error)) from error
        return found

    @functools.cached_property
    def _referring(self) -> dict[str, FieldShape]:
        """The fields that refer, by their names in JSON."""
        referring = [each for each in self.fields if each.kind != "plain" or several_references(each) is not None]
        return {self.spelled[each.name]: each for each in referring}

    def _shorten(self, given: object) -> object:
        """What was sent, with each reference in the form that the struct takes."""
        if not (isinstance(given, dict) and self._referring):
            return given
        sent = cast("dict[str, object]", given)
        return {name: self._shorten_field(name, value) for name, value in sent.items()}

    def _shorten_field(self, name: str, value: object) -> object:
        field = self._referring.get(name)
        if field is None or value is None:
            return value
        if several_references(field) is not None:
            several = cast("list[object]", value) if isinstance(value, list) else None
            return value if several is None else [self._element(field, each) for each in several]
        if field.kind != "copy" or self._rules.count_parts is None:
            return self._key(field, value)
        return value if isinstance(value, dict) and "ref" not in value else {"ref": self._key(field, value)}

    def _element(self, field: FieldShape, given: object) -> object:
        """One of several references; in a dump a set has them in msgspec's own form, the list of the key's list."""
        key = self._key(field, given)
        is_own = isinstance(key, list) and isinstance(next(iter(key), None), list)  # no part of a key is a list
        return [key] if field.kind == "plain" and self._rules.count_parts is None and not is_own else key

    def _key(self, field: FieldShape, given: object) -> object:
        """The key that a reference is sent as: a part, the list of all, or an object with it as its `ref`."""
        if isinstance(given, dict):
            ref = cast("dict[str, object]", given).get("ref")
            given = given if ref is None else ref
        count = self._rules.count_parts
        if count is None:
            return given if isinstance(given, (list, dict, NoneType)) else [given]
        return _only_part(given) if count(field) == 1 else given

    def held(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        """Fields by their names in JSON, each converted, as the class holds them."""
        return {
            each.name: held_as(each, sent[self.spelled[each.name]])
            for each in self.fields
            if self.spelled[each.name] in sent
        }

    @functools.cached_property
    def _as_sent(self) -> frozenset[str]:
        """The fields that the class holds as the struct does: the others refer."""
        return frozenset(self.spelled) - {each.name for each in self._referring.values()}

    def _held(self, sent: object) -> Iterator[tuple[str, Any]]:
        if self.tag is not None and getattr(sent, _TAG) not in (msgspec.UNSET, self.tag.value):
            raise ValueError(f"expected {self.tag.value!r} - at `$.{self.tag.name}`")
        for field in self.fields:
            value = getattr(sent, field.name, msgspec.UNSET)
            if value is not msgspec.UNSET:
                yield field.name, value if field.name in self._as_sent else held_as(field, value)

    def _refusal(self, error: Exception, given: object) -> InvalidValue:
        """The error that names every wrong field; fields are converted one by one only after all at once failed."""
        reason = reason_of(error)
        first = located(reason)
        facts: dict[str, object] = {}
        if self._rules.count_parts is not None:
            found = list(islice(self._find_faults(given), MOST_FAULTS))
            facts["faults"] = found or [first]
            first = first if first.place or not found else found[0]
        field = first.place[0] if first.place else None
        return InvalidValue(NOT_FITTING, model=self.name, field=field, reason=reason, **facts)

    def _find_faults(self, given: object) -> Iterator[FieldFault]:
        if not isinstance(given, Mapping):
            return
        sent = cast("Mapping[object, object]", given)
        tag = self.tag
        if tag is not None and sent.get(tag.name, tag.value) != tag.value:
            yield FieldFault((tag.name,), f"expected {tag.value!r}")
        for each in self.fields:
            name = self.spelled[each.name]
            if name in sent:
                try:
                    self.convert_field(name, sent[name])
                except ValueError as error:
                    fault = located(str(error))
                    yield FieldFault((name, *fault.place), fault.reason)
            elif each.name not in self.optional:
                yield FieldFault((name,), "this field is required")
        for given_name in sent:
            if given_name not in self.types and (tag is None or given_name != tag.name):
                yield FieldFault((str(given_name)[:NAME_LENGTH],), "there is no such field")


def _check_number(place: str, value: object, sent: object) -> None:
    loose = next(loose_texts(value, sent, place), None)
    if loose is not None:
        raise ValueError(f"expected a number, written as in JSON - at `{loose}`")


def _only_part(key: object) -> object:
    """The part in a list of one; other values as they are, to be refused."""
    parts = cast("list[object]", key) if isinstance(key, list) else []
    return parts[0] if len(parts) == 1 and not isinstance(parts[0], (list, NoneType)) else key


_LOOSE: Final = msgspec.json.Decoder(float_hook=float)  # by itself msgspec refuses 1e999, wherever it is
_EXACT: Final = msgspec.json.Decoder(float_hook=Decimal)
_decode_exactly: Final = msgspec.json.Decoder(float_hook=lambda text: msgspec.Raw(text.encode())).decode
"""Decodes JSON with its fractions as they are written, so that encoding it again gives the same Decimals."""


def _decode_loosely(body: bytes) -> object:
    """Decodes JSON to look for what is wrong in it; None where it is not JSON."""
    try:
        return _LOOSE.decode(body)
    except FAULTS:
        return None


def reason_of(error: Exception) -> str:
    """What an error says, without the middle where it is long: msgspec repeats a text that is not of an enum."""
    return cut_reason(str(error))


def cut_reason(text: str) -> str:
    """A reason without its middle where it is long; the end of a message of msgspec says the place."""
    return text if len(text) <= _REASON_LENGTH else f"{text[:_REASON_START]} ... {text[-_REASON_END:]}"


def located(reason: str) -> FieldFault:
    """The place in a message of msgspec, and the rest of the message."""
    found = _PLACE.fullmatch(reason)
    if found is not None:
        steps = [int(number) if number else name for name, number in _STEP.findall(found["place"])]
        return FieldFault(tuple(steps), found["reason"])
    named = _NAMED.search(reason)
    return FieldFault((named[1],) if named else (), reason)


def held_as(field: FieldShape, sent: object) -> object:
    """A value that was sent, as the class holds it; the fields of a copy are not filled."""
    if sent is None:
        return sent
    if field.kind == "copy":
        return field.cls.of(*_parts(getattr(sent, "ref", sent)))
    if field.kind == "ref":
        return ref_class(field.reference().target())(_parts(sent))
    element = several_references(field)
    if element is None:
        return sent
    made = ref_class(element.target())
    several = cast("Iterable[object]", sent)  # of a set in a dump they are references already
    return field.type.present.cls(each if isinstance(each, Ref) else made(_parts(each)) for each in several)


def several_references(field: FieldShape) -> FieldType | None:
    """The references of a field that is a list or set of them; None for other fields."""
    element = field.type.present.several
    return element.present if element is not None and element.present.kind == "reference" else None


def _parts(key: object) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)
