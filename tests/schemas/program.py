"""A random program: declarations and steps, as text that runs by itself.

Text is what a seed gives, what is reduced and what is printed, so that what failed and what is shown are the same.
Names are used once in a whole program (`f3`, `M2`): dropping one drops each line and argument that has it.
"""

import re
import sys
from dataclasses import dataclass, field, replace
from itertools import count
from types import ModuleType

HEAD = """\
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from oneread import (
    CREATED, GENERATED, UPDATED, Aggregate, Copy, Feed, Index, Key, Model, Ref, Schema, add, append, any_of, ascending,
    bucket, by, count, counter, descending, each, expires, field, greatest, least, mean, newest, newest_values, oldest,
    on, reference, remove, rollup, set_to, shown, total, within,
)
from oneread.feeds.marks import FeedPosition
from oneread.testing.steps import (
    BulkStep, CountStep, DeleteCounterStep, DeleteStep, DrainStep, LookStep, PatchStep, SaveAllStep, SaveStep,
    SweepStep, TickStep, TogetherStep, UpsertStep,
)


class State(Enum):
    OPEN = "open"
    PAID = "paid"
    GONE = "gone"


class Size(msgspec.Struct, frozen=True):
    width: int
    depth: float | None = None
"""

NAME = re.compile(r"\b[a-zA-Z]\d+\b")
_MODULES = count()


@dataclass(frozen=True)
class Declaration:
    """A class: its name, what it is a subclass of, and its lines."""

    name: str
    base: str
    lines: tuple[str, ...]

    def __str__(self):
        return "\n".join([f"class {self.name}({self.base}):", *(f"    {line}" for line in self.lines or ("pass",))])


@dataclass(frozen=True)
class Program:
    """Declarations in their order, options of the schema, and steps; each step is an expression."""

    declarations: tuple[Declaration, ...]
    options: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    seed: int | None = field(default=None, compare=False)

    @property
    def declared(self):
        """The declarations as text."""
        return "\n\n\n".join(map(str, self.declarations))

    @property
    def schema_text(self):
        """The expression of the schema."""
        classes = [each.name for each in self.declarations if not each.base.startswith("Copy")]
        return f"Schema({', '.join([*classes, *self.options])})"

    def __str__(self):
        steps = "\n".join(f"    {step}," for step in self.steps)
        return f"{HEAD}\n\n{self.declared}\n\n\nschema = {self.schema_text}\nhistory = [\n{steps}\n]\n"

    def without(self, names):
        """The program without every line that has one of these names; steps are left as they are."""
        kept = [
            replace(each, lines=tuple(line for line in each.lines if not names & set(NAME.findall(line))))
            for each in self.declarations
            if not names & set(NAME.findall(f"{each.name} {each.base}"))
        ]
        return replace(self, declarations=tuple(kept))

    def declare(self):
        """Runs the declarations. Returns the schema and the names of the module."""
        module = ModuleType(f"random_schema_{next(_MODULES)}")
        sys.modules[module.__name__] = module
        try:
            exec(f"{HEAD}\n\n{self.declared}\n\n\nschema = {self.schema_text}\n", vars(module))
        finally:
            del sys.modules[module.__name__]
        return module.schema, vars(module)


def run_steps(program, names):
    """The steps of a program, as values."""
    return [eval(step, names) for step in program.steps]
