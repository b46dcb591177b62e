"""Connections to Bigtable break at the worst moments: answers are lost, streams end halfway, nothing answers.

The story: a request went through and its answer did not come back. What may be done twice is done again, once for each
lost answer; what may not is never sent again, and its caller learns that the outcome is unknown.
"""

import asyncio
import random
import signal
import socket
import threading
from contextlib import suppress
from uuid import uuid4

import msgspec
import pytest

from oneread.engines.bigtable import BigtableEngine, BigtableOptions, emulated
from oneread.engines.bigtable.channels import Channels
from oneread.errors import Closed, OutcomeUnknown, Unavailable, Unsupported
from oneread.store.engine import finish
from oneread.store.requests import ABSENT, CheckAndMutate, Increment, Mutate, Read, Scan
from oneread.store.rows import REMOVED, Cell, RowMutation, RowRange
from tests.failures.grpc_proxy import Faults
from tests.failures.proxy import Proxy
from tests.servers import need
from tools.servers.bigtable import bigtable_emulator

ALL = RowRange(b"", b"")
LARGE = bytes(300_000)
ALWAYS = 1_000_000
SHORT = 0.3  # seconds that a request may take where it is to end without an answer


def row(key, value=b"1", stamp=1):
    return RowMutation(key, {b"d:b": Cell(value, stamp)})


def opened(port, instance, timeout=30.0):
    return BigtableEngine(BigtableOptions("test", instance, timeout=timeout), emulated(f"127.0.0.1:{port}"))


def give(engine, seconds):
    """Gives requests so long from now on."""
    engine._steps._options = msgspec.structs.replace(engine._steps._options, timeout=seconds)


def impatient(port, instance):
    """An engine that was opened in peace, and waits for nothing long from now on."""
    engine = opened(port, instance)
    give(engine, SHORT)
    return engine


@pytest.fixture
def instance():
    return f"i{uuid4().hex}"


@pytest.fixture
def direct(emulator, instance):
    """The same store, asked past the proxy."""
    engine = opened(emulator.port, instance)
    yield engine
    engine.close()


@pytest.fixture
def faults():
    return Faults()


@pytest.fixture
def proxy(emulator, faults):
    with Proxy(("127.0.0.1", emulator.port), faults.filter) as proxy:
        yield proxy
        faults.release()


@pytest.fixture
def engine(direct, proxy, instance):  # noqa: ARG001 - the store is made before anything breaks
    engine = opened(proxy.port, instance)
    yield engine
    engine.close()


@pytest.fixture(params=["sync", "ahead", "async"])
def ask(request, engine):
    """Asks the engine in this thread, alone or ahead of other requests, or on an event loop."""
    if request.param == "sync":
        yield engine.answer
        return
    if request.param == "ahead":
        yield lambda asked: finish(engine.begin(asked))
        return
    with asyncio.Runner() as runner:
        yield lambda asked: runner.run(engine.answer_async(asked))


@pytest.fixture
def calls(monkeypatch, engine):
    """The calls that the engine behind the proxy makes."""
    made = []
    for name in ("_send", "_perform_async"):
        performed = getattr(Channels, name)

        def note(channels, step, performed=performed, **named):
            if channels is engine._channels and hasattr(step, "method"):
                made.append(step.method.path.rpartition("/")[2])
            return performed(channels, step, **named)

        monkeypatch.setattr(Channels, name, note)
    return made


@pytest.mark.parametrize("lost", [1, 4])
def test_a_write_that_may_be_made_twice_is_made_again(ask, faults, direct, calls, lost):
    faults.drop_answers(lost)
    ask(Mutate("roots", [row(b"a")]))
    ask(Mutate("roots", [row(b"b"), row(b"c")]))
    assert calls == ["MutateRow"] * (lost + 1) + ["MutateRows"]
    assert faults.met == lost
    assert [key for key, _row in direct.answer(Scan("roots", ALL, 9))] == [b"a", b"b", b"c"]


def test_a_batch_that_breaks_off_is_sent_again(ask, faults, direct, calls):
    faults.drop_answers(2)
    ask(Mutate("roots", [row(b"a"), row(b"b")]))
    assert calls == ["MutateRows"] * 3
    assert len(direct.answer(Scan("roots", ALL, 9))) == 2


def test_when_the_time_is_over_the_outcome_of_lost_answers_is_unknown(engine, ask, faults, direct, calls):
    give(engine, 1.0)
    faults.drop_answers(ALWAYS)
    with pytest.raises(OutcomeUnknown):
        ask(Mutate("roots", [row(b"a")]))
    assert set(calls) == {"MutateRow"}
    if faults.met:
        assert len(direct.answer(Scan("roots", ALL, 9))) == 1


