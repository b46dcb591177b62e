"""Clients follow pages on a store that changes one row at a time: what they have is the page, once they caught up.

Requests are late or lost, processes die, workers recover what they left, and logs are swept meanwhile.
"""

import pytest

from tests.simulation import row_watching as broken
from tests.simulation.row_watching import run, switched


def test_some_clients_read_again_and_some_do_not():
    read = [reader.read_again for seed in range(12) for reader in run(seed)]
    assert 1 in read
    assert max(read) > 1


BY_SEED = {
    broken.an_entry_comes_after_the_intents_are_cleared: 17,
    broken.removed_rows_are_not_logged: 7,
    broken.an_entry_replaces_one_of_its_number: 67,
    broken.the_number_of_a_log_has_the_stamp_of_a_clock: 0,
    broken.entries_of_a_feed_are_not_logged: 2,
    broken.commits_of_entities_are_not_logged: 2,
    broken.entities_that_get_copied_values_are_not_logged: 46,
}
"""Each with a seed that finds it."""


def test_a_reader_between_two_requests_of_a_writer_misses_nothing():
    all_switches()


def all_switches():
    for requests in range(14):
        switched(requests)


def test_an_entry_before_its_rows_is_found(monkeypatch):
    broken.an_entry_comes_before_its_rows(monkeypatch)
    with pytest.raises(AssertionError):
        all_switches()
