"""Made-up numbers, for tests."""

import msgspec

from oneread.costs.numbers import BASICS, FORMAT, MachineNumbers, this_machine, write_numbers


def some(**machine):
    """A microsecond for everything, and next to nothing for bytes."""
    seconds = dict.fromkeys(BASICS, 1e-6) | {"byte read": 1e-9, "byte written": 1e-9}
    return MachineNumbers(FORMAT, "memory", msgspec.structs.replace(this_machine(), **machine), seconds)


def write_some(path, **machine):
    write_numbers(some(**machine), path)
