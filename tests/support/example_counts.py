"""The count of examples per property: few in ``make test``, 100,000 in ``make properties``."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

NIGHTLY = 100_000
READERS = 100  # examples of cheap properties that hold for any input

_PATIENT = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "nightly", max_examples=NIGHTLY, deadline=None, suppress_health_check=_PATIENT
)


def examples(count: int) -> settings:
    """Return Hypothesis settings for ``count`` examples, or 100,000 under the profile of ``make
    properties``.
    """
    nightly = settings.get_current_profile_name() == "nightly"
    return settings(max_examples=max(count, NIGHTLY) if nightly else count, deadline=None)


def stateful(count: int, steps: int) -> settings:
    """Return Hypothesis settings of a state machine for ``count`` runs of at most ``steps`` steps."""
    return settings(
        max_examples=count, stateful_step_count=steps, deadline=None, suppress_health_check=_PATIENT
    )
