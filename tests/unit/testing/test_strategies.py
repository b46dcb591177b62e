import subprocess
import sys
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from msgspec import Meta

from oneread import CREATED, Copy, Index, Key, Model, Ref, Schema, by, reference
from oneread.errors import InvalidDeclaration, UsageError
from oneread.testing import strategies
from oneread.testing.crashes import Crash, survive
from oneread.testing.machine import database_machine
from oneread.testing.proof import Disagreement, Proof, prove
from oneread.testing.steps import DeleteStep, DrainStep, LookStep, PatchStep, SaveAllStep, SaveStep, TickStep


class Maker(Model[str]):
    name: Key[str]
    country: str = ""


class MadeBy(Copy[Maker]):
    country: str


class Toy(Model[int]):
    number: Key[int]
    maker: MadeBy
    price: Decimal = Decimal(1)
    parts: Annotated[list[Ref["Toy"]], Meta(max_length=2)] = reference(missing_ok=True)
    made: datetime = CREATED

    def check(self) -> None:
        if self.price < 0:
            raise ValueError("a toy is not paid for")


class Robot(Toy):
    volts: int = 5


class ToysOfMaker(Index[Toy]):
    maker: MadeBy = by(Toy.maker)


TOYS = Schema(Maker, Toy, Robot, ToysOfMaker)
POOL = {Maker: [("a",), ("b",)], Toy: [(1,), (2,)]}


class Game(Model[int]):
    variants_only = True
    number: Key[int]
    title: str = ""


class Chess(Game):
    clocks: int = 2


GAMES = Schema(Game, Chess)


@settings(max_examples=15, deadline=None)
@given(strategies.histories(GAMES, longest=8))
def test_a_history_saves_no_model_that_has_only_variants(history):
    for step in history:
        saved = step.entities if isinstance(step, SaveAllStep) else [step.entity] if isinstance(step, SaveStep) else []
        assert all(type(each) is Chess for each in saved)
    prove(GAMES, history)


@settings(max_examples=5, deadline=None)
@given(strategies.crashes(GAMES))
def test_a_crash_saves_no_model_that_has_only_variants(crash):
    assert all(type(step.entity) is Chess for step in crash.first)
    survive(GAMES, crash)


def test_a_model_that_has_only_variants_is_refused():
    with pytest.raises(UsageError, match="variants_only"):
        strategies.entities(Game)


@given(strategies.entities(Robot, pool=POOL))
def test_an_entity_has_a_key_and_references_of_the_pool(robot):
    assert robot.number in (1, 2)
    assert robot.maker.ref.key in POOL[Maker]
    assert {part.key for part in robot.parts} <= {(1,), (2,)}
    assert robot.made == CREATED
    assert robot.price >= 0


@given(strategies.entities(Toy, price=st.just(Decimal(7)), number=st.just(9), made=st.just(datetime(2024, 1, 1))))
def test_a_field_is_given_a_strategy(toy):
    assert (toy.price, toy.number, toy.made.year) == (7, 9, 2024)


def test_a_strategy_for_no_field_is_refused():
    with pytest.raises(UsageError, match="not a field") as caught:
        strategies.entities(Toy, colour=st.just("red"))
    assert caught.value.facts["fields"] == ["colour"]
    with pytest.raises(InvalidDeclaration):
        strategies.histories(TOYS, {"colour": st.just("red")})


def test_keys_are_tuples():
    assert find(strategies.keys(Toy), lambda _key: True) in [(0,), (-2,)]
    assert find(strategies.keys(Maker, schema=TOYS), lambda _key: True) == ("",)


@settings(max_examples=15, deadline=None)
@given(strategies.histories(TOYS, longest=10))
def test_a_history_holds(history):
    prove(TOYS, history)


@settings(max_examples=10, deadline=None)
@given(strategies.crashes(TOYS))
def test_a_crash_is_survived(crash):
    for span in ("rows", "row"):
        outcomes = survive(TOYS, crash, span=span)
        assert all(isinstance(name, str) for name, _outcome in outcomes)


def test_a_machine_of_rules():
    run_state_machine_as_test(
        database_machine(TOYS), settings=settings(max_examples=3, stateful_step_count=10, deadline=None)
    )


MAKER, TOY = Maker(name="a", country="F"), Toy(number=1, maker=MadeBy.of("a"), parts=[])


def test_every_step_is_done_to_both_and_refusals_are_counted():
    refused = prove(
        TOYS,
        [
            SaveStep(TOY),
            SaveStep(MAKER),
            SaveAllStep([TOY, Robot(number=2, maker=MadeBy.of("a"), parts=[])]),
            SaveStep(TOY, "create"),
            PatchStep(Toy, (1,), {"price": Decimal(-1)}),
            PatchStep(Toy, (5,), {"price": Decimal(1)}),
            PatchStep(Maker, ("a",), {"country": "G"}),
            DrainStep(),
            TickStep(5),
            LookStep(),
            DeleteStep(Maker, ("a",)),
        ],
    )
    assert refused == {"MissingReference": 1, "AlreadyExists": 1, "InvalidValue": 1, "NotFound": 1}


def test_a_crash_leaves_out_what_is_refused_before_it():
    acts = [
        SaveStep(TOY),
        PatchStep(Toy, (1,), {"price": Decimal(2)}),
        SaveStep(TOY, "create"),
        SaveAllStep([TOY]),
        DeleteStep(Toy, (1,)),
    ]
    outcomes = survive(TOYS, Crash(3, [SaveStep(TOY), SaveStep(MAKER)], [acts]))
    done = [name.split()[0] for name, _outcome in outcomes if name != "drain"]
    assert done == [
        "save",
        "patch",
        "create",
        "save",
        "delete",
    ]


def test_an_oracle_that_knows_less_disagrees():
    with Proof(TOYS) as proof:
        proof.do(SaveStep(MAKER))
        proof.do(SaveStep(TOY))
        proof.oracle.held.clear()
        with pytest.raises(Disagreement, match="Maker: too many"):
            proof.look()


def test_an_oracle_that_knows_more_disagrees():
    with Proof(TOYS) as proof:
        proof.oracle.save(MAKER)
        with pytest.raises(Disagreement, match="Maker: missing"):
            proof.look()
        with pytest.raises(Disagreement, match="must be refused"):
            proof.do(SaveStep(MAKER, "create"))


def test_different_values_are_found():
    with Proof(TOYS) as proof:
        proof.do(SaveStep(MAKER))
        proof.oracle.save(Maker(name="a", country="H"), 1)
        with pytest.raises(Disagreement, match="row 0: should be"):
            proof.look()


def test_without_hypothesis_the_import_says_what_to_install():
    code = "import sys\nsys.modules['hypothesis'] = None\nimport oneread.testing.strategies\n"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.endswith("the strategies of oneread.testing need it: pip install hypothesis\n")