@pytest.mark.parametrize(
    "asked",
    [CheckAndMutate("roots", b"d:b", ABSENT, row(b"a")), Increment("counts", b"a", b"d:n", 5)],
    ids=["condition", "increment"],
)
def test_what_may_not_be_made_twice_is_sent_once(ask, faults, direct, calls, asked):
    faults.drop_answers(1)
    with pytest.raises(OutcomeUnknown) as unknown:
        ask(asked)
    assert len(calls) == faults.met == 1
    assert unknown.value.facts["table"] == asked.table
    found = direct.answer(Read(asked.table, [b"a"]))[0]
    assert found is not None, "the request went through"
    assert ask(Read(asked.table, [b"a"])) == [found]  # on a new connection: a read may be made again
    assert ask(Increment("counts", b"a", b"d:n", 1)) in (1, 6)


def test_a_read_is_made_again_and_its_last_failure_changes_nothing(engine, ask, faults, direct, calls):
    direct.answer(Mutate("roots", [row(b"a")]))
    faults.drop_answers(2)
    assert ask(Read("roots", [b"a", b"x"])) == [{b"d:b": Cell(b"1", 1)}, None]
    assert calls == ["ReadRows"] * 3
    give(engine, 1.0)
    faults.drop_answers(ALWAYS)
    with pytest.raises(Unavailable):
        ask(Read("roots", [b"a"]))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("inside", [0, 20])
def test_a_scan_continues_where_its_stream_was_cut(ask, faults, direct, calls, inside, reverse):
    keys = [b"%02d" % number for number in range(12)]
    direct.answer(Mutate("roots", [row(key, LARGE) for key in keys]))
    direct.answer(Mutate("roots", [row(keys[5], REMOVED, 2)]))
    expected = direct.answer(Scan("roots", ALL, 10, reverse))
    assert len(expected) == 10
    for frames in (1, 25, 60):
        calls.clear()
        faults.cut_after(frames, inside=inside)
        assert ask(Scan("roots", ALL, 10, reverse)) == expected
        assert calls == ["ReadRows"] * 2
    assert faults.met == 3


def test_a_read_of_keys_continues_where_its_stream_was_cut(ask, faults, direct, calls):
    keys = [b"%02d" % number for number in range(8)]
    direct.answer(Mutate("roots", [row(key, LARGE) for key in keys]))
    faults.cut_after(40, inside=3)
    found = ask(Read("roots", [b"x", *keys[::-1]]))
    assert [each and len(each[b"d:b"].value) for each in found] == [None, *[len(LARGE)] * 8]
    assert calls == ["ReadRows"] * 2


def test_a_scan_without_its_end_is_whole(ask, faults, direct):
    direct.answer(Mutate("roots", [row(b"a"), row(b"b")]))
    for limit in (2, 9):
        faults.drop_ends(1)
        assert [key for key, _row in ask(Scan("roots", ALL, limit))] == [b"a", b"b"]
    assert faults.met == 2


def test_every_wait_ends(proxy, faults, instance):
    engine = impatient(proxy.port, instance)
    faults.hold()
    with pytest.raises(Unavailable, match="in time"):
        engine.answer(Read("roots", [b"a"]))
    with pytest.raises(Unavailable, match="in time"):
        engine.answer(Scan("roots", ALL, 5))
    for asked in (
        Mutate("roots", [row(b"a")]),
        Mutate("roots", [row(b"a"), row(b"b")]),
        CheckAndMutate("roots", b"d:b", ABSENT, row(b"a", b"2")),
        Increment("counts", b"a", b"d:n", 1),
    ):
        with pytest.raises(OutcomeUnknown):
            engine.answer(asked)
        with pytest.raises(OutcomeUnknown):
            asyncio.run(engine.answer_async(asked))
    faults.release()
    engine.close()


def test_a_wait_ends_while_the_server_stands_still():
    with need("bigtable", bigtable_emulator) as own:
        engine = impatient(own.port, "paused")
        own.pause()
        with pytest.raises(Unavailable, match="in time"):
            engine.answer(Read("roots", [b"a"]))
        with pytest.raises(OutcomeUnknown):
            engine.answer(Mutate("roots", [row(b"a")]))
        own.resume()
        patient = opened(own.port, "paused")
        patient.answer(Mutate("roots", [row(b"b")]))
        assert patient.answer(Read("roots", [b"b"])) == [{b"d:b": Cell(b"1", 1)}]
        patient.close()
        engine.close()


@pytest.mark.parametrize("asked", [Read("roots", [b"a"]), Mutate("roots", [row(b"a")])], ids=["read", "write"])
def test_closing_ends_a_wait_and_says_of_a_write_that_nothing_is_known(engine, faults, asked):
    faults.hold()
    ended = []

    def wait():
        with pytest.raises((Closed, OutcomeUnknown)) as failure:
            engine.answer(asked)
        ended.append(failure.type)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert faults.waits.wait(60)
    engine.close()
    waiting.join(60)
    assert ended == [Closed if isinstance(asked, Read) else OutcomeUnknown]


