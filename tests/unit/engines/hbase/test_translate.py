import ssl

import pytest
from thriftpy2.thrift import TApplicationException

from oneread.engines.hbase.connection import BrokenAnswerError
from oneread.engines.hbase.thrift2 import service
from oneread.engines.hbase.translate import TooMuchAtOnceError, translate
from oneread.errors import (
    Conflict,
    Corrupt,
    InvalidUrl,
    InvalidValue,
    LimitExceeded,
    StoreReplaced,
    Unavailable,
    Unsupported,
)

STACK = "\n\tat org.apache.hadoop.hbase.regionserver.HRegion.call(HRegion.java:1)" * 400
FAILED = "Failed 1 action: org.apache.hadoop.hbase.regionserver."
NETWORK = "the Thrift server cannot be reached; try again"


def of_hbase(message):
    return service.TIOError(message=message, canRetry=True)


@pytest.mark.parametrize(
    ("message", "kind", "passes"),
    [
        ("shop:roots", StoreReplaced, False),
        ("org.apache.hadoop.hbase.TableNotFoundException: shop:roots", StoreReplaced, False),
        ("org.apache.hadoop.hbase.TableExistsException: shop:roots", Conflict, False),
        ("org.apache.hadoop.hbase.NamespaceNotFoundException: shop", InvalidUrl, False),
        ("org.apache.hadoop.hbase.TableNotEnabledException: shop:roots is disabled.", Unavailable, False),
        (f"{FAILED}NoSuchColumnFamilyException: Column family x", Corrupt, False),
        ("org.apache.hadoop.hbase.security.AccessDeniedException: Insufficient permissions", Unsupported, False),
        ("org.apache.hadoop.hbase.regionserver.RowTooBigException: Max row size allowed", LimitExceeded, False),
        ("org.apache.hadoop.hbase.MultiActionResultTooLarge: Max size exceeded", TooMuchAtOnceError, False),
        ("org.apache.hadoop.hbase.DoNotRetryIOException: Field is not a long", InvalidValue, False),
        ("org.apache.hadoop.hbase.DoNotRetryIOException: refused", Unavailable, False),
        ("org.apache.hadoop.hbase.NotServingRegionException: roots is not online", Unavailable, True),
        ("java.net.ConnectException: Connection refused", Unavailable, True),
        ("another table", Unavailable, True),
        (None, Unavailable, True),
    ],
)
def test_a_failure_of_hbase_is_a_short_static_message(message, kind, passes):
    failure = translate(
        of_hbase(message if message is None else message + STACK * (message != "shop:roots")), b"shop:roots", "a:1"
    )
    assert type(failure.error) is kind
    assert failure.passes is passes
    assert len(str(failure.error)) < 400
    assert failure.error.facts["server"] == "a:1"


def test_the_class_of_java_is_a_fact():
    failure = translate(of_hbase(f"org.apache.hadoop.hbase.CallQueueTooBigException: x{STACK}"), b"", "a:1")
    assert failure.error.facts == {"server": "a:1", "error": "CallQueueTooBigException"}


def test_a_table_of_the_default_namespace_is_named_without_it():
    assert type(translate(of_hbase("roots"), b"default:roots", "a:1").error) is StoreReplaced
    assert type(translate(of_hbase("roots"), b"shop:roots", "a:1").error) is Unavailable


@pytest.mark.parametrize(
    ("error", "kind", "passes"),
    [
        (TimeoutError(), Unavailable, True),
        (EOFError(), Unavailable, True),
        (ConnectionRefusedError(111, "Connection refused"), Unavailable, True),
        (OSError(), Unavailable, True),
        (ssl.SSLError(1, "wrong version number"), InvalidUrl, False),
        (ssl.SSLCertVerificationError(1, "self-signed"), InvalidUrl, False),
        (BrokenAnswerError(), InvalidUrl, False),
        (SystemError(), InvalidUrl, False),
        (TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name"), InvalidUrl, False),
        (
            TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing get"),
            LimitExceeded,
            False,
        ),
    ],
)
def test_other_failures_say_what_to_do(error, kind, passes):
    failure = translate(error, b"", "a:1")
    assert (type(failure.error), failure.passes) == (kind, passes)
