"""Makes up chat messages, log lines and groups of the shape of the real ones, for where no data sets are at hand.

The same seed gives the same rows. As in the real data: few threads and few people have most messages, one page is
viewed most, requests come in bursts and not always in the order of time, and some lines are not requests at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

from examples.records import Row

MESSAGES, LINES, THREADS = 40, 20, 3
"""How many there are for each question of the site."""

BEGINS = datetime(2018, 3, 12, 17, 0, tzinfo=UTC)
STREAMS = ("general", "new members", "maths", "announcements")
PATHS = ("/login.php", "/home.php", "/contest.php?id=7", "/process.php", "/css/main.css", "/profile.php?user=u1")
REJECTS = ("rm: cannot remove '*.o': No such file", "a.out: Segmentation fault", "")
PEOPLE, EVENTS = 6, 4
"""Of the groups, for each question of the site."""
CATEGORIES = ("Outdoors & Adventure", "Dancing", "Tech")
TITLES = ("Walk around the lake", "<b>Bold</b> dancing", "R " + "for" * 30, "Questions & answers", "")
KINDS = ("RT",) * 6 + ("MT",) * 3 + ("RE",)


def files(seed: int, questions: int) -> dict[str, list[Row]]:
    """The rows of each file, by its name."""
    chance = Random(f"community {seed}")
    lines = questions * LINES
    return {
        "topics": [_topic(chance, number) for number in range(1, questions * THREADS + 1)],
        "messages": _messages(chance, questions),
        "higgs-activity_time": _interactions(chance, lines),
        "weblog": _requests(chance, lines),
        "rejects": [{"line": REJECTS[number % len(REJECTS)]} for number in range(lines // 50 + 1)],
        **networks(chance, questions),
    }


def _topic(chance: Random, number: int) -> Row:
    return {"topic_id": str(number), "stream": chance.choice(STREAMS), "topic": f"\N{CHECK MARK} topic <{number}>"}


def _messages(chance: Random, questions: int) -> list[Row]:
    """One of a hundred is in a thread that is gone, and one time stamp cannot be read."""
    threads, people = range(1, questions * THREADS), range(1, questions + 2)
    at, found = BEGINS, list[Row]()
    for number in range(questions * MESSAGES):
        at += timedelta(seconds=chance.choice((0, 1, 60, 3_600)))
        thread = _favoured(chance, threads) if chance.randrange(100) else 10**6
        found.append(
            {
                "id": str(1_000 + 3 * number),
                "timestamp": str(int(at.timestamp())),
                "topic_id": str(thread),
                "sender": str(_favoured(chance, people)),
                "content_len": str(chance.randrange(2_000)),
            }
        )
    found[len(found) // 2]["timestamp"] = "noon"
    return found


def _interactions(chance: Random, lines: int) -> list[Row]:
    at, found = BEGINS, list[Row]()
    for _ in range(lines):
        at += timedelta(seconds=chance.choice((0, 0, 0, 1, 20, 3 * 86_400 // lines)))
        found.append(
            {
                "userA": str(chance.randrange(10**6)),
                "userB": str(_favoured(chance, range(1, 60))),
                "timestamp": str(int(at.timestamp())),
                "interaction": chance.choice(KINDS),
            }
        )
    return found


def _requests(chance: Random, lines: int) -> list[Row]:
    """Pasted together from two pieces, the later one first; some lines are repeated."""
    at, found = BEGINS, list[Row]()
    for _ in range(lines):
        at += timedelta(seconds=chance.choice((0, 1, 5, 600)))
        status = chance.choice(("200", "200", "200", "302", "404"))
        url = f"GET {PATHS[_favoured(chance, range(len(PATHS)))]} HTTP/1.1"
        found.append({"Time": f"{at:%d/%b/%Y:%H:%M:%S}", "URL": url, "Status": status})
        if not chance.randrange(7):
            found.append(found[-1])
    half = len(found) // 2
    return found[half:] + found[:half]


def _favoured(chance: Random, among: Sequence[int]) -> int:
    """One of them, those in front far more often."""
    return among[int(len(among) * chance.random() ** 3)]


# --- Two networks of groups, which number their members alike and have one group in common --------------------------


def networks(chance: Random, questions: int) -> dict[str, list[Row]]:
    """The rows of both."""
    return {**_nashville(chance, questions), **_rladies(chance, questions)}


def _nashville(chance: Random, questions: int) -> dict[str, list[Row]]:
    """Some members have no row of their own, several events are at one time, and one is of a group that is gone."""
    groups, people = range(1, questions // 4 + 4), range(1, questions * PEOPLE)
    pairs = sorted({(_favoured(chance, people), _favoured(chance, groups)) for _ in range(questions * PEOPLE)})
    events = [
        {
            "event_id": f"e{number}",
            "group_id": str(_favoured(chance, groups)),
            "name": f" {chance.choice(TITLES)} ",
            "time": f"{BEGINS + timedelta(hours=chance.randrange(questions)):%Y-%m-%d %H:%M:%S}",
        }
        for number in range(questions * EVENTS)
    ]
    events[-1]["group_id"] = "999999"
    events[0]["time"] = "tomorrow"
    events[1]["time"] = events[1]["time"].partition(" ")[0]
    return {
        "meta-groups": [
            {"group_id": str(each), "group_name": f"Group <{each}>", "category_name": chance.choice(CATEGORIES)}
            for each in groups
        ],
        "meta-members": [{"member_id": str(each)} for each in people if each % 9],
        "member-to-group-edges": [
            {"member_id": str(person), "group_id": str(group), "weight": str(1 + (person + group) % 3)}
            for person, group in pairs
        ],
        "meta-events": events,
    }


def _rladies(chance: Random, questions: int) -> dict[str, list[Row]]:
    """An RSVP names its group and an event of it, and one names a group that is gone."""
    groups, people = range(3, questions // 8 + 6), range(1, questions * PEOPLE // 3)
    began = int(BEGINS.timestamp()) * 1_000
    answers = [
        {
            "member.id": str(_favoured(chance, people)),
            "created": str(began + chance.randrange(10**9)),
            "group.name": f"R-Ladies {_favoured(chance, groups)}",
        }
        for _ in range(questions * PEOPLE)
    ]
    answers[-1]["group.name"] = "R-Ladies Nowhere"
    events = [
        {
            "id": str(number),
            "group.id": str(_favoured(chance, groups)),
            "name": chance.choice(TITLES),
            "created": str(began + chance.randrange(10**9)),
            "rsvp_limit": ("", "NA", "3", "5")[number % 4],
        }
        for number in range(questions)
    ]
    for number, event in enumerate(events):
        event["time"] = str(int(event["created"]) + (1 + number % 40) * 86_400_000)
    for number, answer in enumerate(answers):
        of_group = [each["id"] for each in events if answer["group.name"] == f"R-Ladies {each['group.id']}"]
        answer["event.id"] = of_group[number % len(of_group)] if of_group else "gone"
    return {
        "rladies_meetup_groups": [
            {"id": str(each), "name": f"R-Ladies {each}", "category.name": "Tech"} for each in groups
        ],
        "rladies_meetup_events_past": events,
        "rladies_member_rsvps": answers,
    }
