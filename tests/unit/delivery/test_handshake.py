"""What is consent, and how the rate that comes with it is kept to (webhook specification, spec 5.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.delivery.handshake import Consent, ConsentRefusal, consent, granted, questions
from app.delivery.rate import RateLimit

ORIGIN = "bridge.example.com"


def said(**headers: str) -> dict[str, str]:
    return {name.replace("_", "-").lower(): value for name, value in headers.items()}


@pytest.mark.parametrize("allowed", ["*", ORIGIN, "Bridge.Example.COM", f" {ORIGIN} "])
def test_the_origin_itself_or_everybody_is_consent(allowed):
    answer = said(WebHook_Allowed_Origin=allowed, WebHook_Allowed_Rate="120")
    assert consent(200, answer, ORIGIN, None) == Consent(120)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        said(Access_Control_Allow_Origin="*", Allow="POST"),
        said(WebHook_Allowed_Rate="120"),
        said(WebHook_Allowed_Origin=""),
        said(WebHook_Allowed_Origin=ORIGIN + ".attacker.example"),
        said(WebHook_Allowed_Origin="evil" + ORIGIN),
        said(WebHook_Allowed_Origin="bridge.example"),
        said(WebHook_Allowed_Origin="*.example.com"),
        said(WebHook_Allowed_Origin=f"{ORIGIN}, other.example"),
    ],
)
def test_nothing_else_is(headers):
    """A prefix that matches, CORS and a friendly status have fooled other senders."""
    assert consent(200, headers, ORIGIN, None) == ConsentRefusal("status 200")


@pytest.mark.parametrize(
    ("rate", "asked", "granted"),
    [("*", 100, None), ("60", 100, 60), (None, 100, 100), (None, None, None), ("9" * 40, 7, None)],
)
def test_the_rate_is_a_positive_number_or_any(rate, asked, granted):
    """Without one, what was asked for."""
    headers = said(WebHook_Allowed_Origin="*")
    if rate is not None:
        headers["webhook-allowed-rate"] = rate
    assert consent(204, headers, ORIGIN, asked) == Consent(granted)


@pytest.mark.parametrize("rate", ["0", "000", "-5", "many", "1e3", "", "60, 70", "٣"])
def test_a_rate_that_is_no_positive_number_is_no_consent(rate):
    """Deliveries without a bound are the last thing that such a webhook wants."""
    headers = {**said(WebHook_Allowed_Origin="*"), "webhook-allowed-rate": rate}
    refusal = consent(200, headers, ORIGIN, None)
    assert isinstance(refusal, ConsentRefusal)
    assert refusal.why == "WebHook-Allowed-Rate is not a positive number"
    assert granted(rate, 100) == refusal


@pytest.mark.parametrize("status", [301, 302, 307, 308, 399])
def test_a_redirect_is_no_consent(status):
    """Redirects are never followed: whoever answers is not the webhook."""
    refusal = consent(status, said(WebHook_Allowed_Origin="*"), ORIGIN, None)
    assert refusal == ConsentRefusal(f"status {status}: a redirect is no consent")


def test_only_what_is_wanted_is_asked():
    assert questions(ORIGIN, None, "") == (("WebHook-Request-Origin", ORIGIN),)
    assert questions(ORIGIN, 60, "https://b/x")[1:] == (
        ("WebHook-Request-Rate", "60"),
        ("WebHook-Request-Callback", "https://b/x"),
    )


@given(
    rate=st.integers(1, 100_000),
    idle=st.lists(st.floats(0, 90), max_size=8),
    late=st.floats(0, 0.3),
)
def test_no_minute_holds_more_than_allowed(rate, idle, late):
    """Wherever it begins, after any idleness, with timers that are late."""
    limit, now, taken = RateLimit(rate), 1000.0, []
    rests = list(idle)
    for _ in range(min(3 * rate, 3_000)):
        wait = limit.wait(now)
        if wait:
            now += wait + late
        assert limit.wait(now) < 1e-6
        limit.take(now)
        taken.append(now)
        if rests and len(taken) % 40 == 0:
            now += rests.pop()
    ahead = 0
    for n, moment in enumerate(taken):
        while taken[ahead] <= moment - 60 + 1e-6:
            ahead += 1
        assert n - ahead + 1 <= rate


@pytest.mark.parametrize("rate", [1, 30, 60, 600, 60_000])
def test_what_is_allowed_can_be_used(rate):
    """Timers that come 10 ms late cost little: not half of what was granted."""
    limit, now, taken = RateLimit(rate), 0.0, 0
    while now < 600:
        wait = limit.wait(now)
        if wait:
            now += wait + 0.01
            continue
        limit.take(now)
        taken += 1
    assert taken >= 0.97 * rate * 10 - 1


@pytest.mark.parametrize("rate", [1, 7, 60, 600, 12_000])
def test_as_many_as_there_is_room_for_may_begin_together(rate):
    """A request of several events takes that many at once: not one more, not one less."""
    limit, now = RateLimit(rate), 5_000.0
    for pause in (0.0, 0.3, 1.0, 0.01, 70.0):
        now += pause
        room = limit.room(now)
        assert (room > 0) == (limit.wait(now) <= 1e-5)
        for _ in range(room):
            assert limit.wait(now) <= 1e-5
            limit.take(now)
        assert limit.wait(now) > 0
        assert limit.room(now) == 0
