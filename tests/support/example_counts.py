"""How many examples a property is tried with: few in ``make test``, 100,000 in ``make properties``."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

NIGHTLY = 100_000
READERS = 2_000  # of properties that hold whatever arrives, and are cheap

_PATIENT = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "nightly", max_examples=NIGHTLY, deadline=None, suppress_health_check=_PATIENT
)


def examples(count: int) -> settings:
    """At least ``count`` examples, or as many as the profile has."""
    profile = settings.get_profile(settings.get_current_profile_name())
    return settings(max_examples=max(count, profile.max_examples), deadline=None)
