from __future__ import annotations

import pytest

from app.delivery.endpoint import FEWEST, RECENT, BreakerState, Endpoint


def fail(endpoint, count, *, keys=5, now=0.0):
    """Failures of ``keys`` keys in turn; which of them found or made the endpoint paused."""
    return [endpoint.failed(n % keys, "timeout", now, 0.5, probe=False) for n in range(count)]


@pytest.fixture
def paused():
    endpoint = Endpoint()
    fail(endpoint, FEWEST)
    assert endpoint.flow is BreakerState.PAUSED
    return endpoint


def test_it_pauses_when_most_attempts_of_several_keys_fail():
    """Rule 6: and the attempt that tips it, like all after it, is not held against its event."""
    assert fail(Endpoint(), FEWEST + 2) == [False] * (FEWEST - 1) + [True] * 3


def test_one_key_that_always_fails_stops_nobody():
    """Rule 6: only the event's own schedule ends it."""
    endpoint = Endpoint()
    assert not any(fail(endpoint, 1000, keys=2))
    assert endpoint.flow is BreakerState.FLOWING


def test_a_target_that_fails_now_and_then_goes_on():
    """Reliability R5: 40 % failures are a bad target, but not a dead one."""
    endpoint = Endpoint()
    for n in range(1000):
        if n % 5 < 2:
            assert not endpoint.failed(n, "status-500", 0.0, 0.5, probe=False)
        else:
            endpoint.answered(probe=False)


