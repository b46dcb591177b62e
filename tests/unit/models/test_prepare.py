"""Threads that are the first to decode a type at the same time: msgspec alone would end the process.

The programs run in processes of their own. msgspec looks at `Deep` when it has looked at half of `Inner`, and this
takes so long that other threads come in between.
"""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import msgspec

from oneread import Key, Model
from oneread.models.json_form import form
from oneread.models.layout import Layout


def slowly(annotation):
    time.sleep(0.02)
    return annotation


class Deep(msgspec.Struct):
    words: "slowly(list[str])"


class Inner(msgspec.Struct):
    deep: Deep | None = None
    behind: int = 0


class Thing(Model[int]):
    number: Key[int]
    inner: Inner | None = None


def convert():
    return form(Thing).whole.convert({"number": 1, "inner": {"behind": 2}})


def decode():
    return form(Thing).whole.decode(b'{"number": 1, "inner": {"behind": 2}}')


def convert_field():
    return form(Thing).whole.convert_field("inner", {"behind": 2})


def lay_out():
    layout = Layout(Thing, 1)
    return layout.decode(layout.encode(Thing(number=1, inner=Inner(behind=2))))


def at_once(call):
    begin.wait()
    return call()


begin = Barrier(3)
with ThreadPoolExecutor(3) as pool:
    first, *others = pool.map(at_once, [%s] * 3)
assert others == [first] * 2, (first, others)
"""


@pytest.mark.parametrize("call", ["convert", "decode", "convert_field", "lay_out"])
def test_threads_may_be_the_first_to_decode_a_type(call):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % call],
        capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[3], check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"
