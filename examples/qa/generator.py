"""Makes up the rows of a small site with the shape and the dirt of a dump, for where no dump is at hand.

The same seed gives the same rows. As in the real data: few users write most, a third of the votes are on questions, and
some rows refer to what is gone. Unlike there: some texts try to be markup, and some words are longer than any screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from random import Random

QUESTIONS = 200
"""The default number of questions."""

BEGINS = datetime(2018, 3, 12, 17, 0, tzinfo=UTC)
DAYS = 170
WORDS = (
    "qubit", "gate", "state", "circuit", "measure", "phase", "error", "oracle", "basis", "channel", "noise", "tensor",
    "matrix", "entangled", "classical", "unitary", "photon", "algorithm", "simulation", "speed-up",
)  # fmt: skip
TAGS = tuple(word for word in WORDS if word.isalpha())[:15]
HOSTILE = (
    "<script>document.title = 'taken over'</script>",
    "<img src=x onerror=\"document.title = 'taken over'\">",
    "</main></body> \"quoted\" 'single' & &amp; {{ 7 * 7 }} {% raw %}",
    "unbroken" * 25,
    "\u202eright to left\u202c \u05d0\u05d1\u05d2 \U0001f9ea e\u0301\u0323",
)
KINDS = ("2",) * 14 + ("3", "1", "5", "16")

Row = dict[str, str]


def files(seed: int, questions: int) -> dict[str, list[Row]]:
    """The rows of each file, by its name."""
    chance = Random(seed)
    people = [-1, *range(1, max(questions // 2, 12))]
    posts = _posts(chance, questions, people)
    numbers = [post["Id"] for post in posts if post["PostTypeId"] in "12"]
    votes = _votes(chance, numbers, questions * 12)
    for post in posts:  # a dump states each score, too
        kinds = [vote["VoteTypeId"] for vote in votes if vote["PostId"] == post["Id"]]
        post["Score"] = str(kinds.count("2") - kinds.count("3"))
    return {
        "Users": [_user(chance, number) for number in people],
        "Posts": posts,
        "Tags": [{"TagName": word, "ExcerptPostId": str(at) if at < 10 else ""} for at, word in enumerate(TAGS, 1)],
        "Comments": _comments(chance, numbers, people, questions * 3),
        "Votes": votes,
    }  # fmt: skip


def _user(chance: Random, number: int) -> Row:
    return {"Id": str(number), "DisplayName": _name(chance, number), "CreationDate": _time(chance)}


def _posts(chance: Random, questions: int, people: Sequence[int]) -> list[Row]:
    """Descriptions of tags, then questions and answers in the order of time; an answer comes after its question."""
    found = [_post(at, "4", chance, [-1], f"For questions about {word}.") for at, word in enumerate(TAGS[:9], 1)]
    asked: list[str] = []
    at = len(found)
    while len(asked) < questions:
        at, day = at + 1, len(asked) * DAYS // questions
        if asked and chance.random() < 0.6:
            answer = _post(at, "2", chance, people, _body(chance), day)
            found.append(answer | {"ParentId": chance.choice(asked)})
        else:
            question = _post(at, "1", chance, people, _body(chance), day)
            tags = chance.sample(TAGS, chance.randint(1, 5))
            found.append(question | {"Title": _title(chance), "Tags": "".join(f"<{tag}>" for tag in tags)})
            asked.append(question["Id"])
    found.append(_post(at + 1, "2", chance, people, "Its question is gone.") | {"ParentId": "999999"})
    found.append(_post(at + 2, "1", chance, people, "It has no title."))
    return found


def _post(number: int, kind: str, chance: Random, people: Sequence[int], body: str, day: int = 0) -> Row:
    owner = "" if not chance.randrange(60) else str(_favoured(chance, people))
    made = BEGINS + timedelta(days=day, seconds=chance.randrange(24 * 3600))
    return {
        "Id": str(number), "PostTypeId": kind, "ParentId": "", "CreationDate": _iso(made), "Body": body,
        "OwnerUserId": owner, "Title": "", "Tags": "",
    }  # fmt: skip


def _votes(chance: Random, numbers: Sequence[str], count: int) -> list[Row]:
    """About one of twenty is on a post that is gone; who cast it is known of favourites."""
    gone = [str(int(number) + 1_000_000) for number in numbers]
    found = [
        {
            "Id": str(number),
            "PostId": _favoured(chance, numbers if chance.randrange(20) else gone),
            "VoteTypeId": chance.choice(KINDS),
            "CreationDate": _time(chance)[:10] + "T00:00:00.000",
        }
        for number in range(1, count + 1)
    ]
    return [vote | {"UserId": vote["Id"][-1:] if vote["VoteTypeId"] == "5" else ""} for vote in found]


def _comments(chance: Random, numbers: Sequence[str], people: Sequence[int], count: int) -> list[Row]:
    found = [
        {
            "Id": str(number), "PostId": _favoured(chance, numbers), "Text": _sentence(chance),
            "UserId": "" if not chance.randrange(50) else str(_favoured(chance, people)), "CreationDate": _time(chance),
        }
        for number in range(1, count + 1)
    ]  # fmt: skip
    gone = {"PostId": "999999", "UserId": "888888"}
    return [*found, found[0], found[0] | {"Id": str(count + 1), **gone}, found[0] | {"Id": "x"}]


def _favoured(chance: Random, among: Sequence[str] | Sequence[int]) -> str:
    """One of them, those in front far more often."""
    return str(among[int(len(among) * chance.random() ** 3)])


def _name(chance: Random, number: int) -> str:
    return f"user {number}" if chance.randrange(8) else f"{chance.choice(HOSTILE)[:80].strip()} {number}"


def _title(chance: Random) -> str:
    return f"{chance.choice(HOSTILE)[:280]}?" if not chance.randrange(12) else f"{_sentence(chance)[:-1]}?"


def _sentence(chance: Random) -> str:
    words: list[str] = chance.choices(WORDS, k=chance.randint(4, 14))
    if not chance.randrange(15):
        words.append(chance.choice(HOSTILE))
    return " ".join(words).capitalize() + "."


def _body(chance: Random) -> str:
    """Paragraphs, a list, code: as a dump has them, in HTML."""
    parts = [f"<p>{escape(_sentence(chance))}</p>" for _ in range(chance.randint(1, 4))]
    if not chance.randrange(4):
        parts.append("<pre><code>for each in circuit:\n    apply(each, 'H' * 200)</code></pre>")
    if not chance.randrange(6):
        parts.append("<ul><li>one</li><li>10<sup>9</sup> gates</li></ul>" + chance.choice(HOSTILE))
    return "\n\n".join(parts)


def _time(chance: Random) -> str:
    return _iso(BEGINS + timedelta(seconds=chance.randrange(DAYS * 24 * 3600)))


def _iso(instant: datetime) -> str:
    return instant.replace(tzinfo=None).isoformat(timespec="milliseconds")
