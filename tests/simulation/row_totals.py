"""A world of totals on a store that changes one row at a time, and its rules broken on purpose.

Votes count for answers and answers for questions, with and without a greatest value at either level; both are listed by
indexes over groups, and a total is copied on.
"""

from random import Random

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    by,
    count,
    descending,
    greatest,
    reference,
    rollup,
    shown,
    total,
)
from oneread.testing.comparison import read_all
from oneread.testing.naive import look
from oneread.testing.naive_entities import Held, place_of, totals_of
from oneread.testing.oracle import Oracle
from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, DrainStep, PatchStep, SaveAllStep, SaveStep
from tests.simulation.row_shards import DeclareStep
from tests.simulation.row_world import (
    CALM,
    RecoverStep,
    apply_later,
    is_calm,
    pair,
    turns,
    work_of,
)
from tests.simulation.schema import Compiled


class Vote(Model[int]):
    number: Key[int]
    answer: Ref["Answer"] = reference(missing_ok=True)
    value: int


class VotesOf(Aggregate[Vote]):
    answer: Ref["Answer"] = by(Vote.answer)
    votes: int = count()
    score: int = total(Vote.value)


class BestOf(Aggregate[Vote]):
    answer: Ref["Answer"] = by(Vote.answer)
    best: int | None = greatest(Vote.value)


class Mark(Model[int]):
    number: Key[int]
    answer: Ref["Answer"] = reference(missing_ok=True)


class MarksOf(Aggregate[Mark]):
    """Of sums alone: who has the newest is skipped."""

    answer: Ref["Answer"] = by(Mark.answer)
    marks: int = count()


class Answer(Model[int]):
    number: Key[int]
    question: Ref["Question"] = reference(missing_ok=True)
    text: str = ""
    votes: int = rollup(VotesOf.votes)
    score: int = rollup(VotesOf.score)
    best: int | None = rollup(BestOf.best)
    marks: int = rollup(MarksOf.marks)


class AnswersByScore(Index[Answer]):
    question: Ref["Question"] = by(Answer.question)
    score: int = descending(Answer.score)
    best: int | None = shown(Answer.best)


class AnswersOf(Aggregate[Answer]):
    question: Ref["Question"] = by(Answer.question)
    answers: int = count()
    score: int = total(Answer.score)


class BestAnswersOf(Aggregate[Answer]):
    question: Ref["Question"] = by(Answer.question)
    best: int | None = greatest(Answer.score)


class Question(Model[int]):
    number: Key[int]
    title: str = ""
    answers: int = rollup(AnswersOf.answers)
    score: int = rollup(AnswersOf.score)
    best: int | None = rollup(BestAnswersOf.best)


class QuestionsByScore(Index[Question]):
    score: int = descending(Question.score)
    answers: int = shown(Question.answers)
    best: int | None = shown(Question.best)


class AnswersByVotes(Index[VotesOf]):
    """Over groups by sums."""

    votes: int = descending(VotesOf.votes)
    score: int = shown(VotesOf.score)


class QuestionsByBest(Index[BestAnswersOf]):
    """Over groups by a greatest value."""

    best: int | None = descending(BestAnswersOf.best, none="last")


class Asked(Copy[Question]):
    missing_ok = True

    title: str
    score: int


class Note(Model[int]):
    """Copies a total of two levels below."""

    number: Key[int]
    question: Asked


class NotesByScore(Index[Note]):
    question: Asked = by(Note.question)


TOTALS = Compiled(
    Vote, VotesOf, BestOf, Mark, MarksOf, Answer, AnswersByScore, AnswersOf, BestAnswersOf, Question, QuestionsByScore,
    AnswersByVotes, QuestionsByBest, Note, NotesByScore, inline=3,
)  # fmt: skip


class TotalsWorld(Simulation):
    """At the end, what entities and `listed` show is compared with a naive recomputation as well."""

    def _rest(self):
        super()._rest()
        oracle = Oracle(*self.schema.models, *self.schema.views)
        entities = self.audit.entities().values()
        for each in entities:
            oracle.held[place_of(each)] = Held(each, {})
            oracle.ever.add(place_of(each))
        oracle.settle()
        for each in entities:
            wanted = oracle.get(type(each), *each.ref().key)
            for field in totals_of(type(each)):
                if getattr(wanted, field) != getattr(each, field):
                    self._raise_violation(f"{each!r} should be {wanted!r}")
        for view in self.listed:
            found = read_all(self._driver, self.operations, view)
            if look(found) != look(oracle.listing(view)):
                self._raise_violation(f"{view.__name__} lists {found!r}")


