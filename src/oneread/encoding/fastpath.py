"""Fast paths: a function generated per declared key, with usual cases inlined and the rest left to the plain methods.

Where a value is not plainly right the generated code calls the slow function, which starts again, or raises. Keys are
encoded on every request, and a loop over parts costs several times as much as straight code. The generated source has
numbered names only. See docs/formats/keys.md and encoding/codegen.py.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, cast

from oneread.encoding.codegen import function, indented
from oneread.encoding.framing import COMPLEMENT, escape, unescape
from oneread.encoding.numeric import SMALL, SMALL_DESCENDING
from oneread.encoding.parts import EncodedPart
from oneread.encoding.values import PUTTERS

Encoder: TypeAlias = Callable[[tuple[object, ...]], bytes]
Decoder: TypeAlias = Callable[[bytes, int], tuple[tuple[object, ...], int]]

_SMALL_END: Final = len(SMALL)


def compile_encoder(parts: Sequence[EncodedPart], max_length: int | None, slow: Encoder) -> Encoder:
    """A function from a tuple of values to its key."""
    names: dict[str, object] = {"slow": slow, "escape": escape, "COMPLEMENT": COMPLEMENT}
    lines: list[str] = []
    terms: list[str] = []
    for number, part in enumerate(parts):
        lines += _encoder_lines(number, part, names)
        terms += _terms(number, part)
    limits = [limit for limit in (max_length, *(part.max_length for part in parts)) if limit is not None]
    # Below the least limit nothing can be too long; above it the slow function checks each.
    check = [f"if len(key) > {min(limits)}: return slow(values)"] if limits else []
    unpacking = [f"{''.join(f'v{number},' for number in range(len(parts)))} = values"] if parts else []
    encode = function(
        "encode",
        "values",
        [
            f"if type(values) is not tuple or len(values) != {len(parts)}: return slow(values)",
            *unpacking,
            "try:",
            *indented([*lines, "pass"]),
            "except UnicodeEncodeError: return slow(values)",
            f"key = {' + '.join(_merged(terms)) or repr(b'')}",
            *check,
            "return key",
        ],
        names,
    )
    return cast("Encoder", encode)


def _is_plain_text(part: EncodedPart) -> bool:
    """Whether the key has the text with a constant tag and end around it."""
    return part.type in (str, bytes) and part.none is None and not part.descending


def _terms(number: int, part: EncodedPart) -> list[str]:
    if not _is_plain_text(part):
        return [f"p{number}"]
    return [repr(_opening_tag(part)), f"p{number}", repr(b"\x00")]


def _opening_tag(part: EncodedPart) -> bytes:
    return bytes(part.tags)


def _merged(terms: list[str]) -> list[str]:
    """Neighbouring constants become one."""
    merged: list[str] = []
    for term in terms:
        if merged and term.startswith("b'") and merged[-1].startswith("b'"):
            merged[-1] = merged[-1][:-1] + term[2:]
        else:
            merged.append(term)
    return merged


def _encoder_lines(number: int, part: EncodedPart, names: dict[str, object]) -> list[str]:
    value, element = f"v{number}", f"p{number}"
    names[f"put{number}"] = part.put
    names[f"T{number}"] = part.type
    lines = _plain_lines(number, part, names)
    if lines is None:
        return [f"{element} = put{number}({value})"]
    none = [] if part.none is None else [f"elif {value} is None: {element} = {part.none_element!r}"]
    # A subclass, an int for a float, a wrong type: the part's own method encodes or refuses it.
    return [f"if type({value}) is T{number}:", *indented(lines), *none, "else: return slow(values)"]


def _plain_lines(number: int, part: EncodedPart, names: dict[str, object]) -> list[str] | None:
    """The lines for a value of exactly the declared type; None where the part's own method is as fast."""
    value, element = f"v{number}", f"p{number}"
    complemented = ".translate(COMPLEMENT)" if part.descending else ""
    if part.type in (str, bytes):
        raw = f"{value}.encode()" if part.type is str else value
        lines = [f"{element} = {raw}", f"if 0 in {element} or 1 in {element}: {element} = escape({element})"]
        tag, end = _opening_tag(part), b"\x00"
        return lines if _is_plain_text(part) else [*lines, f"{element} = ({tag!r} + {element} + {end!r}){complemented}"]
    scalar = PUTTERS.get(part.type)
    if scalar is None:
        return None
    names[f"scalar{number}"] = scalar
    names[f"name{number}"] = part.name
    call = f"scalar{number}({value}, name{number}){complemented}"
    if part.type is not int:
        return [f"{element} = {call}"]
    names["SMALL"], names["SMALL_DESCENDING"] = SMALL, SMALL_DESCENDING
    table = "SMALL_DESCENDING" if part.descending else "SMALL"
    return [f"{element} = {table}[{value}] if 0 <= {value} < {_SMALL_END} else {call}"]


def compile_decoder(parts: Sequence[EncodedPart], slow: Decoder) -> Decoder:
    """A function from a key and an offset to all declared values and the offset after them."""
    names: dict[str, object] = {
        "slow": slow,
        "unescape": unescape,
        "COMPLEMENT": COMPLEMENT,
        "from_bytes": int.from_bytes,
    }
    lines: list[str] = []
    for number, part in enumerate(parts):
        names |= {f"take{number}": part.take, f"plain{number}": part.take_ascending, f"tags{number}": part.tags}
        lines += _decoder_lines(number, part)
    if any("complemented" in line for line in lines):
        lines.insert(0, "complemented = data.translate(COMPLEMENT)")
    values = "".join(f"v{number}," for number in range(len(parts)))
    decode = function(
        "decode",
        "data, offset",
        [
            "if not 0 <= offset <= len(data): return slow(data, offset)",
            "start = offset",
            "try:",
            *indented([*lines, "pass"]),
            # Truncated, or not UTF-8: the slow function raises the right error.
            "except (IndexError, ValueError): return slow(data, start)",
            f"return ({values}), offset",
        ],
        names,
    )
    return cast("Decoder", decode)


def _decoder_lines(number: int, part: EncodedPart) -> list[str]:
    value = f"v{number}"
    if part.none is not None:
        return [f"{value}, offset = take{number}(data, complemented, offset)"]
    read, other = ("complemented", "data") if part.descending else ("data", "complemented")
    general = [
        f"if {read}[offset] not in tags{number}: return slow(data, start)",
        f"{value}, offset = plain{number}({read}, {other}, offset)",
    ]
    if part.descending:
        return general
    if part.type in (str, bytes):
        decoded = ".decode()" if part.type is str else ""
        return [
            f"if data[offset] != {min(part.tags)}: return slow(data, start)",
            "end = data.index(0, offset)",
            f"{value} = data[offset + 1 : end]",
            f"if 1 in {value}: {value} = unescape({value})",
            *([f"{value} = {value}{decoded}"] if decoded else []),
            "offset = end + 1",
        ]
    if part.type is int:
        return [
            "end = offset + data[offset] - 19",  # one byte of tag, and the tag says 0x14 + the number of bytes
            "if 1 < end - offset < 10 and data[offset + 1] and end <= len(data):",
            f"    {value} = from_bytes(data[offset + 1 : end], 'big')",
            "    offset = end",
            "elif data[offset] == 20:",
            f"    {value} = 0",
            "    offset += 1",
            f"else: {value}, offset = take{number}(data, b'', offset)",
        ]
    return general
