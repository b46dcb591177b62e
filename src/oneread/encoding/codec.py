"""Codecs: keys of declared elements, checked against their types, at the speed of inlined code.

See docs/formats/keys.md.
"""

from typing import Final

from oneread.encoding.fastpath import Encoder, compile_decoder, compile_encoder
from oneread.encoding.parts import EncodedPart, KeyElement, part_of
from oneread.encoding.ranges import ByteRange, KeyBounds, bounded_range, prefix_range
from oneread.encoding.values import Value, complement, kind_of
from oneread.errors import Corrupt, InvalidDeclaration, InvalidKey

__all__ = ["TOO_LONG", "TRAILING", "Codec", "KeyElement"]

TOO_LONG: Final = "the key is longer than its limit"
TRAILING: Final = "bytes follow the last element of the key"


class Codec:
    """Encodes and decodes keys of declared elements.

    `encode` and `decode_prefix` are functions generated from the declaration (fastpath); these leave prefixes,
    subclasses and errors to the plain methods here, which give the same bytes.
    """

    def __init__(self, elements: tuple[KeyElement, ...], *, max_length: int | None = None) -> None:
        names = [element.name for element in elements]
        if len(set(names)) != len(names):
            raise InvalidDeclaration("two elements of a key have the same name", fields=names)
        self.elements = elements
        self.max_length = max_length
        self.parts: tuple[EncodedPart, ...] = tuple(part_of(element) for element in elements)
        self.encode = compile_encoder(self.parts, max_length, self._encode)
        """The key of a tuple of values, or of its first few: `(values) -> bytes`.

        Raises:
            InvalidKey: a value is not of its declared type or cannot be part of a key; `field` names it.
        """
        self._prefix_encoders: dict[int, Encoder] = {len(elements): self.encode}
        self._decode_all = compile_decoder(self.parts, self._decode)

    def _encode(self, values: tuple[object, ...]) -> bytes:
        if not isinstance(values, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise InvalidKey("a key is given as a tuple", value=values)
        if len(values) > len(self.parts):
            raise InvalidKey("more values than the key has elements", given=len(values), limit=len(self.parts))
        elements = [part.put(value) for part, value in zip(self.parts, values, strict=False)]
        length = sum(map(len, elements))
        if self.max_length is not None and length > self.max_length:
            longest = max(range(len(elements)), key=lambda position: len(elements[position]))
            raise InvalidKey(TOO_LONG, field=self.parts[longest].name, length=length, limit=self.max_length)
        return b"".join(elements)

    def _decode(self, data: bytes, offset: int) -> tuple[tuple[object, ...], int]:
        if not 0 <= offset <= len(data):
            raise Corrupt("the offset is outside the key")
        complemented = complement(data)
        values: list[object] = []
        for part in self.parts:
            value, offset = part.take(data, complemented, offset)
            values.append(value)
        return tuple(values), offset

    def encoder(self, otherwise: Encoder) -> Encoder:
        """`encode`, but values that are not plainly right are given to `otherwise`."""
        return compile_encoder(self.parts, self.max_length, otherwise)

    def prefix_encoder(self, count: int) -> Encoder:
        """`encode` for the first `count` values, as fast as for a whole key; generated once for each count."""
        encoder = self._prefix_encoders.get(count)
        if encoder is None:
            encoder = compile_encoder(self.parts[:count], self.max_length, self._encode)
            self._prefix_encoders[count] = encoder
        return encoder

    def decode(self, data: bytes) -> tuple[object, ...]:
        """All values of a whole key, of the declared types, up to equality; instants in UTC.

        Raises:
            Corrupt: the bytes are not such a key.
        """
        values, end = self._decode_all(data, 0)
        if end != len(data):
            raise Corrupt(TRAILING)
        return values

    def decode_prefix(self, data: bytes, offset: int = 0) -> tuple[tuple[object, ...], int]:
        """The values of all elements, read from `offset`, and the offset after them.

        Raises:
            Corrupt: the elements are incomplete or damaged.
        """
        return self._decode_all(data, offset)

    def prefix_range(self, values: tuple[object, ...], *, prefix: bytes = b"") -> ByteRange:
        """The keys that begin with exactly these values, after `prefix` (a view's id, say)."""
        return prefix_range(prefix + self.prefix_encoder(len(values))(values))

    def bounded_range(
        self,
        values: tuple[object, ...],
        bounds: KeyBounds[Value],
        *,
        prefix: bytes = b"",
        starts_with: str | bytes | None = None,
    ) -> ByteRange:
        """The keys that begin with these values, after `prefix`, and whose next element lies between bounds.

        None is never in such a range.

        Raises:
            InvalidKey: a value or bound is not of its declared type, or no element is left to be bounded.
        """
        position = len(values)
        if position >= len(self.parts):
            raise InvalidKey("no element is left to be bounded", given=position, limit=len(self.parts))
        part = self.parts[position]
        head = prefix + self.prefix_encoder(position)(values)
        bounded = bounded_range(head, bounds.map(part.put), descending=part.descending)
        if starts_with is None:
            return bounded
        return bounded.intersection(prefix_range(head + _opening(part, starts_with)))


def _opening(part: EncodedPart, start: str | bytes) -> bytes:
    """A text's element without its end: what the elements of all texts that start so begin with."""
    if part.type not in (str, bytes) or kind_of(start) is not part.type:
        raise InvalidKey("only text can start with text, and bytes with bytes", field=part.name, value=start)
    opening = part.put_ascending(start)[:-1]
    return complement(opening) if part.descending else opening
