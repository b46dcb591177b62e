"""A community that is moved to another store while it is in use, and while what moves it is killed again and again.

`python -m examples.community.moving --from lmdb:///srv/a --to lmdb:///srv/b`; see `examples.moving`. Members write in
threads, publish events, join groups, vote, rename groups, and are counted; others read home pages meanwhile. In the end
all of the site is compared with the records and what was acknowledged, each feed of each member included.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from itertools import count
from random import Random

from examples.commands import Parser
from examples.community import counting, joining, loading, meetups, schema, source, stores
from examples.community.checking import check
from examples.community.joining import JOINED
from examples.community.schema import COMMUNITY, Member
from examples.comparing import all_rows, print_compared, print_verified
from examples.moving import Site, main
from examples.moving_programs import COUNTERS, ROWS, Answered, Call, Made, Pages, count_again, now, read, write
from oneread import Database, Transaction

FIRST_ID = 10**9
"""Of messages that are written while the store is moved."""


class CommunityCall(Call, frozen=True):
    """What a member does: `place` is a thread, a group, a post or a counter."""

    at: datetime
    member: str = ""
    place: str = ""
    text: str = ""
    number: int = 0

    @property
    def once(self) -> bool:
        """All may be made twice but a message, which would be in its thread twice."""
        return self.verb == "send"


class Community(Site):
    """The community of `examples.community`, with counters of visits."""

    module = "examples.community.moving"
    schema = COMMUNITY
    call = CommunityCall
    loaded = Member

    def __init__(self, given: Namespace) -> None:
        self._log_clock = counting.Clock()
        super().__init__(given, self._log_clock)

    @cached_property
    def data(self) -> source.Data:
        """The records that are loaded first."""
        return source.read(self.given.data)

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add_argument("--data", default="generated:7:60", help="as that of `load` (generated:7:60)")

    def load(self, url: str) -> None:
        with stores.for_loading(url, self._log_clock) as db:
            loading.load(db, self.data, _in_silence)
            for log in self.data.logs:
                counting.count(db, self._log_clock, log, _in_silence)

    def write(self, db: Database, me: int) -> None:
        given = self.given
        calls = _calls(me, given.writers, self.data)
        log = given.folder / f"calls-{me}"
        write(calls, lambda call, token: _MADE[call.verb](db, call, token), given.rate / given.writers, log, me)

    def read(self, db: Database, me: int) -> Pages:
        names = {group.key for group in self.data.meetups.groups if not _is_busy(group.key)}
        busy = {each.member for each in self.data.meetups.memberships if each.group not in names}
        listed = {
            home.member: [(entry[1],) for entry in home.entries]
            for home in joining.homes(self.data)
            if home.member not in busy
        }
        return read(db, me, lambda member, cursor: db.page(schema.Home, member, limit=ROWS, cursor=cursor), listed)

    def compare(self, db: Database, answered: Answered[CommunityCall]) -> int:
        return compare(db, self._log_clock, self.data, answered)


def _in_silence(_name: str, _done: int, _all: int) -> None:
    """Says nothing of how far a load is."""


# --- Writers ---------------------------------------------------------------------------------------------------------


def _send(db: Database, call: CommunityCall, _token: str) -> int:
    """A message, and that its sender takes part in the thread; returns the number of the message."""
    thread, sender = int(call.place), schema.Member.at(call.member)

    def send(tx: Transaction) -> int:
        shown = tx.get(schema.Thread, thread)
        message = schema.Message(
            thread=thread, sender=sender, sent_at=call.at, length=len(call.text), id=call.number, text=call.text
        )
        tx.patch(schema.Thread, thread, active_at=max(call.at, shown.active_at or call.at))
        tx.save(schema.Participation(thread=thread, person=call.member, member=sender))
        return tx.create(message).number

    return db.transact(send)


def _publish(db: Database, call: CommunityCall, _token: str) -> int:
    group = schema.GroupName.of(call.place)
    db.save(schema.Event(activity=_event_key(call), group=group, posted_at=call.at, title=call.text))
    return 0


def _join(db: Database, call: CommunityCall, _token: str) -> int:
    member, group = schema.Member.at(call.member), call.place
    db.save(
        schema.Membership(
            person=call.member, place=group, member=member, group=schema.Group.at(group), joined_at=call.at
        )
    )
    notice = f"{call.member} in {group}"
    of_group = schema.GroupName.of(group)
    db.save(schema.NewMember(activity=notice, group=of_group, posted_at=call.at, title=JOINED, by=member))
    return 0


def _vote(db: Database, call: CommunityCall, _token: str) -> int:
    choice = schema.Choice(call.text)
    db.save(
        schema.Ballot(post=int(call.place), voter=call.member, choice=choice, value=call.number, cast_at=call.at)
    )  # fmt: skip
    return 0


def _rename(db: Database, call: CommunityCall, _token: str) -> int:
    db.patch(schema.Group, call.place, name=call.text)
    return 0


def _count(db: Database, call: CommunityCall, token: str) -> int:
    return int(db.counter(call.place).add(1, once=token))


_MADE: dict[str, Callable[[Database, CommunityCall, str], int]] = {
    "send": _send, "publish": _publish, "join": _join, "vote": _vote, "rename": _rename, "count": _count,
}  # fmt: skip


def _event_key(call: CommunityCall) -> str:
    return f"event {call.text}"


def _is_busy(group: str) -> bool:
    """Whether members write in a group: of every second one the home pages stay as they are."""
    return sum(group.encode()) % 2 == 1


def _calls(me: int, writers: int, data: source.Data) -> Iterator[CommunityCall]:
    """What a writer does. Its voters and the groups that it renames are its own: so the last of them is known."""
    chance = Random(me)
    threads = [str(each.number) for each in data.topics]
    senders = [f"lean:{each}" for each in data.senders]
    posts = [str(each.number) for each in data.site.questions]
    groups = [each.key for each in data.meetups.groups if _is_busy(each.key)]
    newcomers = iter([(member, group) for group in groups for member in senders][me::writers])
    renamed = groups[me::writers]
    for number in count():
        kind, text = chance.random(), f"{me} {number}"
        at = now().replace(microsecond=0)  # records of messages have whole seconds
        if kind < 0.35:
            thread, sender = chance.choice(threads), chance.choice(senders)
            yield CommunityCall("send", at, sender, thread, text, FIRST_ID * (me + 1) + number)
        elif kind < 0.5:
            yield CommunityCall("publish", at, place=chance.choice(groups), text=text)
        elif kind < 0.6 and (pair := next(newcomers, None)) is not None:
            yield CommunityCall("join", at, *pair)
        elif kind < 0.8:
            choice, value = chance.choice((("up", 1), ("down", -1), ("favourite", 0)))
            yield CommunityCall("vote", at, f"voter {me} {chance.randrange(50)}", chance.choice(posts), choice, value)
        elif kind < 0.998 or not renamed:
            yield CommunityCall("count", at, place=f"visits:{chance.randrange(COUNTERS)}")
        else:
            yield CommunityCall("rename", at, place=chance.choice(renamed), text=f"Name {text}")


# --- What must be stored ---------------------------------------------------------------------------------------------


def compare(db: Database, clock: counting.Clock, data: source.Data, answered: Answered[CommunityCall]) -> int:
    """Compares the store with what was acknowledged; returns how much differs."""
    made: dict[str, list[Made[CommunityCall]]] = defaultdict(list)
    for each in answered.made:
        made[each.call.verb].append(each)
    counted: dict[str, list[str]] = defaultdict(list)
    for each in made["count"]:
        counted[each.call.place].append(each.token)
    lost, twice = count_again(db, counted)
    stored = Counter(each.id for each in all_rows(db, schema.Message) if each.id >= FIRST_ID)
    sent = {each.call.number for each in made["send"]}
    lost, twice = lost + len(sent - stored.keys()), twice + sum(stored.values()) - len(stored)
    print(f"lost {lost}, twice {twice}")
    if answered.unknown:
        print(f"messages of which it is not known whether they are stored: {len(answered.unknown)}")
    adds = sum(map(len, counted.values()))
    print(f"counters: {adds:,} adds in {len(counted)}; everything beside a model in plain Python:")
    differ = print_compared(check(db, clock, with_calls(data, made)))
    return differ + lost + twice + (not print_verified(db))


def with_calls(data: source.Data, made: Mapping[str, list[Made[CommunityCall]]]) -> source.Data:
    """The records with what was acknowledged as further ones."""
    sent = sorted(made.get("send", ()), key=lambda each: (each.call.place, each.answer.result))
    messages = [_message(each.call) for each in sent]
    newest = dict(data.newest)
    for each in messages:
        newest[each.topic] = max(each.sent_at, newest.get(each.topic, each.sent_at))
    return data._replace(
        messages=data.messages + len(messages),
        read_messages=lambda: _both(data.read_messages, messages),
        newest=newest,
        participations=sorted({*data.participations, *((each.topic, each.sender) for each in messages)}),
        ballots=[*data.ballots, *(_ballot(each.call) for each in made.get("vote", ()))],
        meetups=_meetups(data.meetups, made),
    )


def _both(first: Callable[[], Iterator[source.Message]], then: list[source.Message]) -> Iterator[source.Message]:
    yield from first()
    yield from then


def _message(call: CommunityCall) -> source.Message:
    sender = int(call.member.removeprefix("lean:"))
    return source.Message(call.number, int(call.place), sender, int(call.at.timestamp()), len(call.text))


def _ballot(call: CommunityCall) -> source.Ballot:
    return source.Ballot(int(call.place), call.member, call.text, call.number, call.at.astimezone(UTC))


def _meetups(known: meetups.Meetups, made: Mapping[str, list[Made[CommunityCall]]]) -> meetups.Meetups:
    names = {each.call.place: each.call.text for each in made.get("rename", ())}
    joined = [meetups.Membership(call.member, call.place, call.at) for call, *_ in made.get("join", ())]
    published = [
        meetups.Event(_event_key(call), call.place, call.at, call.text) for call, *_ in made.get("publish", ())
    ]  # fmt: skip
    return known._replace(
        groups=[each._replace(name=names.get(each.key, each.name)) for each in known.groups],
        memberships=sorted([*known.memberships, *joined], key=lambda each: each[:2]),
        events=[*known.events, *published],
    )


if __name__ == "__main__":
    sys.exit(main(Community))
