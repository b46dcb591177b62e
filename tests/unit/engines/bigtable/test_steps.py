"""The steps of a request, made by hand: what is asked next after each kind of failure, message by message."""

import asyncio

import pytest
from grpc import RpcError, StatusCode

from oneread.engines.bigtable import calls as calls_module
from oneread.engines.bigtable.calls import Attempts, Call, Pause, deadline, place_of
from oneread.engines.bigtable.channels import Channels
from oneread.engines.bigtable.messages import MESSAGES
from oneread.engines.bigtable.options import BigtableOptions
from oneread.engines.bigtable.servers import emulated
from oneread.engines.bigtable.steps import BigtableSteps
from oneread.engines.bigtable.translate import Failed
from oneread.errors import Closed, Corrupt, InvalidValue, LimitExceeded, OutcomeUnknown, Unavailable
from oneread.store.requests import ABSENT, CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import Cell, RowMutation, RowRange

SECONDS = 10.0
STEPS = BigtableSteps(BigtableOptions("p", "i", timeout=SECONDS))
ATTEMPTS = 15
"""So many calls fit into these seconds, with a pause behind each."""
REFUSED = "failed to connect to all addresses; last error: refused"


class Clock:
    """A clock that goes on by pauses alone."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(calls_module, "time", made)
    return made


class Broken(RpcError):
    """What gRPC raises."""

    def __init__(self, code=StatusCode.UNAVAILABLE, details="Socket closed"):
        super().__init__()
        self._status = code, details

    def code(self):
        return self._status[0]

    def details(self):
        return self._status[1]


def row(key, value=b"1", stamp=1):
    return RowMutation(key, {b"d:b": Cell(value, stamp)})


def rows_message(*keys, scanned=b""):
    chunks = [
        {"row_key": key, "family_name": {"value": "d"}, "qualifier": {"value": b"b"}, "value": key, "commit_row": True}
        for key in keys
    ]
    return MESSAGES["ReadRowsResponse"](chunks=chunks, last_scanned_row_key=scanned)


def results(*codes):
    entries = [{"index": index, "status": {"code": code}} for index, code in enumerate(codes)]
    return MESSAGES["MutateRowsResponse"](entries=entries)


def answered(steps, *answers):
    """Drives steps: each answer is an error, or a list of messages of a stream, or the answer itself.

    Returns the calls, and what the steps returned or raised.
    """
    calls, left = [], list(answers)
    try:
        step = next(steps)
        while True:
            if isinstance(step, Pause):
                calls_module.time.now += step.seconds
                step = next(steps)
                continue
            assert isinstance(step, Call)
            calls.append(step.message)
            answer = left.pop(0)
            for message in answer if isinstance(answer, list) else ():
                if isinstance(message, RpcError):
                    answer = message
                    break
                step.receive(message)
            step = steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
    except StopIteration as stop:
        assert not left
        return calls, stop.value
    except Exception as failure:  # noqa: BLE001 - compared by the test
        assert not left
        return calls, failure


def keys_of(found):
    return [key for key, _row in found]


def bounds(message):
    (within,) = message.rows.row_ranges
    return {field.name: value for field, value in within.ListFields()}


def test_a_scan_resumes_behind_the_last_row_that_was_committed():
    calls, found = answered(
        STEPS.scan(Scan("roots", RowRange(b"a", b"z"), 4)), [rows_message(b"b", b"c"), Broken()], [rows_message(b"d")]
    )
    assert keys_of(found) == [b"b", b"c", b"d"]
    assert bounds(calls[0]) == {"start_key_closed": b"a", "end_key_open": b"z"}
    assert bounds(calls[1]) == {"start_key_closed": b"c\x00", "end_key_open": b"z"}
    assert [each.rows_limit for each in calls] == [4, 2]


def test_a_scan_resumes_behind_rows_that_were_scanned_and_left_out():
    messages = [rows_message(b"b"), rows_message(scanned=b"m"), Broken()]
    calls, found = answered(STEPS.scan(Scan("roots", RowRange(b"", b""), 9)), messages, [rows_message(b"x")])
    assert keys_of(found) == [b"b", b"x"]
    assert bounds(calls[1]) == {"start_key_closed": b"m\x00"}


def test_a_reversed_scan_resumes_before_the_last_row():
    asked = Scan("roots", RowRange(b"a", b"z"), 9, reverse=True)
    calls, found = answered(STEPS.scan(asked), [rows_message(b"y", b"m"), Broken()], [rows_message(b"b")])
    assert keys_of(found) == [b"y", b"m", b"b"]
    assert bounds(calls[1]) == {"start_key_closed": b"a", "end_key_open": b"m"}
    assert all(each.reversed for each in calls)


def test_a_scan_whose_last_row_came_is_not_asked_again():
    calls, found = answered(STEPS.scan(Scan("roots", RowRange(b"", b""), 2)), [rows_message(b"a", b"b"), Broken()])
    assert (len(calls), keys_of(found)) == (1, [b"a", b"b"])
    asked = Scan("roots", RowRange(b"a", b"b\x00"), 9)
    calls, found = answered(STEPS.scan(asked), [rows_message(b"a", b"b"), Broken()])
    assert (len(calls), keys_of(found)) == (1, [b"a", b"b"])


def test_a_row_that_was_cut_is_read_again():
    half = MESSAGES["ReadRowsResponse"](
        chunks=[{"row_key": b"b", "family_name": {"value": "d"}, "qualifier": {"value": b"b"}, "value": b"half"}]
    )
    messages = [rows_message(b"a"), half, Broken()]
    calls, found = answered(STEPS.scan(Scan("roots", RowRange(b"", b""), 9)), messages, [rows_message(b"b")])
    assert [row[b"d:b"].value for _key, row in found] == [b"a", b"b"]
    assert bounds(calls[1]) == {"start_key_closed": b"a\x00"}


def test_a_stream_that_ends_within_a_row_is_corrupt():
    half = MESSAGES["ReadRowsResponse"](
        chunks=[{"row_key": b"b", "family_name": {"value": "d"}, "qualifier": {"value": b"b"}, "value": b"half"}]
    )
    assert isinstance(answered(STEPS.scan(Scan("roots", RowRange(b"", b""), 9)), [half])[1], Corrupt)


def test_a_read_resumes_with_the_keys_that_are_left():
    keys = [b"c", b"a", b"x", b"b"]
    calls, found = answered(STEPS.read(Read("roots", keys)), [rows_message(b"a"), Broken()], [rows_message(b"b", b"c")])
    assert [each and each[b"d:b"].value for each in found] == [b"c", b"a", None, b"b"]
    assert [list(each.rows.row_keys) for each in calls] == [[b"a", b"b", b"c", b"x"], [b"b", b"c", b"x"]]


def test_of_a_batch_those_rows_are_sent_again_that_were_not_confirmed():
    changes = [row(b"a"), row(b"b"), row(b"c"), row(b"d")]
    calls, done = answered(
        STEPS.mutate(Mutate("roots", changes)),
        [results(0, 14, 0), Broken()],  # b is to be tried again, d has no result
        [results(0, 14)],
        [results(0)],
    )
    assert done is None
    assert [[each.row_key for each in call.entries] for call in calls] == [
        [b"a", b"b", b"c", b"d"],
        [b"b", b"d"],
        [b"d"],
    ]


def test_a_batch_with_a_row_that_is_refused_is_an_error_at_once():
    calls, failure = answered(STEPS.mutate(Mutate("roots", [row(b"a"), row(b"b"), row(b"c")])), [results(0, 14, 3)])
    assert len(calls) == 1
    assert isinstance(failure, InvalidValue)


def test_a_batch_without_any_result_is_tried_while_there_is_time_and_then_unknown(clock):
    answers = [[]] * ATTEMPTS
    calls, failure = answered(STEPS.mutate(Mutate("roots", [row(b"a"), row(b"b")])), *answers)
    assert len(calls) == ATTEMPTS
    assert isinstance(failure, OutcomeUnknown)
    assert SECONDS - 2 < clock.now < SECONDS


def test_a_request_has_one_deadline_for_all_its_calls(clock):
    steps = STEPS.check_and_mutate(CheckAndMutate("roots", b"d:v", b"1", RowMutation(b"a", delete_row=5)))
    assert next(steps).seconds == SECONDS
    clock.now += 4
    assert steps.send(None).seconds == SECONDS - 4


def test_many_keys_are_read_in_several_calls():
    keys = [b"%04d" % number for number in range(1500)]
    calls, found = answered(STEPS.read(Read("roots", [b"x" * 600, *keys])), [rows_message(keys[7])], [])
    assert [len(each.rows.row_keys) for each in calls] == [1000, 500]
    assert [number for number, each in enumerate(found) if each] == [8]


def test_an_expected_value_that_fits_no_filter_is_refused_before_anything_is_sent():
    asked = CheckAndMutate("roots", b"d:v", bytes(20_000), RowMutation(b"a", delete_row=5))
    calls, failure = answered(STEPS.check_and_mutate(asked))
    assert (calls, type(failure)) == ([], LimitExceeded)


@pytest.mark.parametrize("rows", [[row(b"a")], [row(b"a"), row(b"b")]], ids=["row", "batch"])
def test_a_write_whose_store_is_closed_between_attempts_is_unknown(rows):
    closed = Closed("closed")
    assert answered(STEPS.mutate(Mutate("roots", rows)), closed)[1] is closed
    assert answered(STEPS.mutate(Mutate("roots", rows)), Broken(details=REFUSED), closed)[1] is closed
    failure = answered(STEPS.mutate(Mutate("roots", rows)), Broken(), closed)[1]
    assert isinstance(failure, OutcomeUnknown)
    assert failure.__cause__ is closed


@pytest.mark.parametrize(
    "run", [Channels.run, lambda channels, steps: asyncio.run(channels.run_async(steps))], ids=["sync", "async"]
)
@pytest.mark.parametrize(("details", "expected"), [("Socket closed", OutcomeUnknown), (REFUSED, Closed)])
def test_the_steps_hear_that_the_store_was_closed(run, details, expected):
    channels = Channels(emulated("127.0.0.1:1"))
    channels.close()
    attempts = Attempts(place_of(BigtableOptions("p", "i"), "roots"), deadline(SECONDS), writes=True)
    attempts.next(Failed(StatusCode.UNAVAILABLE, details))
    with pytest.raises(expected):
        run(channels, attempts.make(lambda seconds: Call(calls_module.MUTATE_ROW, None, "", seconds)))


def test_a_read_whose_store_is_closed_between_attempts_is_closed():
    closed = Closed("closed")
    assert answered(STEPS.read(Read("roots", [b"a"])), Broken(), closed)[1] is closed


def test_the_engines_own_value_is_looked_for_a_few_times():
    passed = MESSAGES["CheckAndMutateRowResponse"](predicate_matched=False)
    calls, failure = answered(STEPS.own_value(b"name", b"value"), *[[], passed] * 10)
    assert len(calls) == 20
    assert isinstance(failure, Unavailable)


def test_a_later_failure_does_not_make_an_earlier_write_undone():
    refused = Broken(StatusCode.INVALID_ARGUMENT, "no")
    calls, failure = answered(STEPS.mutate(Mutate("roots", [row(b"a")])), Broken(), refused)
    assert len(calls) == 2
    assert isinstance(failure, OutcomeUnknown)


CONDITION = CheckAndMutate("roots", b"d:b", ABSENT, row(b"a"))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([Broken()], OutcomeUnknown),
        ([Broken(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")], OutcomeUnknown),
        ([Broken(StatusCode.INVALID_ARGUMENT, "no")], InvalidValue),
        ([Broken(details=REFUSED)] * ATTEMPTS, Unavailable),
        ([Broken(details=REFUSED), Broken()], OutcomeUnknown),
    ],
)
def test_a_condition_is_sent_once_unless_it_never_left(answers, expected):
    calls, failure = answered(STEPS.check_and_mutate(CONDITION), *answers)
    assert len(calls) == len(answers)
    assert type(failure) is expected
    assert failure.__cause__ is answers[-1]


def test_a_condition_that_never_left_is_sent_when_a_server_is_there():
    answer = MESSAGES["CheckAndMutateRowResponse"](predicate_matched=False)
    calls, applied = answered(STEPS.check_and_mutate(CONDITION), Broken(details=REFUSED), answer)
    assert (len(calls), applied) == (2, True)


def test_a_checked_column_is_deleted_though_it_was_put_after_the_columns_were_read():
    asked = CheckAndMutate("roots", b"d:v", b"1", RowMutation(b"a", delete_row=5))
    answer = MESSAGES["CheckAndMutateRowResponse"](predicate_matched=True)
    calls, applied = answered(STEPS.check_and_mutate(asked), [rows_message(b"a")], answer)
    assert applied is True
    deleted = {each.delete_from_column.column_qualifier for each in calls[1].true_mutations}
    assert deleted == {b"b", b"v"}


def test_no_attempt_is_made_when_the_time_is_over():
    steps = BigtableSteps(BigtableOptions("p", "i", timeout=0.000001))
    calls, failure = answered(steps.mutate(Mutate("roots", [row(b"a")])), Broken())
    assert len(calls) == 1
    assert isinstance(failure, OutcomeUnknown)
