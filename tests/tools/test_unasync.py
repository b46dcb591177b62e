"""The synchronous face says what the asynchronous source says, without waiting."""

import textwrap

import pytest

from tools import unasync


def twin(source):
    return unasync.synchronous(textwrap.dedent(source))


@pytest.mark.parametrize(
    ("asynchronous", "synchronous"),
    [
        ("async def get(self): ...\n", "def get(self): ...\n"),
        ("async def f():\n    return await g(await h())\n", "def f():\n    return g(h())\n"),
        ("async def f():\n    async with a as b: ...\n", "def f():\n    with a as b: ...\n"),
        ("async def f():\n    async for a in b: ...\n", "def f():\n    for a in b: ...\n"),
        ("async def f():\n    return [a async for a in b]\n", "def f():\n    return [a for a in b]\n"),
        ("class AsyncDatabase(AsyncBase): ...\n", "class Database(Base): ...\n"),
        ("x: AsyncIterator[int] | AsyncGenerator[int]\n", "x: Iterator[int] | Generator[int]\n"),
        ("async def __aenter__(self): ...\n", "def __enter__(self): ...\n"),
        ("async def __aexit__(self, *a): ...\n", "def __exit__(self, *a): ...\n"),
        ("async def __anext__(self): raise StopAsyncIteration\n", "def __next__(self): raise StopIteration\n"),
        ("def __aiter__(self): return aiter(self)\n", "def __iter__(self): return iter(self)\n"),
        ("async def f(): await x.aclose()\n", "def f(): x.close()\n"),
        ("from oneread.plans import async_driver\n", "from oneread.plans import sync_driver\n"),
        ("connect_async()\n", "connect()\n"),
    ],
)
def test_a_word_has_its_synchronous_twin(asynchronous, synchronous):
    assert twin(asynchronous) == synchronous


def test_docstrings_follow_the_code_they_show():
    source = '"""An asynchronous door: `async with connect_async(url) as db: await db.get(key)`."""\n'
    assert twin(source) == '"""A synchronous door: `with connect(url) as db: db.get(key)`."""\n'


@pytest.mark.parametrize("name", ["awaited = 1\n", "asyncio = 1\n", "reclose = 1\n", "async_hint = 1\n"])
def test_words_that_only_look_alike_stay(name):
    assert twin(name) == name


def test_a_statement_for_async_only_is_left_out_with_its_body():
    source = """
    import asyncio  # async only

    class A:
        @decorated
        async def shielded(self):  # async only
            await asyncio.sleep(0)

        async def kept(self): ...
    """
    assert "".join(twin(source).split()) == "classA:defkept(self):..."


def test_a_line_for_sync_only_loses_its_comment_sign():
    assert twin("    # sync only: import time\n".lstrip()) == "import time\n"


def test_a_mark_that_belongs_to_no_statement_is_refused():
    with pytest.raises(ValueError, match="line 2"):
        twin("x = (\n    1,  # async only\n)\n")


def test_the_check_shows_what_is_stale_and_is_silent_when_nothing_is(tmp_path):
    source, target = tmp_path / "async_x.py", tmp_path / "sync_x.py"
    source.write_text("async def f():\n    await g()\n")
    assert "+def f():" in unasync.stale(target, source)
    target.write_text(unasync.generate(source))
    assert unasync.stale(target, source) == ""
    target.write_text(target.read_text().replace("g()", "h()"))
    assert "-    h()\n+    g()" in unasync.stale(target, source)


def test_generated_text_says_from_what_and_is_formatted(tmp_path):
    source = tmp_path / "async_x.py"
    source.write_text("import zlib\nimport abc\nimport ast\nasync def f( a ):\n    return abc, zlib\n")
    first, *rest = unasync.generate(source).splitlines()
    assert "async_x.py" in first
    assert "Generated" in first
    assert rest == ["import abc", "import zlib", "", "", "def f(a):", "    return abc, zlib"]
