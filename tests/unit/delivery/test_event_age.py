"""What is too old is not tried; each row of the table of ``ages``."""

from __future__ import annotations

import pytest

from app.delivery.event_age import AgeLimits

NOW = 1_700_000_000.0
DAY = 86_400.0


@pytest.mark.parametrize(
    ("expirytime", "honour", "expired"),
    [
        ("2023-11-14T22:13:20Z", True, True),  # this very moment
        ("2023-11-14T23:13:21+01:00", True, False),
        ("2023-11-14T22:13:19.5Z", True, True),
        ("2023-11-14T22:13:19Z", False, False),
        (None, True, False),
        ("2023-11-14T22:13:19", True, False),
        ("yesterday", True, False),
    ],
)
def test_an_event_expires_by_its_own_word_where_that_is_honoured(expirytime, honour, expired):
    """Rule 2: expired by its own rule is finished; what cannot be read expires nothing."""
    assert AgeLimits(DAY, honour=honour).expired(expirytime, NOW) is expired


@pytest.mark.parametrize(
    ("age", "parked", "cause"),
    [
        (3_601, None, "max-age"),
        (3_599, None, ""),
        (3_599, DAY + 1, "parked-too-long"),
        (3_599, DAY - 1, ""),
        (3_601, DAY + 1, "max-age"),
    ],
)
def test_what_is_too_old_becomes_a_dead_letter_by_its_cause(age, parked, cause):
    """Rule 8: what waits is bounded in time too, and nothing goes without a letter."""
    assert AgeLimits(DAY, max_age=3_600).too_old(age, parked) == cause


def test_without_a_bound_no_age_is_too_much():
    assert AgeLimits(DAY).too_old(NOW, None) == ""
