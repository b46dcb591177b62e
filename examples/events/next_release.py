"""The next release of the site, as an editor would make it: a copy of its sources in which some lines are others.

Two fields have other names, and an agenda shows an event for two hours more. Programs of both releases write meanwhile:
neither a plain field's name nor the `ttl` of a view cuts the older ones off.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from examples.shop.mistakes import Mistake

ROOT: Final = Path(__file__).resolve().parents[2]

_EDITS: Final = {
    "schema.py": (
        ("    on,\n", "    on,\n    renamed,\n"),
        (
            "    asked_at: datetime\n\n",
            '    said_at: datetime\n    evolution = (renamed("asked_at", to="said_at"),)\n\n',
        ),
        ("oldest(Rsvp.asked_at)", "oldest(Rsvp.said_at)"),
        ("    written_at: datetime\n", '    written_at: datetime\n    evolution = (renamed("text", to="words"),)\n'),
        ("    text: Annotated[", "    words: Annotated["),
        (
            """.starts_at))\n\n    member: Ref""",
            """.starts_at), after=timedelta(hours=2))\n\n    member: Ref""",
        ),
    ),
    "attending.py": (("asked_at=at", "said_at=at"), ("written_at=now(), text=text", "written_at=now(), words=text")),
    "loading.py": (("asked_at=rsvp.asked_at", "said_at=rsvp.asked_at"), ("text=comment.text", "words=comment.text")),
    "api.py": (('"answer", "asked_at"', '"answer", "said_at"'),),
    "verbs.py": (("each.text.split()", "each.words.split()"),),
    "templates/event.html": (("{{ each.text }}", "{{ each.words }}"),),
    "acting.py": (("each.text.removeprefix", "each.words.removeprefix"), ("if each.text.", "if each.words.")),
    "checking.py": (
        ("each.written_at, each.text))\n", "each.written_at, each.words))\n"),
        ("each.written_at, each.text)\n            for", "each.written_at, each.words)\n            for"),
        ("                each.asked_at,\n", "                each.said_at,\n"),
    ),
    "recount.py": (
        (
            "if self.is_ahead(each)\n            for person",
            "if each.starts_at + timedelta(hours=2) > self.now\n            for person",
        ),
    ),
}
"""What is replaced by what in each file, each of which has it once."""


def write(into: Path) -> Path:
    """Writes the sources of the next release into a new folder, in which its commands are run; returns it.

    Raises:
        Mistake: a line that it changes is not there once.
    """
    shutil.copytree(ROOT / "examples", into / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for name, edits in _EDITS.items():
        path = into / "examples" / "events" / name
        text = path.read_text(encoding="utf-8")
        for before, after in edits:
            if text.count(before) != 1:
                raise Mistake(f"{name}: the next release changes {before!r}, which is there {text.count(before)} times")
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")
    return into
