"""What every test shares: how hypothesis searches, and what coverage measures."""

import gc
import os
import signal
import sys
import time
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from uuid import uuid4

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, is_hypothesis_test, settings

import oneread
from oneread.engines.hbase import HbaseEngine, options_from_url
from oneread.transactions import journal_recovery
from tests.servers import need
from tests.stores import SERVERS, forget, kinds_of, make_url, open_rooms
from tools.servers.bigtable import bigtable_emulator
from tools.servers.hbase import shared_hbase

HERE = Path(__file__).parent
UNMEASURED = {
    "benchmarks", "docs", "examples", "power", "properties", "schemas", "simulation", "soak", "tidy", "tools", "typing",
    "test_interrupts.py", "test_damaged_files.py", "test_damaged_rows.py", "test_killed_feeds.py",
    "test_any_sequence_of_requests_answers_as_a_plain_dict_does",
    "test_any_damage_to_an_entry_is_found_and_mended",
    "test_an_entity_that_is_committed_between_all_reads_makes_no_sum_wrong",
    "test_every_change_of_two_ttls_is_built_and_swept",
    "test_fields_of_ttls_may_be_renamed_with_any_change", "test_an_index_with_a_ttl_may_be_renamed_with_any_change",
    "test_no_flipped_bit_of_a_page_header_loses_rows_of_a_clean_store",
    "test_the_suite_finds_each_engine_that_breaks_a_promise",
    "test_a_backfill_is_killed_again_and_again_beside_live_writes",
    "test_takes_only_itself_along_wherever_it_stands", "test_they_equal_what_the_oracle_folds",
    "test_every_copy_is_what_its_source_says_in_any_history", "test_a_group_turns_round_after_some_steps",
    "test_items_change_while_memberships_go_over",
    "test_a_bulk_writer_that_is_killed_behind_any_write_makes_every_change_once",
    "test_entries_of_a_group_that_is_read_end_and_come_again_when_it_is_written",
    "test_entries_are_written_250_a_request",
    "test_what_was_trimmed_ends_and_stays_away", "test_stored_values_are_spread_and_the_greatest_counts",
    "test_a_wrong_sum_is_found_and_mended_while_it_changes", "test_groups_with_more_contributions_than_are_remembered",
    "test_many_that_are_set_aside_are_listed_up_to_a_limit", "test_the_document_is_valid_and_whole",
    "test_documents_with_variants_are_valid_and_whole", "test_a_root_row_with_many_children_is_not_followed",
    "test_verify_knows_the_counts_of_more_roots_than_it_keeps", "test_equal_by_bytes_is_not_equal_by_rows",
    "test_ranges_stay_equal_where_most_places_were_dropped",
    "test_a_signal_that_interrupts_grpc_leaves_a_store_that_answers_and_closes",
}  # fmt: skip
"""Folders, files and tests that search, that trace for themselves, that are interrupted anywhere, coverage's own lines
included, that are not about lines of the library, or that run for seconds what others run as well."""
PATIENCE, WORTH = 0.05, 0.01
"""For how many seconds a test is measured in vain, on a kind of store, and how many one new line or branch makes good.

What is quick stays measured; what is slow and runs what others ran is not measured with each parameter.
"""
IN_VAIN = Counter()
"""The seconds of each test in this process, by its name and kind of store."""
OF_PROGRAMS = {"test_tasks.py", "test_terminal.py"}
"""Files whose tests run lines in a program of their own that no test runs in its own process."""
CHILDREN = "COVERAGE_PROCESS_CONFIG"
"""By this variable coverage measures the programs that a test starts; each takes half a second more for it."""

# `ci` replays the same examples on every machine; `dev` looks for new ones; `sim` is for `make sim`, `thorough` for a
# night. None of them takes time for a failure: a machine may be slow.
PROFILES = {
    "ci": {"derandomize": True, "max_examples": 25, "print_blob": True},
    "dev": {"max_examples": 25},
    "sim": {"max_examples": 250},
    "thorough": {"max_examples": 5_000},
}
for name, options in PROFILES.items():
    settings.register_profile(
        name, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], **options
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))

# Shells have what they start in the background ignore Ctrl-C, and so do the commands that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def forget_what_the_parent_ran():
    """In the child of a fork: its parent writes down its own lines; a child would write all of them again."""
    measuring = Coverage.current()
    if measuring is not None and measuring._collector is not None:
        measuring._collector._clear_data()


os.register_at_fork(after_in_child=forget_what_the_parent_ran)
# What earlier tests of a parent left is not collected in its child, from the first line on that runs there: gRPC's
# objects crash there, or wait for ever.
os.register_at_fork(before=gc.freeze)


