"""What an observer counts of all requests, to compare with what was recorded."""

from oneread.heat.map import total
from oneread.heat.rows import read_heat
from oneread.plans.trace import Trace
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Scan

OWN = (b"heat:", b"axis:", b"lease:heat")
EVER = 1 << 31


def keys_of(request):
    """The keys that a request names."""
    if isinstance(request, Scan):
        return [request.range.start]
    if isinstance(request, Mutate):
        return [each.key for each in request.rows]
    if isinstance(request, CheckAndMutate):
        return [request.mutation.key]
    return (
        [request.key]
        if isinstance(request, Increment)
        else [*(request.keys if isinstance(request, Read) else request.rows)]
    )


class Observed:
    """What an observer sees, but for what the recorder itself requests."""

    def __init__(self):
        self.trace = Trace()
        self.lost = 0

    def __call__(self, request, answer):
        if request.table != "system" or not all(key.startswith(OWN) for key in keys_of(request)):
            self.trace.note(request, answer)
            self.lost += isinstance(request, CheckAndMutate) and answer is False

    @property
    def amounts(self):
        return self.trace.requests, self.trace.rows, self.trace.bytes, self.lost


def sums(db):
    """All that is stored, added up."""
    found = total(db.run(read_heat(0, EVER))).values()
    requests, rows, size, _time, lost = (sum(column) for column in zip(*found, strict=True))
    return requests, rows, size, lost
