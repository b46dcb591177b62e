"""Statuses as errors: what a lost answer means, and what one row's status does."""

import pytest
from grpc import StatusCode

from oneread.engines.bigtable.translate import Failed, translate
from oneread.errors import InvalidUrl, LimitExceeded, OutcomeUnknown, StoreError, StoreReplaced, Unavailable, UsageError

FAILURES = [code for code in StatusCode if code is not StatusCode.OK]


@pytest.mark.parametrize("code", FAILURES)
def test_every_status_is_an_error_of_this_library(code):
    error = translate(Failed(code, "words " * 100), {"table": "roots"}, unsure=False)
    assert isinstance(error, (StoreError, UsageError))
    assert error.facts["table"] == "roots"
    assert error.facts["status"] == code.name
    assert len(str(error)) < 500


@pytest.mark.parametrize("code", FAILURES)
def test_a_write_that_may_be_applied_is_never_a_failure(code):
    assert isinstance(translate(Failed(code, ""), {}, unsure=True), OutcomeUnknown)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (StatusCode.NOT_FOUND, StoreReplaced),
        (StatusCode.PERMISSION_DENIED, InvalidUrl),
        (StatusCode.RESOURCE_EXHAUSTED, LimitExceeded),
        (StatusCode.UNKNOWN, Unavailable),
    ],
)
def test_what_some_statuses_mean(code, expected):
    assert type(translate(Failed(code, ""), {}, unsure=False)) is expected


@pytest.mark.parametrize(
    ("code", "details", "applied"),
    [
        (StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: refused", False),
        (StatusCode.UNAVAILABLE, "DNS resolution failed for bigtable.example", False),
        (StatusCode.UNAVAILABLE, "Socket closed", True),
        (StatusCode.UNAVAILABLE, "", True),
        (StatusCode.INTERNAL, "Received RST_STREAM with error code 2", True),
        (StatusCode.DEADLINE_EXCEEDED, "failed to connect to all addresses", True),
        (StatusCode.INVALID_ARGUMENT, "", False),
        (StatusCode.NOT_FOUND, "", False),
    ],
)
def test_which_writes_may_be_applied(code, details, applied):
    assert Failed(code, details).may_be_applied is applied


def test_a_request_that_reached_no_server_says_so():
    failed = Failed(StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: refused")
    assert "cannot connect" in str(translate(failed, {}, unsure=False))


def test_the_status_of_a_row_is_a_number():
    assert Failed.of_row(0, "").code is StatusCode.OK
    assert Failed.of_row(14, "x") == Failed(StatusCode.UNAVAILABLE, "x")
    assert Failed.of_row(99, "").code is StatusCode.UNKNOWN
