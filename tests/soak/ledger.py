"""The ledger: what every program said it tried and what was acknowledged, on disk before anything is judged by it.

From it follows what each entity may be. An acknowledged act was done once; one whose program was killed before it said
how it ended, or met OutcomeUnknown, was done once or not - and may still be done until the next acknowledged commit of
the same entity. What met any other error was not done.
"""

import json
import os
import time
from collections import Counter, defaultdict
from threading import Condition

from tests.soak.acts import after
from tests.soak.models import AUTHORS

REASONS = frozenset({"Unavailable"})
"""What a program that reads may meet while servers are away, by the name of the class."""

EXPECTED = REASONS | {"OutcomeUnknown", "Conflict", "NotFound", "NotUnique"}
"""What a writer may meet: the others answer about the entity."""


class Ledger:
    """Takes the lines of the programs; `lost` and `wrong` are sentences, the rest are counts."""

    def __init__(self, path, longest):
        self._file = path.open("ab")
        self._longest = longest
        self._open = {}
        """What each program is at."""
        self._lock = Condition()
        self.acknowledged = 0
        self.ended = Counter()
        self.seen = Counter()
        """Errors by class, what was done, and what they say."""
        self.looks = 0
        self.slowest = 0.0
        self.possible = defaultdict(lambda: {None})
        self._floating = defaultdict(set)
        """Of each entity, what acts of unknown outcome may still make of it: until a commit that changed it for sure.

        An act that was done and may have changed nothing - a delete of what is absent, the values that are there -
        may not have been a commit, and a request that is still under way is not refused after it.
        """
        self.possible |= {("author", number): {("first",)} for number in range(AUTHORS)}
        self.messages = {}
        """Of each text, the thread, and the number where it was acknowledged."""
        self.tokens = defaultdict(dict)
        """Of each poll, its tokens, and whether each was acknowledged."""
        self.lost, self.wrong = [], []

    def note(self, program, lines):
        """Keep lines of a program, and follow them; they are on disk when this returns."""
        with self._lock:
            now = f"{time.monotonic():.3f}".encode()
            for line in lines:
                self._file.write(now + b" " + program.encode() + b" " + line + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
            for line in lines:
                self._follow(program, json.loads(line))
            self._lock.notify_all()

    def remark(self, **words):
        """Keep what the parent did."""
        self.note("parent", [json.dumps(words).encode()])

    def end(self, program):
        """A program is no more: what it was at has no known outcome."""
        with self._lock:
            if (open_act := self._open.pop(program, None)) is not None:
                self.ended["killed"] += 1
                self._conclude(open_act, "unknown", None)

    def blame(self, sentence):
        """Something that must not be."""
        with self._lock:
            self.wrong.append(sentence)

    def wait(self, more, seconds):
        """Wait until so many more acts are acknowledged; whether they came in time."""
        with self._lock:
            wanted = self.acknowledged + more
            return self._lock.wait_for(lambda: self.acknowledged >= wanted, seconds)

    def pending_tokens(self, among=lambda _token: True):
        """The acts of tokens that were tried and not acknowledged."""
        return [
            {"kind": "poll", "key": poll, "do": "vote", "to": token}
            for poll, tokens in self.tokens.items()
            for token, is_sure in tokens.items()
            if not is_sure and among(token)
        ]

    def _follow(self, program, said):
        self.slowest = max(self.slowest, said.get("seconds", 0.0))
        if said.get("seconds", 0.0) > self._longest:
            self.wrong.append(f"{program}: a call took {said['seconds']:.1f} s: {said}")
        if "saw" in said:
            self.seen[said["saw"], said.get("during", "write"), said["why"]] += 1
            if said["saw"] not in (EXPECTED if "during" not in said else REASONS):
                self.wrong.append(f"{program}: {said['saw']} in {said.get('during', 'a write')}: {said['why']}")
        if "wrong" in said:
            self.wrong.append(f"{program}: {said['wrong']}")
        if "tries" in said:
            self._open[program] = said["act"]
            self._begin(said["act"])
        elif "ended" in said:
            self.ended[said["ended"]] += 1
            self._conclude(self._open.pop(program), said["ended"], said["number"])
        elif "looked" in said:
            self.looks += 1
        elif "reads" in said:
            self._compare_read((said["kind"], said["key"]), said["reads"])

    def _begin(self, act):
        if act["do"] == "create":
            self.messages[act["to"]] = (act["key"], None)
        elif act["do"] == "vote":
            self.tokens[act["key"]].setdefault(act["to"], False)

    def _conclude(self, act, ended, number):
        self.acknowledged += ended == "done"
        if act["do"] == "create":
            if ended == "done":
                self.messages[act["to"]] = (act["key"], number)
            elif ended == "no":
                del self.messages[act["to"]]
        elif act["do"] == "vote":
            self.tokens[act["key"]][act["to"]] |= ended == "done"
        else:
            self._narrow(act, ended)

    def _narrow(self, act, ended):
        place = (act["kind"], act["key"])
        before = self.possible[place]
        if ended == "absent" and None not in before:
            self.lost.append(f"{act}: not found, should be one of {before}")
        elif ended == "unknown":
            self._floating[place] |= {after(act, each) for each in before}
            self.possible[place] = before | self._floating[place]
        elif ended == "done":
            found = before if act["do"] in ("put", "drop") else before - {None}
            if not found:
                self.lost.append(f"{act}: done to what is not there")
            made = {after(act, each) for each in found}
            if made.isdisjoint(found):
                self._floating[place].clear()
            self.possible[place] = made | self._floating[place]

    def _compare_read(self, place, values):
        value = None if values is None else tuple(values)
        if value not in self.possible[place]:
            self.lost.append(f"{place} reads as {value}, should be one of {self.possible[place]}")

    def compare(self, found):
        """Compare with what was read back: its values by kind and key, messages by thread, votes by poll."""
        for place in sorted(self.possible.keys() | found.entities.keys()):
            value, possible = found.entities.get(place), self.possible[place]
            if value not in possible:
                self.lost.append(f"{place} is {value}, should be one of {sorted(possible, key=str)}")
        self._compare_messages(found.messages)
        for poll in sorted(self.tokens.keys() | found.votes.keys()):
            if found.votes.get(poll, 0) != len(self.tokens[poll]):
                self.lost.append(f"poll {poll} has {found.votes.get(poll, 0)} votes of {len(self.tokens[poll])}")

    def _compare_messages(self, found):
        by_text = defaultdict(list)
        for thread, messages in found.items():
            if [number for number, _text in messages] != list(range(1, len(messages) + 1)):
                numbers = {number for number, _text in messages}
                left_out = sorted({*range(1, max(numbers))} - numbers)
                self.wrong.append(f"thread {thread} has {len(messages)} messages, and no numbers {left_out}")
            for number, text in messages:
                by_text[text].append((thread, number))
        for text, (thread, number) in self.messages.items():
            places = by_text.pop(text, [])
            if number is not None and places != [(thread, number)]:
                self.lost.append(f"message {text!r} of thread {thread}, number {number}, is at {places}")
            elif len(places) > 1:
                self.lost.append(f"message {text!r} is there more than once: {places}")
        if by_text:
            self.lost.append(f"messages that were refused are there: {dict(by_text)}")

    def close(self):
        self._file.close()
