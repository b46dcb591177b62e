"""However few entries of the log a step takes, and whatever children refer to: verify finds nothing in between."""

import pytest

from oneread import GENERATED, Aggregate, Key, Model, Ref, Schema, by, connect, count, rollup
from oneread.copying.moves import Move
from oneread.testing.clock import Clock
from tests.stores import KINDS, forget, make_url


class Message(Model[int, int]):
    child_of = "Thread"

    thread: Key[int]
    number: Key[int] = GENERATED
    text: str
    sender: Ref["Member"]


class MessagesOfThread(Aggregate[Message]):
    thread: int = by(Message.thread)
    messages: int = count()


class Thread(Model[int]):
    thread: Key[int]
    messages: int = rollup(MessagesOfThread.messages)


class Member(Model[str]):
    name: Key[str]


SCHEMA = Schema(Message, MessagesOfThread, Thread, Member)  # the log has rows of the first model first


@pytest.fixture(params=KINDS)
def places(request, tmp_path):
    """The URLs of both stores: the source changes one row at a time, so that each row is an entry of its log."""
    made = make_url("row", None), make_url(request.param, tmp_path)
    yield made
    for each in made:
        forget(each)


def test_the_target_is_right_behind_each_step(places):
    source, target = places
    clock = Clock()
    with connect(source, SCHEMA, workers=0, clock=clock) as db:
        db.save(Member(name="ada"))
        for thread in range(8):
            db.save(Thread(thread=thread))
            db.create(Message(thread=thread, text="first", sender=Member.at("ada")))
        with Move(source, target, (SCHEMA, SCHEMA), clock, 0.0) as it:
            it.start()
            it.copy()
            it.follow(until_lag=0.0)
            for number in range(16):
                db.create(Message(thread=number % 8, text=f"message {number}", sender=Member.at("ada")))
            db.delete(Member, "ada")  # messages are copied with what they refer to, though that is gone
            db.drain()
            clock.tick(5)
            flow = it._opened()
            steps = 0
            while flow.lag(back=False)[0]:
                flow.copier._entries = 3
                flow.follow_some(back=False)
                steps += 1
                found = flow.states.target.verify()
                assert found.clean, (steps, found.faults)
            assert steps >= 5
            assert flow.states.target.page(Message).rows == db.page(Message).rows
