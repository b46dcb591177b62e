"""The HTML of a dump's posts as text: paragraphs, list items and code keep their lines, everything else its words.

The site shows text only and escapes it, so nothing that someone wrote is ever markup in a page.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

BLOCKS = frozenset({"p", "pre", "blockquote", "ul", "ol", "h1", "h2", "h3", "h4", "hr", "div", "table", "tr"})
BEFORE = {"li": "\n- ", "br": "\n", "sup": "^"}
HIDDEN = frozenset({"script", "style"})
SPACES = re.compile(r"\s+")
LINES = re.compile(r"[ \t]*\n[ \t]*\n\s*\n*")


def text_of(html: str) -> str:
    """The text of a piece of HTML, however broken it is."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return LINES.sub("\n\n", "".join(reader.parts)).strip()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._kept = 0  # open <pre>s, in which blanks and lines stay
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._kept += tag == "pre"
        self._hidden += tag in HIDDEN
        if tag == "img":
            self.parts.append(f"[{dict(attrs).get('alt') or 'image'}]")
        elif tag not in BLOCKS:
            self.parts.append(BEFORE.get(tag, ""))
        else:
            self.parts.append("\n\n")

    def handle_endtag(self, tag: str) -> None:
        self._kept = max(self._kept - (tag == "pre"), 0)
        self._hidden = max(self._hidden - (tag in HIDDEN), 0)
        if tag in BLOCKS:
            self.parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        text = data if self._kept else SPACES.sub(" ", data)
        at_line_start = not self._kept and (not self.parts or self.parts[-1].endswith("\n"))
        self.parts.append(text.lstrip() if at_line_start else text)