class TotalsSimulation(TotalsWorld):
    schema = TOTALS
    listed = (AnswersByVotes, QuestionsByBest, AnswersByScore, QuestionsByScore)


def vote(number, answer, value):
    return Vote(number=number, answer=Answer.at(answer), value=value)


def mark(number, answer):
    return Mark(number=number, answer=Answer.at(answer))


def answer(number, question):
    return Answer(number=number, question=Question.at(question))


def beginning():
    return [
        SaveAllStep([Question(number=1), answer(1, 1), answer(2, 1)]),
        SaveAllStep([vote(1, 1, 1), vote(2, 1, 2), vote(3, 2, 1)]),
        SaveAllStep([Note(number=1, question=Asked.of(1))]),
    ]


def step(chance):
    """One act, drawn from few keys and values, so that the processes meet."""
    number, one, value = chance.randrange(1, 5), chance.randrange(1, 3), chance.randrange(1, 4)
    acts = [
        lambda: SaveStep(vote(number, one, value)),
        lambda: SaveStep(vote(number, one, value)),
        lambda: PatchStep(Vote, (number,), {"value": value}),
        lambda: PatchStep(Vote, (number,), {"answer": Answer.at(one)}),
        lambda: DeleteStep(Vote, (number,)),
        lambda: SaveStep(answer(one, chance.randrange(1, 3))),
        lambda: PatchStep(Answer, (one,), {"question": Question.at(chance.randrange(1, 3))}),
        lambda: PatchStep(Answer, (one,), {"text": "new"}),
        lambda: DeleteStep(Answer, (one,)),
        lambda: SaveStep(Question(number=one)),
        lambda: PatchStep(Question, (one,), {"title": chance.choice("xy")}),
        lambda: DeleteStep(Question, (one,)),
        lambda: SaveStep(Note(number=one, question=Asked.of(chance.randrange(1, 3)))),
    ]
    return chance.choice(acts)()


def totals_world(seed, *, later=False, spread=False, **options):
    """The simulation of one seed: writers, two workers, a recovery; half of the seeds are calm.

    With `spread` the groups are of several rows, whose number changes.
    """
    chance = Random(f"totals {seed}")
    if is_calm(seed):
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    simulation = TotalsSimulation(seed, TOTALS, span="row", **options)
    simulation.prepare(*beginning()[: seed % 4], *[DrainStep(50)] * 20)
    for number in range(chance.randrange(2, 4)):
        simulation.process(f"writer {number}", [step(chance) for _ in range(3)])
    for name in ("worker 0", "worker 1"):
        simulation.process(name, [work_of(simulation, name)] * 6)
    simulation.process("recoverer", [RecoverStep()] * 2)
    if spread:
        declared = [DeclareStep((VotesOf, BestOf, MarksOf, AnswersOf), each) for each in chance.choices((1, 2, 3), k=6)]
        simulation.process("deployments", declared)
    if later:
        apply_later(simulation)
    return simulation


PAIRS = {
    "vote and create": ([SaveStep(vote(5, 3, 2))], [SaveStep(answer(3, 1))]),
    "vote and create again": ([SaveStep(vote(5, 4, 2))], [SaveStep(answer(4, 1))]),
    "vote there and back": ([PatchStep(Vote, (1,), {"value": 3})], [PatchStep(Vote, (1,), {"value": 1})]),
    "vote there and back, listed": ([SaveStep(vote(5, 3, 2))], [DeleteStep(Vote, (5,))]),
    "two votes": ([SaveStep(vote(5, 1, 2))], [SaveStep(vote(6, 1, 3))]),
    "two marks": ([SaveStep(mark(5, 1))], [SaveStep(mark(6, 1))]),
    "vote and re-point": ([SaveStep(vote(5, 1, 2))], [PatchStep(Answer, (1,), {"question": Question.at(2)})]),
    "vote and write the answer": ([SaveStep(vote(5, 1, 2))], [PatchStep(Answer, (1,), {"text": "new"})]),
    "vote and delete the answer": ([SaveStep(vote(5, 1, 2))], [DeleteStep(Answer, (1,))]),
    "copy and total": ([SaveStep(vote(5, 1, 2))], [SaveStep(Note(number=2, question=Asked.of(1)))]),
}
"""What two processes do at the same time, by name."""


def switched(name, first, lengths, fates=None, seed=1):
    """Two processes, of which one runs at a time, in turn for so many requests."""
    before = [*beginning(), SaveStep(answer(4, 1)), DeleteStep(Answer, (4,)), *[DrainStep(50)] * 20]
    return pair(TotalsSimulation(seed, TOTALS, **turns(first, lengths, fates)), before, PAIRS[name])
