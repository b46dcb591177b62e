"""The servers that tests need: a test that lacks one fails, unless ONEREAD_WITHOUT names it."""

from contextlib import ExitStack, contextmanager

import pytest

from tools.servers.processes import is_left_out


@contextmanager
def need(name, start):
    """What `start()` yields. Without the server the test fails; where ONEREAD_WITHOUT=name,... says so, it is skipped.

    Skipped tests are counted in the last line of pytest.
    """
    if is_left_out(name):
        pytest.skip(f"ONEREAD_WITHOUT names {name}")
    with ExitStack() as stack:
        try:
            server = stack.enter_context(start())
        except FileNotFoundError as error:
            pytest.fail(f"{error}; or test without it: ONEREAD_WITHOUT={name}")
        yield server
