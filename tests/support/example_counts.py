"""How many examples a property is tried with: few in ``make test``, 100,000 in ``make properties``."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

NIGHTLY = 100_000
READERS = 300  # of properties that hold whatever arrives, and are cheap

_PATIENT = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "nightly", max_examples=NIGHTLY, deadline=None, suppress_health_check=_PATIENT
)


def examples(count: int) -> settings:
    """``count`` examples in ``make test``; in ``make properties`` as many as its profile has."""
    nightly = settings.get_current_profile_name() == "nightly"
    return settings(max_examples=max(count, NIGHTLY) if nightly else count, deadline=None)


def stateful(count: int, steps: int) -> settings:
    """Of a state machine: so many runs of so many steps."""
    return settings(
        max_examples=count, stateful_step_count=steps, deadline=None, suppress_health_check=_PATIENT
    )
