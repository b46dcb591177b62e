"""The suite is shipped as a module: pytest shows what its assertions compared only when asked to."""

import pytest

pytest.register_assert_rewrite(
    "oneread.testing.ahead_conformance",
    "oneread.testing.cache_conformance",
    "oneread.testing.conformance",
    "oneread.testing.local_conformance",
    "oneread.testing.persistence_conformance",
    "oneread.testing.rows_conformance",
    "oneread.testing.store_machine",
    "oneread.testing.transaction_conformance",
)