@pytest.mark.parametrize("asked", [Read("roots", [b"a"]), Mutate("roots", [row(b"a")])], ids=["read", "write"])
def test_closing_ends_a_wait_on_an_event_loop_whose_caller_was_not_cancelled(engine, faults, asked):
    faults.hold()

    async def ask():
        with pytest.raises((Closed, OutcomeUnknown)) as failure:
            await engine.answer_async(asked)
        return failure.type

    async def close():
        waiting = asyncio.create_task(ask())
        assert await asyncio.to_thread(faults.waits.wait, 60)
        await asyncio.to_thread(engine.close)
        return await asyncio.wait_for(waiting, 60)

    assert asyncio.run(close()) is (Closed if isinstance(asked, Read) else OutcomeUnknown)


def test_a_caller_that_is_cancelled_while_the_store_is_closed_stays_cancelled(engine, faults):
    faults.hold()

    async def cancel():
        waiting = asyncio.create_task(engine.answer_async(Read("roots", [b"a"])))
        assert await asyncio.to_thread(faults.waits.wait, 60)
        waiting.cancel()
        engine.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(cancel())


class Interrupted(BaseException):
    """What a signal handler raises."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of gRPC, where a signal hits __del__
def test_a_signal_that_interrupts_grpc_leaves_a_store_that_answers_and_closes(emulator, instance):
    """gRPC, interrupted in the main thread, may never release a lock: what waits for it would wait without end."""

    def interrupt(_signal, _frame):
        raise Interrupted

    def ask():
        while not ended.is_set():
            engine.answer(Read("roots", [b"b"]))

    engine, chance, interrupted = opened(emulator.port, instance), random.Random(1), 0
    ended, other = threading.Event(), threading.Thread(target=ask, daemon=True)
    other.start()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(200):
            with suppress(Interrupted):
                try:
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.003))
                    for _ in range(20):
                        engine.answer(Read("roots", [b"a"]))
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Interrupted:
                    interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    engine.answer(Mutate("roots", [row(b"a")]))
    ended.set()
    other.join(30)
    assert not other.is_alive(), "of another thread nothing is interrupted"
    closing = threading.Thread(target=engine.close, daemon=True)
    closing.start()
    closing.join(30)
    assert (interrupted > 50, closing.is_alive()) == (True, False)


def test_connections_of_event_loops_that_ended_are_forgotten(engine):
    for _ in range(4):
        asyncio.run(engine.answer_async(Read("roots", [b"a"])))
    assert len(engine._channels._loops) == 1


def test_connections_come_back_after_a_cut(ask, proxy, direct):
    for number in range(3):
        ask(Mutate("roots", [row(b"%d" % number)]))
        proxy.cut()
    assert len(ask(Scan("roots", ALL, 9))) == len(direct.answer(Scan("roots", ALL, 9))) == 3
    assert proxy.accepted > 3


def test_without_a_server_nothing_is_written_and_the_error_says_so():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
        with pytest.raises(Unavailable, match="cannot connect to Bigtable"):
            opened(free, "none", timeout=5.0)


def test_a_condition_that_never_left_is_sent_again_and_never_unknown():
    with need("bigtable", bigtable_emulator) as own:
        engine = opened(own.port, "killed")
        own.kill()
        give(engine, 5.0)
        asked = CheckAndMutate("roots", b"d:b", ABSENT, row(b"a"))
        with pytest.raises((Unavailable, OutcomeUnknown)):  # the first may be written into the broken connection
            engine.answer(asked)
        with pytest.raises(Unavailable, match="cannot connect") as refused:
            engine.answer(asked)
        assert "nothing was written" in str(refused.value)
        own.start()
        give(engine, 30.0)
        again = opened(own.port, "killed")
        assert again.answer(Scan("roots", ALL, 9)) == []
        assert engine.answer(asked) is True
        again.close()
        engine.close()


class Listener:
    """A server of another kind: it answers each connection with some bytes, or with nothing."""

    def __init__(self, answer):
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._open = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _address = self._listening.accept()
            except OSError:
                return
            self._open.append(client)
            if self._answer:
                client.recv(100)
                client.sendall(self._answer)
                client.close()

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._open:
            each.close()


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", b"VERSION 1.6\r\n"], ids=["http", "memcached"]
)
def test_a_server_that_speaks_no_grpc_is_an_error_that_ends(answer):
    listener = Listener(answer)
    try:
        with pytest.raises((Unavailable, Unsupported)) as refused:
            opened(listener.port, "none", timeout=5.0)
    finally:
        listener.close()
    assert len(str(refused.value)) < 600


def test_a_server_that_says_nothing_is_an_error_that_ends():
    listener = Listener(b"")
    try:
        with pytest.raises(Unavailable, match=r"in time|cannot connect"):
            opened(listener.port, "none", timeout=SHORT)
    finally:
        listener.close()
