"""The suite is shipped as a module: pytest shows what its assertions compared only when asked to."""

import pytest

pytest.register_assert_rewrite(
    "oneread.testing.conformance", "oneread.testing.store_machine", "oneread.testing.cache_conformance"
)
