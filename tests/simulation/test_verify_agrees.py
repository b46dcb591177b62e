"""What operators have agrees with what the simulator judges by: verify finds nothing where the audit finds nothing.

And where a rule is broken on purpose, verify finds something where the audit does, versions aside: that one went back
is seen only by who saw it before.
"""

import pytest

from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.testing.audit import Audit, Offence
from oneread.testing.processes import Violation
from oneread.verify.verify import VerifyOptions
from tests.simulation.mutations import MUTATIONS
from tests.simulation.world import world

HISTORIES, SEEDS = 24, 300
BEFORE = ("vanished", "without a new version", "own version")


class Agreeing(Audit):
    """An audit that asks verify at every check too."""

    def __init__(self, simulation):
        super().__init__(simulation.engine, simulation.operations)
        self.driver = SyncDriver(simulation.engine, lambda: simulation.now)
        self.inspector = simulation.operations.parts.inspector
        self.asked = 0
        self.disagreed = []

    def check(self):
        self.asked += 1
        try:
            super().check()
        except Offence as offence:
            if not any(word in str(offence) for word in BEFORE) and self.verified().clean:
                self.disagreed.append(f"verify does not see that {offence}")
            raise
        found = self.verified()
        if not found.clean:
            self.disagreed.append(f"only verify sees {found.faults[0]}")
            raise Offence(self.disagreed[-1])

    def verified(self):
        return self.driver.run(self.inspector.verify(VerifyOptions()), Trace())


def judged(seed):
    audits = []

    def agreeing(simulation):
        audits.append(Agreeing(simulation))
        return audits[0]

    try:
        world(seed, agreeing).run()
    except Violation:
        return audits[0], False
    return audits[0], True


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_verify_finds_nothing_where_nothing_is_wrong(seed):
    audit, fine = judged(seed)
    assert (audit.disagreed, fine) == ([], True)
    assert audit.asked > 10


@pytest.mark.parametrize(("mutation", "likely"), MUTATIONS.items(), ids=[each.__name__ for each in MUTATIONS])
def test_verify_finds_something_where_the_audit_does(mutation, likely, monkeypatch):
    with monkeypatch.context() as patch:
        mutation(patch)
        for seed in (likely, *range(SEEDS)):
            audit, fine = judged(seed)
            if not fine:
                break
    assert not [each for each in audit.disagreed if each.startswith("verify does not")]
