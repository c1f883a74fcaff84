from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.delivery.backoff import doubling, retry_after, scheduled_wait

NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110


@pytest.mark.parametrize(
    ("step", "jitter", "seconds"),
    [(0, 0.0, 0.0), (0, 0.5, 0.05), (1, 0.5, 1.0), (2, 0.25, 15.0), (3, 0.5, None)],
)
def test_a_wait_is_drawn_between_nothing_and_its_step(step, jitter, seconds):
    assert scheduled_wait((0.1, 2.0, 60.0), step, jitter) == seconds


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 10_000))
def test_doubling_stays_between_half_of_the_first_and_the_longest(jitter, failures):
    assert 0.5 <= doubling(1.0, 60.0, failures, jitter) <= 60.0


def test_doubling_doubles():
    assert [doubling(1.0, 60.0, n, 0.0) for n in (1, 2, 3, 4, 20)] == [0.5, 1.0, 2.0, 4.0, 30.0]


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("0", NOW),
        ("120", NOW + 120),
        (" 7 ", NOW + 7),
        ("007", NOW + 7),
        ("Sun, 06 Nov 1994 08:49:47 GMT", NOW + 10),
        ("Sunday, 06-Nov-94 08:49:47 GMT", NOW + 10),
        ("Sun Nov  6 08:49:47 1994", NOW + 10),
        ("Sun, 06 Nov 1994 09:49:47 +0100", NOW + 10),
        ("Sun, 06 Nov 1994 08:49:37 GMT", NOW),
        ("Sat, 05 Nov 1994 08:49:37 GMT", NOW),
        ("-5", None),
        ("1.5", None),
        ("", None),
        ("soon", None),
        ("١٢", None),
        ("Sun, 40 Foo 1994 08:49:37 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_forms(value, moment):
    """W6: seconds or an HTTP date in any of its three spellings; a past date is now."""
    assert retry_after(value, NOW) == moment


def test_a_page_of_digits_is_for_ever_and_no_error():
    assert retry_after("9" * 5_000, NOW) == float("inf")


@pytest.mark.parametrize("sign", "+-")
def test_a_zone_of_a_page_of_digits_says_nothing(sign):
    """The wait is computed with it: an error there ended the dispatcher, with each answer again."""
    assert retry_after(f"Sun, 06 Nov 1994 08:49:37 {sign}{'9' * 400}", NOW) is None


@given(st.text(max_size=40))
def test_retry_after_never_raises_and_never_points_back(value):
    moment = retry_after(value, NOW)
    assert moment is None or moment >= NOW
