"""Random declarations over everything that a schema can have.

A program has some features and lacks the others, as its seed decides: with all of them in each, no two would ever be
met alone. What a rule of the library refuses is dropped again, and counted by its reason.
"""

from collections import Counter

from oneread.errors import InvalidDeclaration
from tests.schemas.kinds import ModelPlan
from tests.schemas.program import NAME, Program
from tests.schemas.views import ViewDeclarer


class Declarer(ViewDeclarer):
    """Makes the declarations of one seed."""

    def program(self):
        for _ in range(self.chance.randint(1, 3)):
            self.add_model()
        if self.has("feeds"):
            self.add_feed_models()
        if self.has("children"):
            self.add_child()
        if self.has("variants"):
            self.add_variant()
        for _ in range(self.chance.randint(1, 5)):
            self.add_view()
        if self.has("totals"):
            for _ in range(2):
                self.add_total()
        if self.has("feeds"):
            self.add_feed()
        declarations = [self.text_of(each) if isinstance(each, ModelPlan) else each for each in self.texts]
        options = [f"inline={self.one([0, 1, 2, 1000])}"]
        if "portable" in self.on:
            options.append("portable=True")
        return Program(tuple(declarations), tuple(options))


REFUSED = Counter()
"""Why declarations were dropped again."""


def declare(chance):
    """A program whose declarations the library takes, and what was planned for it."""
    declarer = Declarer(chance)
    program = declarer.program()
    while True:
        try:
            program.declare()
        except InvalidDeclaration as refusal:
            REFUSED[str(refusal.args[0])[:90]] += 1
            program = dropped(program, refusal)
        except (NameError, AttributeError) as error:  # a line that names what was dropped
            REFUSED[type(error).__name__] += 1
            program = program.without({error.name})
        else:
            return program, declarer


def dropped(program, refusal):
    """The program without what a refusal is about."""
    texts = {str(getattr(each, "__name__", each)) for each in refusal.facts.values()}
    text = " ".join(str(each) for each in refusal.facts.values())
    named = [name for name in (*NAME.findall(text), *texts) if NAME.fullmatch(name)]
    views = [each.name for each in program.declarations if each.name[0] in "IGF" and each.name in named]
    fields = [name for name in named if name[0] in "vf"]
    picked = views[:1] or fields[:1] or [name for name in named if name[0] == "C"][:1]
    if not picked:
        picked = [[each.name for each in program.declarations if each.name[0] in "IGF"][-1]]
    return program.without(set(picked))
