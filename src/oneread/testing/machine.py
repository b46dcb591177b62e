"""A state machine for a program's own schema: hypothesis draws the steps, and the database must agree with the oracle.

See "Semantics" of the decisions page.

    TestShop = database_machine(shop).TestCase
"""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any, Literal

from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from oneread.evolution.schema import Schema
from oneread.testing.proof import Proof
from oneread.testing.steps import HistoryStep, SaveStep
from oneread.testing.strategies import Given, beginnings, steps


class DatabaseMachine(RuleBasedStateMachine):
    """The base of all machines; `database_machine(schema)` makes one with rules. Add rules in a subclass."""

    schema: Schema
    engine: Literal["memory", "lmdb"] = "memory"

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory(prefix="oneread-") if self.engine == "lmdb" else None
        url = "memory://" if self._folder is None else f"lmdb://{self._folder.name}/store?durability=none"
        self.proof = Proof(self.schema, url)

    def teardown(self) -> None:
        """Compares everything once more, and closes the store."""
        try:
            self.proof.look()
        finally:
            self.proof.close()
            if self._folder is not None:
                self._folder.cleanup()


def database_machine(
    schema: Schema, given: Given | None = None, *, engine: Literal["memory", "lmdb"] = "memory"
) -> type[DatabaseMachine]:
    """Makes a state machine that does each step to a database and to the oracle, and sometimes compares everything.

    Arguments:
        schema: of both.
        given: strategies for fields, as for `strategies.histories`.
        engine: LMDB gets a folder of its own for each example, and is slower.

    Raises:
        InvalidDeclaration: `given` names something that is not a field.
        UsageError: values of a field's type cannot be made up.
    """

    def begin(self: DatabaseMachine, entities: list[SaveStep]) -> None:
        for each in entities:
            self.proof.do(each)

    def do(self: DatabaseMachine, step: HistoryStep) -> None:
        self.proof.do(step)

    first: Any = initialize(entities=beginnings(schema, given))(begin)
    then: Any = rule(step=steps(schema, given))(do)
    body = {"schema": schema, "engine": engine, "begin": first, "do": then, "__doc__": DatabaseMachine.__doc__}
    return type("DatabaseMachine", (DatabaseMachine,), body)
