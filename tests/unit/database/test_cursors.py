"""Cursors: what is handed out comes back, and shows nothing; all else that is handed in is refused and says why."""

import base64
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.database.cursors import LONGEST, PAD_BYTES, Cursor, CursorCipher, cipher_of
from oneread.engines.memory import MemoryEngine
from oneread.errors import InvalidCursor

EQUALITY = bytes(range(16))
CIPHER = CursorCipher(b"secret")
CURSOR = Cursor(7, 3, False, EQUALITY, b"\x00\x07key")
SECRETS = st.binary()
CURSORS = st.builds(
    Cursor,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.binary(min_size=16, max_size=16),
    st.binary(max_size=1000),
)


def raw_of(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def text_of(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read(text, cipher=CIPHER, **changes):
    return cipher.decode(text, **{"view": 7, "generation": 3, "equality": EQUALITY} | changes)


def refused(text, **changes):
    with pytest.raises(InvalidCursor) as caught:
        read(text, **changes)
    assert not caught.value.facts
    return caught.value.message


@given(CURSORS, SECRETS)
def test_a_cursor_comes_back(cursor, secret):
    text = CursorCipher(secret).encode(cursor)
    assert set(text) <= set(string.ascii_letters + string.digits + "-_")
    seen = CursorCipher(secret).decode(text, view=cursor.view, generation=cursor.generation, equality=cursor.equality)
    assert seen == cursor
    assert CursorCipher(secret).encode(seen) == text


def test_the_bytes_are_as_written():
    raw = raw_of(CIPHER.encode(Cursor(7, 3, True, EQUALITY, b"key")))
    assert raw.hex() == (
        "02"
        "3ab8359d7d07601b0fa63b411662e682"
        "0e824e914d677ff0a8f5957bb68d712a5cefa3a0842e61b8bc367692ef7d9fa5"
        "101ce18b359982b5636082250534bfe94b1b9cef0c747c3ada32a14a75a007f0"
    )


@given(st.binary(min_size=8, max_size=400))
def test_nothing_of_a_key_is_in_the_text_and_its_length_only_in_steps(key):
    text = CIPHER.encode(Cursor(7, 3, False, EQUALITY, key))
    raw = raw_of(text)
    assert all(key[place : place + 4] not in raw for place in range(len(key) - 3))
    assert (len(raw) - 17) % PAD_BYTES == 0


def test_texts_of_neighbouring_keys_have_nothing_in_common():
    one, two = (
        raw_of(CIPHER.encode(Cursor(7, 3, False, EQUALITY, key))) for key in (b"key 1" * 20, b"key 1" * 19 + b"key 2")
    )
    assert len(one) == len(two)
    assert sum(a == b for a, b in zip(one[1:], two[1:], strict=True)) < 10


def test_a_cursor_of_elsewhere_is_refused():
    text = CIPHER.encode(CURSOR)
    assert "another view" in refused(text, view=8)
    assert "other parameters" in refused(text, equality=bytes(16))
    assert "rebuilt" in refused(text, generation=4)


def test_cursors_of_other_secrets_and_stores_are_refused():
    assert "changed" in refused(CursorCipher(b"x").encode(CURSOR))
    one, other = MemoryEngine(), MemoryEngine()
    text = cipher_of(one, None, b"").encode(CURSOR)
    assert read(text, cipher_of(one, None, b"")) == CURSOR
    assert "another store" in refused(text, cipher=cipher_of(other, None, b""))
    assert "another store" in refused(text, cipher=cipher_of(one, b"secret", b""))


def test_every_flipped_bit_is_noticed():
    raw = raw_of(CIPHER.encode(CURSOR))
    for bit in range(len(raw) * 8):
        refused(text_of((int.from_bytes(raw, "big") ^ 1 << bit).to_bytes(len(raw), "big")))


def test_a_shortened_cursor_is_noticed():
    text = CIPHER.encode(Cursor(7, 3, False, EQUALITY, bytes(100)))
    for length in range(len(text)):
        refused(text[:length])


@pytest.mark.parametrize("flags", [0, 2])
def test_a_cursor_of_an_earlier_release_has_expired(flags):
    raw = bytes.fromhex("01 00000007 00000003") + bytes([flags]) + EQUALITY + b"key"
    assert "earlier release" in refused(text_of(raw))


@pytest.mark.parametrize(
    "text",
    [
        None,
        3,
        b"AQ",
        "",
        "AQ",
        "é" * 40,
        "\ud800" * 40,
        "!" * 40,
        "A" * 41,
        "A" * (LONGEST + 4),
        "A" * 10_000_000,
        CIPHER.encode(Cursor(7, 3, False, EQUALITY, bytes(LONGEST))),
        CIPHER.encode(CURSOR) + "=",
        CIPHER.encode(CURSOR) + "\n",
        " " + CIPHER.encode(CURSOR),
        text_of(b"\x02" + bytes(16)),
        text_of(b"\x02" + bytes(16 + 65)),
        text_of(b"\x03" + bytes(16 + 64)),
    ],
    ids=range(18),
)
def test_text_that_is_not_a_cursor_is_refused(text):
    assert refused(text) == "not a cursor; start from the first page"


def test_one_cursor_has_one_text():
    text = CIPHER.encode(Cursor(7, 3, False, EQUALITY, b""))
    for letter in set(string.ascii_letters + string.digits + "-_") - {text[-1]}:
        refused(text[:-1] + letter)


@given(st.text() | st.text("AQ-_=bz", max_size=120) | st.binary(max_size=200).map(text_of))
def test_any_text_is_a_cursor_or_refused(text):
    with pytest.raises(InvalidCursor):
        read(text)
