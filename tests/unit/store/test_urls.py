"""URLs lose no character, and no error of one shows a password, however it was mistyped."""

import asyncio
import logging
import traceback

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from oneread import Key, Model, Schema, connect, connect_async
from oneread.caches.redis import RedisPlace
from oneread.cli.program import app
from oneread.errors import InvalidUrl, OnereadError
from oneread.store.urls import redact, split_url


class Note(Model[int]):
    number: Key[int]


SITE = Schema(Note)
SCHEMES = ("lmdb", "redis", "memory", "hbase")
SECRET = "Qx7kZw9v"  # no word of any message
PIECE = 4
"""A part of the secret of this length is too much."""
URLS = [
    f"{scheme}://{user}{SECRET}@{place}"
    for scheme in ("redis", "rediss", "reddis", "memcached", "hbase", "bigtable", "lmdb", "memory", "postgres")
    for user, place in (("user:", "cache.example:6379/0"), (":", "[::1]:6379?timeout=1"), ("a@b/c:", "h,g:1/x"))
]
URLS += [f"{scheme}://cache.example:6379/0?password={SECRET}" for scheme in ("redis", "memcached", "hbase", "lmdb")]
EDITS = ["", "//", "%40", *"@:/?#[]%&=;, \t\n\x00\uff20\u202eé"]


@st.composite
def mistyped(draw):
    """A URL with one slip: something inserted, replaced or left out, anywhere; or only its beginning or its end."""
    url = draw(st.sampled_from(URLS))
    at = draw(st.integers(0, len(url) - 1))
    cut = draw(st.integers(0, 2))
    return url[:at] + draw(st.sampled_from(EDITS)) + url[at + cut :]


def shows_secret(text):
    return any(SECRET[at : at + PIECE] in text for at in range(len(SECRET) - PIECE + 1))


def refusal(call, *arguments):
    try:
        call(*arguments)
    except OnereadError as error:
        return error
    return None


def told(error):
    """All that an error may show: its text, facts, notes, causes."""
    if error is None:
        return ""
    whole = "".join(traceback.format_exception(error))
    return f"{error} {error!r} {error.facts} {whole} {getattr(error, '__notes__', '')}"


@given(mistyped())
@example(f"user:{SECRET}")
@example(f"redis:{SECRET}")
@example(f"redis://user:{SECRET}")
@example(f"redis:/user:{SECRET}@host")
@example(f"redis//user:{SECRET}@host")
@example(f"redis://user%3A{SECRET}%40host")
@example(f"redis://host?{SECRET}")
@example(f"redis://host?x=a@{SECRET}")
@example(f"redis://host&password={SECRET}")
@example(f"redis://user:{SECRET}\uff20host")
def test_a_redacted_url_shows_no_password(url):
    # Without both of `:` and `@` nothing says that a name is a secret.
    assert not shows_secret(redact(url))
    for known in (SCHEMES, ("memcached",), ()):
        error = refusal(split_url, url, known)
        assert not shows_secret(told(error)), url


