"""Totals that entities show, while processes die, answers get lost and tasks are left: right after every commit."""

import os
from random import Random

import pytest

from oneread.evolution.schema import Schema
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, DrainStep, PatchStep, SaveAllStep, SaveStep, TransactStep
from tests.properties.votes_and_answers import (
    SITE,
    Answer,
    Author,
    Badge,
    Comment,
    Question,
    Tag,
    User,
    Vote,
    Winner,
)

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "100")) // 20)
FEW = Schema(*SITE.models, *SITE.views, inline=1)
WRITERS, STEPS = 3, 9


def beginning():
    return [
        SaveAllStep([User(number=number, name="abc"[number]) for number in range(3)]),
        SaveAllStep([Tag(word=word) for word in "ab"]),
        SaveAllStep([Question(number=number, tags=[Tag.at("a")]) for number in range(2)]),
        SaveAllStep([answer(number, number % 2, number % 3) for number in range(4)]),
        SaveAllStep([Badge(number=number, winner=Winner.of(number % 2)) for number in range(4)]),
    ]


def answer(number, question, author):
    return Answer(number=number, question=Question.at(question), author=Author.of(author))


def vote(chance):
    on, value = chance.randrange(4), chance.choice([-1, 1, 4])
    return Vote(on=on, voter=chance.randrange(3), answer=Answer.at(on), value=value)


def step(chance):
    """One act, drawn from few keys and values, so that the processes meet."""
    number = chance.randrange(4)
    acts = [
        lambda: SaveStep(vote(chance)),
        lambda: SaveStep(vote(chance)),
        lambda: SaveAllStep([Vote(on=number, voter=each, answer=Answer.at(number), value=each) for each in range(3)]),
        lambda: PatchStep(Answer, (number,), {"question": Question.at(chance.randrange(2))}),
        lambda: PatchStep(User, (number % 3,), {"name": chance.choice("xyz")}),
        lambda: DeleteStep(Answer, (number,)),
        lambda: SaveStep(answer(number, chance.randrange(2), chance.randrange(3))),
        lambda: SaveStep(Comment(number=number, reply_to=Comment.at(number - 1) if number else None)),
        lambda: asking(number % 2, chance.randrange(3)),
        lambda: PatchStep(Question, (number % 2,), {"tags": [Tag.at("b")]}),
    ]
    return chance.choice(acts)()


def asking(number, voter):
    """A question, an answer to it and a vote, in one transaction that reads what it wrote."""

    def body(work):
        yield from work.save(Question(number=number, tags=[]), "save", None)
        yield from work.save(answer(number, number, 0), "save", None)
        yield from work.get(Question, (number,))
        yield from work.save(Vote(on=number, voter=voter, answer=Answer.at(number), value=2), "save", None)

    def expected(oracle):
        oracle.save(Question(number=number, tags=[]))
        oracle.save(answer(number, number, 0))
        oracle.save(Vote(on=number, voter=voter, answer=Answer.at(number), value=2))

    return TransactStep(f"asking {number}", body, expected)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_totals_are_right_after_every_commit_and_at_the_end(seed):
    chance = Random(f"totals {seed}")
    simulation = Simulation(seed, FEW)
    simulation.prepare(*beginning())
    for number in range(WRITERS):
        simulation.process(f"writer {number}", [step(chance) for _ in range(STEPS)])
    simulation.process("worker", [DrainStep(2)] * STEPS)
    simulation.run()
