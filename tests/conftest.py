"""What every test shares: how hypothesis searches."""

import os

from hypothesis import HealthCheck, settings

# `ci` replays the same examples on every machine; `dev` looks for new ones; `thorough` is for a night.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100, print_blob=True)
settings.register_profile("dev", deadline=None, max_examples=100)
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=5_000,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))
