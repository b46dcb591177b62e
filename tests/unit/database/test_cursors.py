"""Cursors: what is handed out comes back; all else that is handed in is refused by one error that says why."""

import base64
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.database.cursors import LONGEST, Cursor, decode, encode
from oneread.errors import InvalidCursor

EQUALITY = bytes(range(16))
SECRET = b"secret"
CURSOR = Cursor(7, 3, False, EQUALITY, b"\x00\x07key")
SECRETS = st.none() | st.binary()
CURSORS = st.builds(
    Cursor,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.binary(min_size=16, max_size=16),
    st.binary(max_size=1000),
)


def read(text, secret=None, **changes):
    return decode(text, **{"view": 7, "generation": 3, "equality": EQUALITY} | changes, secret=secret)


def refused(text, secret=None, **changes):
    with pytest.raises(InvalidCursor) as caught:
        read(text, secret, **changes)
    assert not caught.value.facts
    return caught.value.message


@given(CURSORS, SECRETS)
def test_a_cursor_comes_back(cursor, secret):
    text = encode(cursor, secret)
    assert set(text) <= set(string.ascii_letters + string.digits + "-_")
    seen = decode(text, view=cursor.view, generation=cursor.generation, equality=cursor.equality, secret=secret)
    assert seen == cursor


def test_the_bytes_are_as_written():
    raw = bytes.fromhex("01 00000007 00000003 00") + EQUALITY + b"\x00\x07key"
    assert encode(CURSOR, None) == base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    backward = Cursor(7, 3, True, EQUALITY, b"")
    signed = base64.urlsafe_b64decode(encode(backward, SECRET) + "==")
    assert signed[:26] == bytes.fromhex("01 00000007 00000003 03") + EQUALITY
    assert signed[26:].hex() == "57c240c457518fcafd656ec25abb0172"


@pytest.mark.parametrize("secret", [None, SECRET])
def test_a_cursor_of_elsewhere_is_refused(secret):
    text = encode(CURSOR, secret)
    assert "another view" in refused(text, secret, view=8)
    assert "other parameters" in refused(text, secret, equality=bytes(16))
    assert "built anew" in refused(text, secret, generation=4)


def test_signed_and_unsigned_cursors_are_not_mixed():
    for text, secret in (
        (encode(CURSOR, SECRET), None),
        (encode(CURSOR, None), SECRET),
        (encode(CURSOR, b"x"), SECRET),
    ):
        assert "tampered" in refused(text, secret)


def test_every_flipped_bit_of_a_signed_cursor_is_noticed():
    text = encode(CURSOR, SECRET)
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    for bit in range(len(raw) * 8):
        flipped = (int.from_bytes(raw, "big") ^ 1 << bit).to_bytes(len(raw), "big")
        refused(base64.urlsafe_b64encode(flipped).rstrip(b"=").decode(), SECRET)


@pytest.mark.parametrize("secret", [None, SECRET])
def test_a_shortened_cursor_is_noticed(secret):
    text = encode(Cursor(7, 3, False, EQUALITY, b""), secret)
    for length in range(len(text)):
        refused(text[:length], secret)


def test_a_signature_too_short_is_tampering():
    raw = bytes.fromhex("01 00000007 00000003 02") + EQUALITY + b"short"
    assert "tampered" in refused(base64.urlsafe_b64encode(raw).rstrip(b"=").decode(), SECRET)


HEAD = bytes.fromhex("00000007 00000003")


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
        encode(Cursor(7, 3, False, EQUALITY, bytes(LONGEST)), None),
        encode(CURSOR, None) + "=",
        encode(CURSOR, None) + "\n",
        " " + encode(CURSOR, None),
        encode(CURSOR, None).replace("A", "+", 1),
        base64.urlsafe_b64encode(b"\x02" + HEAD + b"\x00" + EQUALITY + b"abcd").decode().rstrip("="),
        base64.urlsafe_b64encode(b"\x01" + HEAD + b"\x04" + EQUALITY + b"abcd").decode().rstrip("="),
    ],
    ids=range(18),
)
def test_what_is_no_cursor_is_refused(text):
    assert refused(text) == "this is not a cursor"


def test_one_cursor_has_one_text():
    text = encode(Cursor(7, 3, False, EQUALITY, b""), None)
    others = {text[:-1] + letter for letter in string.ascii_letters + string.digits + "-_"} - {text}
    for other in others:
        refused(other)


@given(st.text() | st.text("AQ-_=bz", max_size=80), SECRETS)
def test_any_text_is_a_cursor_or_refused(text, secret):
    try:
        seen = read(text, secret)
    except InvalidCursor:
        return
    assert encode(seen, secret) == text


@given(st.binary(max_size=80), st.sampled_from([None, SECRET]))
def test_any_bytes_are_a_cursor_or_refused(raw, secret):
    for each in (raw, bytes.fromhex("01 00000007 00000003 00") + EQUALITY + raw):
        text = base64.urlsafe_b64encode(each).rstrip(b"=").decode()
        try:
            seen = read(text, secret)
        except InvalidCursor:
            continue
        assert encode(seen, secret) == text