def test_old_failures_are_forgotten():
    endpoint = Endpoint()
    fail(endpoint, FEWEST - 1)
    for _ in range(RECENT):
        endpoint.answered(probe=False)
    assert not any(fail(endpoint, RECENT // 2))


def test_exactly_one_probe_when_the_pause_is_over(paused):
    assert not paused.probe_if_due(paused.until - 0.01)
    assert paused.probe_if_due(paused.until)
    assert not paused.probe_if_due(paused.until + 100)
    assert paused.flow is BreakerState.PROBING


def test_an_answered_probe_lets_it_flow_with_a_clean_slate(paused):
    paused.probe_if_due(paused.until)
    paused.answered(probe=True)
    assert (paused.flow, paused.cause) == (BreakerState.FLOWING, "")
    assert not any(fail(paused, FEWEST - 1))


def test_failed_probes_pause_longer_each_time_up_to_a_minute(paused):
    pauses = []
    for _ in range(9):
        now = paused.until
        paused.probe_if_due(now)
        assert paused.failed("k", "timeout", now, 0.0, probe=True)
        pauses.append(paused.until - now)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0]


def test_late_answers_of_attempts_before_the_pause_do_not_end_it(paused):
    """They were on the wire when it was paused; the probe decides."""
    until = paused.until
    paused.answered(probe=False)
    paused.failed("k", "timeout", 100.0, 0.5, probe=False)
    assert (paused.flow, paused.until) == (BreakerState.PAUSED, until)


def test_a_wait_that_was_asked_for_is_kept_to_the_second():
    """W6; and a shorter one that comes later does not shorten it."""
    endpoint = Endpoint()
    endpoint.asked_to_wait(30.0, "status-429")
    endpoint.asked_to_wait(20.0, "status-429")
    assert endpoint.until == 30.0
    assert "status-429" in endpoint.cause
    assert not endpoint.probe_if_due(29.9)
    assert endpoint.probe_if_due(30.0)


def test_a_probe_may_be_asked_to_wait_again():
    endpoint = Endpoint()
    endpoint.asked_to_wait(30.0, "status-429")
    endpoint.probe_if_due(30.0)
    endpoint.asked_to_wait(35.0, "status-429")
    assert (endpoint.flow, endpoint.until) == (BreakerState.PAUSED, 35.0)


def test_a_probe_that_never_left_is_made_again(paused):
    paused.probe_if_due(paused.until)
    paused.probe_came_to_nothing(paused.until + 1)
    assert not paused.probe_if_due(paused.until - 0.5)
    assert paused.probe_if_due(paused.until)


def test_with_nothing_to_probe_it_flows_but_remembers(paused):
    paused.probe_if_due(paused.until)
    paused.nothing_to_probe()
    assert paused.flow is BreakerState.FLOWING
    assert paused.failed("k", "timeout", 0.0, 0.5, probe=False)


def test_after_a_pause_it_starts_slowly(paused):
    """Issue 6: allowed attempts double from 1 as they are answered, so that a target that just came back
    is not met by all that waited for it."""
    paused.probe_if_due(paused.until)
    assert paused.allowed is None
    paused.answered(probe=True)
    seen = []
    for _ in range(15):
        seen.append(paused.allowed)
        paused.answered(probe=False)
    assert seen == [1] + [2] * 2 + [4] * 4 + [8] * 8


def test_the_slow_start_ends_at_the_cap_of_the_subscription(paused):
    paused.probe_if_due(paused.until)
    paused.answered(probe=True)
    for _ in range(63):
        paused.answered(probe=False)
    assert paused.allowed is None


def test_failures_do_not_hasten_the_slow_start(paused):
    paused.probe_if_due(paused.until)
    paused.answered(probe=True)
    fail(paused, FEWEST - 1)
    assert paused.allowed == 1


def test_what_the_sink_waited_for_ends_its_pause_at_once():
    endpoint = Endpoint()
    endpoint.asked_to_wait(3_600.0, "no consent", by_sink=True)
    endpoint.sink_is_ready(7.0)
    assert endpoint.probe_if_due(7.0)
    endpoint.sink_is_ready(7.0)
    assert endpoint.flow is BreakerState.PROBING


@pytest.mark.parametrize("first", [30.0, 3_600.0])
def test_a_pause_of_the_target_itself_is_kept_to_its_end(first):
    """W6: whichever of the two is longer, and whichever came first."""
    endpoint = Endpoint()
    for until, by_sink in sorted([(30.0, False), (3_600.0, True)], reverse=first > 30.0):
        endpoint.asked_to_wait(until, "a cause", by_sink=by_sink)
    endpoint.sink_is_ready(7.0)
    assert endpoint.until == 30.0


def test_nor_does_it_end_a_pause_that_the_breaker_chose(paused):
    until = paused.until
    paused.sink_is_ready(0.0)
    assert paused.until == until > 0.0


def test_a_requested_probe_that_fails_changes_nothing(paused):
    """However often it is pressed: the pause ends when it would have ended, and the next one is no longer."""
    before = paused.until
    for now in (0.1, 0.2, 0.3, 0.4):
        paused.retry(now, force=False)
        assert paused.probe_if_due(now)
        assert paused.failed("k", "status-500", now, 0.5, probe=True)
        assert paused.until == before
    assert not paused.doubtful
    assert paused.probe_if_due(before)
    paused.failed("k", "status-500", before, 0.5, probe=True)
    assert paused.until == before + 1.5  # the second pause, which doubles


def test_a_requested_probe_that_does_not_reach_the_target_changes_nothing(paused):
    before = paused.until
    paused.retry(0.1, force=False)
    paused.probe_if_due(0.1)
    assert paused.unreached("refused", 0.1, 0.5, probe=True) == before


@pytest.mark.parametrize("unreached", [False, True])
def test_a_request_during_a_probe_makes_the_next_one_due_when_it_fails(paused, unreached):
    """The probe in flight began before the target was repaired: a target that hung answers it late or never."""
    begin = paused.until
    assert paused.probe_if_due(begin)
    paused.retry(begin + 1, force=False)
    if unreached:
        paused.unreached("refused", begin + 30, 0.5, probe=True)
    else:
        paused.failed("k", "timeout", begin + 30, 0.5, probe=True)
    assert paused.probe_if_due(begin + 30)
    paused.failed("k", "status-500", begin + 30, 0.5, probe=True)
    assert paused.until == begin + 30 + 1.5  # the requested probe changed nothing
    assert not paused.probe_if_due(begin + 30)


@pytest.mark.parametrize("force", [False, True])
def test_a_retry_after_of_the_probe_in_flight_yields_to_force_alone(paused, force):
    begin = paused.until
    paused.probe_if_due(begin)
    paused.retry(begin, force=force)
    paused.asked_to_wait(begin + 3_600, "503 with Retry-After")
    assert paused.probe_if_due(begin + 1) is force


def test_a_request_during_a_probe_that_is_answered_asks_for_no_other_probe(paused):
    begin = paused.until
    paused.probe_if_due(begin)
    paused.retry(begin, force=False)
    paused.answered(probe=True)
    fail(paused, FEWEST, now=begin)
    assert not paused.probe_if_due(begin)


def test_a_requested_probe_that_is_answered_starts_slowly(paused):
    paused.retry(0.1, force=False)
    paused.probe_if_due(0.1)
    paused.answered(probe=True)
    assert (paused.flow, paused.allowed) == (BreakerState.FLOWING, 1)


def test_a_retry_after_yields_to_force_alone(paused):
    paused.asked_to_wait(3_600.0, "503 with Retry-After")
    paused.retry(1.0, force=False)
    assert paused.until == 3_600.0
    paused.retry(1.0, force=True)
    assert paused.probe_if_due(1.0)
    paused.failed("k", "status-500", 2.0, 0.5, probe=True)
    assert paused.until == 3_600.0


def test_a_new_retry_after_replaces_the_earlier_one(paused):
    paused.asked_to_wait(3_600.0, "503 with Retry-After")
    paused.retry(1.0, force=True)
    paused.probe_if_due(1.0)
    paused.asked_to_wait(31.0, "503 with Retry-After")
    assert paused.until == 31.0
    paused.retry(2.0, force=False)
    assert paused.until == 31.0