@pytest.mark.parametrize("url", URLS)
def test_no_error_of_connect_shows_a_password(url, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", "")
    caplog.set_level(logging.DEBUG)
    for edit in EDITS:
        slip = url.replace(SECRET, f"{SECRET[:4]}{edit}{SECRET[4:]}")
        for store, cache in ((slip, None), ("memory://?span=row", slip)):
            error = refusal(lambda: connect(store, SITE, timeout=0, cache=cache, telemetry=True).close())  # noqa: B023
            assert not shows_secret(told(error)), error
    assert not shows_secret(caplog.text)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("url", [URLS[0], URLS[6], URLS[18], f"redis:/user:{SECRET}@host", URLS[-1]])
@pytest.mark.parametrize("where", ["option", "argument", "other", "environment"])
def test_no_command_shows_a_password(url, where, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = {"option": ["--db", url], "argument": ["--db", "memory://", url], "other": [f"--dbb={url}"]}
    if where == "environment":
        monkeypatch.setenv("ONEREAD_DB", url)
    for more in ([], ["--json"]):
        ran = CliRunner().invoke(app, ["stat", "--schema", f"{__name__}:SITE", *words.get(where, []), *more])
        assert ran.exit_code == 2
        assert not shows_secret(ran.output), ran.output


def test_the_place_of_a_redis_does_not_show_its_password():
    assert repr(RedisPlace("host", password=SECRET, username="user")) == "host:6379/0"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("lmdb:///var/lib/shop", "lmdb:///var/lib/shop"),
        ("lmdb:///var/lib/shop?prefix=a", "lmdb:///var/lib/shop..."),
        ("hbase://a:9090,b:9091/shop", "hbase://a:9090,b:9091/shop"),
        ("hbase://me:secret@host:9090/shop", "hbase://...@host:9090/shop"),
        ("redis://host:port", "redis://host:..."),
        ("redis://host?password=a@b", "redis://..."),
        ("shop", "shop"),
        ("", ""),
    ],
)
def test_what_is_shown_of_a_url(url, shown):
    assert redact(url) == shown


@pytest.mark.parametrize("text", ["\r\n", *"\n\t\x00\x7f\x85\u2028\u202e\u200b\ufeff\xa0"], ids=ascii)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("place", ["{}shop", "sh{}op", "shop{}", "shop?prefix={}a", "shop?prefix=a{}"])
def test_characters_that_others_take_out_are_refused(text, scheme, place):
    with pytest.raises(InvalidUrl, match="a character that URLs do not have") as error:
        split_url(f"{scheme}://{place.format(text)}", SCHEMES)
    assert error.value.facts["character"] == ascii(text[0])
    assert split_url(f"memory://sh{error.value.facts['escape']}op", SCHEMES).place == f"sh{text[0]}op"


@pytest.mark.parametrize("url", [" lmdb://shop", "lmdb://shop ", "\nlmdb://shop", "lmdb://shop\n", "\ufefflmdb://shop"])
def test_blanks_around_a_url_are_refused(url):
    with pytest.raises(InvalidUrl, match="a character that URLs do not have"):
        split_url(url, SCHEMES)


@pytest.mark.parametrize(
    "url",
    [
        *("lmdb", "lmdb:shop", "lmdb:/shop", "//shop", "://shop", "lmdb//shop", "", None, 7, b"lmdb://shop", "1x://y"),
        *("lmdb://x#", "lmdb://x#y", "lmdb://x?y", "lmdb://x?=1", "lmdb://x?A=1", "lmdb://x?a=%ff", "lmdb://x?a=1&a=1"),
        "memory://%ff",
        "lmdb://%FF",
        "lmdb://\udcff",
    ],
    ids=repr,
)
def test_what_is_not_a_url_is_refused(url):
    with pytest.raises(InvalidUrl):
        split_url(url, SCHEMES)


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("my shop", "my shop"),
        ("a+b", "a+b"),
        ("50%25", "50%"),
        ("a%23b", "a#b"),
        ("a%3Fb", "a?b"),
        ("a%0Ab", "a\nb"),
        ("a%40b%3Ac", "a@b:c"),
        ("d\u00e9j\u00e0", "d\u00e9j\u00e0"),
        ("d%C3%A9", "d\u00e9"),
        ("\U0001f600", "\U0001f600"),
        ("[x", "[x"),
        ("a&b;c=d", "a&b;c=d"),
        ("a\\b", "a\\b"),
    ],
    ids=ascii,
)
def test_a_store_is_in_the_folder_of_its_url(place, folder, tmp_path):
    with connect(f"lmdb://{tmp_path}/{place}?durability=none", SITE, workers=0) as db:
        db.save(Note(number=1))
    assert [each.name for each in tmp_path.iterdir()] == [folder]


def test_the_asynchronous_face_reads_urls_the_same_way():
    async def opened():
        async with connect_async(f"redis://user:{SECRET}@host", SITE):
            pass

    with pytest.raises(InvalidUrl) as error:
        asyncio.run(opened())
    assert not shows_secret(told(error.value))
