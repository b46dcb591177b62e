"""The options of commands that predict times, and where measured numbers lie when nobody says.

See the page of the command line in the reference.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from oneread.cli.output import Output
from oneread.costs.numbers import MachineNumbers, read_numbers

NumbersOption = Annotated[
    str, typer.Option("--numbers", metavar="FILE", help="Predict times by numbers measured before.")
]
TimesOption = Annotated[
    bool, typer.Option("--times", help="Predict times by the numbers that `oneread numbers` left last.")
]


def default_file() -> Path:
    """Where numbers lie when no file is named: in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "oneread" / "numbers.json"


def numbers_of(output: Output, file: str, *, times: bool) -> MachineNumbers | None:
    """The numbers that were asked for, if any; says when they were measured on another machine."""
    if not file and not times:
        return None
    found = read_numbers(file or default_file())
    for difference in found.mismatches():
        output.note(f"the numbers were measured elsewhere: {difference}")
    return found
