"""A hook of mkdocs: what pages say of the release and of the command line is taken from them when pages are built.

`<!-- options of: oneread get -->` in a page is replaced by the arguments and options of that command.
"""

from __future__ import annotations

import re
import tomllib
from html import escape
from pathlib import Path
from typing import Any

from oneread.cli.program import COMMANDS, load_command

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"^<!-- options of: oneread (?P<name>[\w -]+) -->$", re.MULTILINE)
SHARED = frozenset({"--schema", "--db", "--json", "--quiet", "--help"})
"""Options of every command, which the page lists once."""
FOR_DEVELOPERS = ("decisions/", "design/", "formats/")
WEIGHT = 0.0003
"""In search, so that a heading of theirs counts less than the text of a page for users."""


def on_config(config: Any) -> Any:
    """Shows the release below each page, and links the repository where the project names one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.copyright = f"oneread {escape(project['version'])}, {escape(project['license'])}"
    config.repo_url = project.get("urls", {}).get("Repository") or config.repo_url
    return config


def on_page_markdown(markdown: str, page: Any, **_context: Any) -> str:
    """Replaces each mark by the table of its command, and weighs the page for the search."""
    if page.file.src_uri.startswith(FOR_DEVELOPERS):
        page.meta.setdefault("search", {"boost": WEIGHT})
    return MARK.sub(lambda found: options_table(found["name"]), markdown)


def options_table(name: str) -> str:
    """The arguments and options of a command, and of its subcommands, as a table."""
    first, _, inner = name.partition(" ")
    if first not in COMMANDS:
        raise ValueError(f"oneread has no command {first!r}")
    command: Any = load_command(first)
    context = command.make_context(first, [], resilient_parsing=True)
    if inner:
        command = command.commands[inner]
        context = command.make_context(inner, [], parent=context, resilient_parsing=True)
    rows = [f"| <code>{_cell(shown)}</code> | {_cell(meaning)} |" for shown, meaning in _records(command, context)]
    if not rows:
        return "Only the [options of every command](#options-of-every-command)."
    return "\n".join(["| argument or option | meaning |", "|---|---|", *rows])


def _records(command: Any, context: Any) -> list[tuple[str, str]]:
    own = [each for each in command.get_params(context) if not SHARED.intersection(each.opts)]
    found = [each.get_help_record(context) for each in own]
    return [record for record in found if record is not None]


def _cell(text: str) -> str:
    """Text in a cell of a table: a bar would end it, and a bracket begin a reference (`[x>=1]`)."""
    return escape(" ".join(text.split())).replace("|", "&#124;").replace("[", "&#91;")
