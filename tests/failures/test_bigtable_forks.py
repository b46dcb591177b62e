"""A process forks while it has Bigtable open: parent and child each ask on connections of their own.

Each program is a fresh interpreter: gRPC supports forks only if that was asked for before it is imported.
"""

from uuid import uuid4

import pytest

from tests.failures.stores import child

PROGRAM = """
import asyncio, os, sys
from oneread.engines.bigtable import BigtableEngine, BigtableOptions, emulated
from oneread.errors import Unsupported
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import Cell, RowMutation, RowRange

engine = BigtableEngine(BigtableOptions("test", sys.argv[2]), emulated(sys.argv[1]))

def put(key):
    engine.answer(Mutate("roots", [RowMutation(key, {b"d:b": Cell(b"1", 1)})]))

def keys():
    return b"".join(key for key, _row in engine.answer(Scan("roots", RowRange(b"", b""), 9)))

def in_child(work):
    pid = os.fork()
    if not pid:
        try:
            os.write(1, work() + b"\\n")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
"""

THREADS = """
put(b"a")
def work():
    assert not engine._channels._main.channels
    assert not engine._channels._threads.channels
    put(b"b")
    return keys()
in_child(work)
put(b"c")
os.write(1, keys() + b"\\n")
in_child(keys)
engine.close()
"""

INTERRUPTED = """
import contextlib, random, signal
class Interrupted(BaseException): ...
put(b"a")
def interrupt(*_):
    raise Interrupted
signal.signal(signal.SIGALRM, interrupt)
chance = random.Random(1)
def work():
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(60)
    return keys()
for _ in range(200):
    with contextlib.suppress(Interrupted):
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.003))
        for _ in range(20):
            keys()
        signal.setitimer(signal.ITIMER_REAL, 0)
signal.setitimer(signal.ITIMER_REAL, 0)
for _ in range(5):
    in_child(work)
os._exit(0)  # gRPC may be locked, and wait at the end of the program
"""

LOOPS = """
asyncio.run(engine.answer_async(Read("roots", [b"a"])))
def work():
    try:
        asyncio.run(engine.answer_async(Read("roots", [b"a"])))
    except Unsupported as error:
        return str(error).encode()
    return b"it asked"
in_child(work)
engine.close()
"""


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (THREADS, [b"ab", b"abc", b"abc"]),
        (INTERRUPTED, [b"a"] * 5),
        (LOOPS, [b"gRPC serves no event loop in the child of a process that had one"]),
    ],
    ids=["threads", "interrupted", "loops"],
)
def test_a_child_of_a_fork(emulator, work, said):
    program = child(PROGRAM + work, emulator.host, f"i{uuid4().hex}", measured=False)
    out, _errors = program.communicate(timeout=300)
    assert program.returncode == 0
    lines = out.splitlines()
    assert len(lines) == len(said)
    assert all(line.startswith(each) for line, each in zip(lines, said, strict=True)), lines