def is_measured(item):
    """Whether a test says something about lines of the library that no other one ran.

    A search runs the lines that the tests beside it name. A test on LMDB measures what one in memory does, and one on
    memory that changes one row what one on servers does. Of a test that has parameters besides, each of these two kinds
    measures half of them, as the fields of a chessboard are black or white: each parameter is measured on one kind.
    Those that took long and ran nothing new are followed by none that is measured.
    """
    path = item.path.relative_to(HERE)
    if IN_VAIN[name_and_kind(item)] > PATIENCE:
        return False
    if is_hypothesis_test(item.obj) or not UNMEASURED.isdisjoint((*path.parts, item.originalname)):
        return False
    if not hasattr(item, "callspec"):
        return True
    words = item.callspec.id.split("-")
    if "memory" in words:
        twin = "-".join("lmdb" if word == "memory" else word for word in words)
        return f"{item.nodeid.removesuffix(f'[{item.callspec.id}]')}[{twin}]" not in collected(item.session)
    kind = item.callspec.params.get("kind_of_store")
    if kind in {"lmdb", "row"} and {"lmdb", "row"} <= set(kinds_of(path, item.originalname)):
        others = [index for name, index in item.callspec.indices.items() if name != "kind_of_store"]
        return not others or sum(others) % 2 == (kind == "row")
    return kind not in SERVERS


def name_and_kind(item):
    """A test without its parameters, but for the kind of store."""
    kind = item.callspec.params.get("kind_of_store") if hasattr(item, "callspec") else None
    return item.nodeid.partition("[")[0], kind


def count_lines(measuring):
    """How many lines and branches this process has run while it was measured."""
    return sum(map(len, measuring._collector.data.values()))


@cache
def collected(session):
    return {each.nodeid for each in session.items}


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is collected, half a gigabyte, stays to the end: the garbage collector looks at none of it.

    Otherwise it takes half of the time of collecting, and a tenth of that of the tests. Coverage sees the library
    imported, whichever test is the first to need a module, and nothing of what tests declare when they are imported.
    """
    gc.disable()
    measuring = Coverage.current()
    if measuring is not None:
        for module in walk_packages(oneread.__path__, "oneread."):
            if module.name != "oneread.__main__":
                import_module(module.name)
        measuring.stop()
    try:
        return (yield)
    finally:
        if measuring is not None:
            measuring.start()
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    """A worker of xdist is measured before pytest-cov knows that it is one, and then once more: one stops, one starts.

    Otherwise stopping the second resumes the first, and the test that is not measured is.
    """
    if hasattr(session.config, "workerinput"):
        while (measuring := Coverage.current()) is not None:
            measuring.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Coverage more than doubles the time of what it measures: it stops for a test whose lines others ran, and for the
    fixtures of that test.

    When it starts again it wraps `os._exit` once more: a child of a fork would save its lines a hundred times.
    """
    leave, children = os._exit, None if item.path.name in OF_PROGRAMS else os.environ.pop(CHILDREN, None)
    measuring = Coverage.current()
    measured = measuring is not None and is_measured(item)
    if measured:
        before, began = count_lines(measuring), time.process_time()
    elif measuring is not None:
        measuring.stop()
        assert Coverage.current() is None, "coverage does not stop"
    try:
        return (yield)
    finally:
        if measured:
            took, name = time.process_time() - began, name_and_kind(item)
            IN_VAIN[name] = max(0, IN_VAIN[name] + took - WORTH * (count_lines(measuring) - before))
        elif measuring is not None:
            measuring.start()
        os._exit = leave
        if children is not None:
            os.environ[CHILDREN] = children


@pytest.fixture
def busy_threads():
    """Threads are switched wherever they can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def pytest_generate_tests(metafunc):
    """A test that opens a store runs on each kind, but for what `tests.stores` leaves out."""
    if "kind_of_store" in metafunc.fixturenames:
        function = metafunc.definition.originalname
        kinds = kinds_of(metafunc.definition.path.relative_to(HERE), function)
        assert kinds, f"{function} runs on no kind of store"
        metafunc.parametrize("kind_of_store", kinds, indirect=True, scope="module")


@pytest.fixture(scope="module")
def kind_of_store(request):
    """The kind of store that a test runs on. No other program has a lease on it, so none is waited for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_recovery, "END_SECONDS", 0.0)
        if request.param == "bigtable":
            patch.setenv("BIGTABLE_EMULATOR_HOST", request.getfixturevalue("emulator").host)
        elif request.param == "hbase":
            open_rooms(patch, request.getfixturevalue("hbase_tables"))
        yield request.param


@pytest.fixture(scope="module")
def new_url(kind_of_store, tmp_path_factory):
    """Makes URLs of empty stores of one kind; also for the examples of hypothesis."""
    folder, made = tmp_path_factory.mktemp("stores"), []

    def make():
        made.append(make_url(kind_of_store, folder))
        return made[-1]

    yield make
    for each in made:
        forget(each)


@pytest.fixture
def url(new_url):
    """The URL of one empty store."""
    made = new_url()
    yield made
    forget(made)


@pytest.fixture(scope="session")
def emulator():
    """A Bigtable emulator of this worker; a test has instances of its own on it, and leaves it running."""
    with need("bigtable", bigtable_emulator) as started:
        yield started


@pytest.fixture(scope="session")
def hbase():
    """An HBase with a Thrift2 server: one for all workers of this run."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}-{uuid4().hex}"
    with need("hbase", lambda: shared_hbase(run)) as shared:
        yield shared


@pytest.fixture(scope="session")
def hbase_tables(hbase, worker_id):
    """The tables of this worker, in which each store of a test is a room."""
    engine = HbaseEngine(options_from_url(f"{hbase.place}/default", {"prefix": f"tests_{worker_id}_"}))
    yield engine
    engine.close()
