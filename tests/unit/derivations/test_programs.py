"""A program is the whole meaning of what its text does: a plain interpreter of the table emits the same.

What runs is Python text that operations write; nothing that it does may be in the text alone, since what else runs a
program knows the operations and not their text.
"""

from oneread.derivations import group_indexes, operations, row_operations
from oneread.derivations.emission_code import EmissionCode
from oneread.derivations.emitters import Emitters
from oneread.derivations.operations import ProgramWords
from oneread.errors import OnereadError
from tests.schemas.trial import make, run
from tests.unit.derivations.interpreter import Interpreter

SEEDS = 60
OPERATIONS = {
    operations.FindPlace, operations.FirstExpiry, operations.SkipExpired, operations.SkipUnless, operations.TakeEach,
    operations.TakeSpread, operations.TakeValue, row_operations.AddToGroup, row_operations.MakeAmounts,
    row_operations.MakeExtreme, row_operations.PutClaim, row_operations.PutExtreme, row_operations.PutRow,
}  # fmt: skip


def outcome(emit):
    """What is emitted, in its order; or how it is refused."""
    try:
        found = emit()
    except OnereadError as error:
        return type(error), str(error)
    return list(found.record.items()), list(found.shown.items()), found.deltas, found.claims


class Compared:
    """Every emission, as its text and as the interpreter do it."""

    def __init__(self, patch):
        self.emissions, self.operations = 0, set()
        generate, emit_function = Emitters._generate, group_indexes.emit_function

        def generated(of, skipped):
            programs = list(of.programs(skipped))
            code = EmissionCode("", of.encoded)
            for each in programs:
                each.add_to(code)
            for token in of._tokens - skipped:
                code.contributions(token)
            made = self._both(generate(of, skipped), programs, code.tokens)
            of._emitters[frozenset(skipped)] = made
            words = ProgramWords(of.encoded)
            for each in programs:
                each.describe(words)
            assert words.registers == code.registers
            return made

        def of_groups(owner, views):
            programs = [view.program() for view in views]
            return self._both(emit_function(owner, views), programs, [each.tokens[0] for each in views])

        patch.setattr(Emitters, "_generate", generated)
        patch.setattr(group_indexes, "emit_function", of_groups)

    def _both(self, emit, programs, tokens):
        self.operations |= {type(each) for program in programs for each in (*program.once, *program.rows)}

        def both(entity, hidden, own, suffix, refs, now):
            self.emissions += 1
            by_table = outcome(lambda: Interpreter(entity, hidden, own, suffix, now).emission(programs, tokens))
            by_text = outcome(lambda: emit(entity, hidden, own, suffix, refs, now))
            assert by_text == by_table
            return emit(entity, hidden, own, suffix, refs, now)

        return both


def test_the_table_emits_what_its_text_does(monkeypatch):
    compared = Compared(monkeypatch)
    for seed in range(SEEDS):
        run(make(seed), ("memory",))
    assert compared.emissions > 1000
    assert compared.operations == OPERATIONS
