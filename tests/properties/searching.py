"""How a property is searched that must fail: with as many examples as that takes."""

from hypothesis import HealthCheck, Phase, settings

UNTIL_FOUND = settings(
    max_examples=10_000,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
"""Ends at the first example that fails. A smaller number of examples would leave it to chance whether one does."""
