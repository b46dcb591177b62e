"""What every test shares: how hypothesis searches."""

import os

from hypothesis import HealthCheck, settings

# `ci` replays the same examples on every machine; `dev` looks for new ones; `thorough` is for a night. None of them
# takes time for a failure: a machine may be slow.
PROFILES = {
    "ci": {"derandomize": True, "max_examples": 100, "print_blob": True},
    "dev": {"max_examples": 100},
    "thorough": {"max_examples": 5_000},
}
for name, options in PROFILES.items():
    settings.register_profile(
        name, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], **options
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))
