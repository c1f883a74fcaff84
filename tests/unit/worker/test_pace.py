"""The rate that a target allows (``Sink.pace``): kept to, used, and nobody's fault."""

from __future__ import annotations

import pytest

from app.delivery.rate import RateLimit
from app.interfaces import SinkAnswer
from waiting import until
from worker_doubles import ScriptedSink, an_event


class PacedSink(ScriptedSink):
    """``begun_at``: when each attempt began."""

    def __init__(self, clock, per_minute):
        super().__init__()
        self.clock, self.limit, self.begun_at = clock, RateLimit(per_minute), []

    def pace(self):
        return self.limit.wait(self.clock.monotonic())

    def begin(self, decoded, within, on_answer):
        self.count()
        return super().begin(decoded, within, on_answer)

    async def send(self, request):
        self.count()
        return await super().send(request)

    def count(self):
        self.limit.take(self.clock.monotonic())
        self.begun_at.append(self.clock.monotonic())


@pytest.mark.parametrize("per_minute", [6, 120])
@pytest.mark.parametrize("begins", [False, True])
async def test_the_rate_is_kept_and_used(rig, per_minute, begins):
    """WebHook-Allowed-Rate (spec 5.3), with more lanes ready than may be sent to."""
    rig.sink = PacedSink(rig.clock, per_minute)
    rig.sink.begins = begins
    await rig.publish(*(an_event(n, f"k{n}") for n in range(3 * per_minute)))
    await rig.begin(concurrency=16)
    await until(lambda: len(rig.sink.begun_at) > 0)
    for _ in range(60):
        await rig.clock.advance(1)
    begun = rig.sink.begun_at
    first_minute = [at for at in begun if at < begun[0] + 60]
    assert 0.9 * per_minute <= len(first_minute) <= per_minute
    assert rig.status.state == "running"
    assert rig.store.letters.rows == []


async def test_a_sink_that_asks_to_be_left_alone_is_and_no_event_pays(rig):
    """Nothing was sent: no step of the schedule, and the cause in the status."""
    rig.sink.default = SinkAnswer(None, "no-consent", "the webhook did not consent", hold=30.0)
    await rig.publish(an_event(0), an_event(1, "other"))
    await rig.begin(retry={"schedule": ["1s"], "retry_after_max": "0s"}, concurrency=1)
    for _ in range(5):
        await rig.clock.advance(30)
    assert rig.status.state == "paused"
    assert rig.status.cause == "the webhook did not consent"
    assert rig.store.letters.rows == []
    rig.sink.default = SinkAnswer(204)
    await rig.clock.advance(30)
    await rig.committed(2)


async def test_what_a_sink_waits_for_wakes_those_who_wait_at_once(rig):
    """Consent by callback (spec 5.3): not a second of the hour that it might have taken is waited for."""
    rig.sink.default = SinkAnswer(None, "no-consent", "the webhook did not consent", hold=3_600.0)
    await rig.publish(an_event(0), an_event(1, "other"))
    await rig.begin()
    await rig.state("paused")
    rig.sink.default = SinkAnswer(204)
    rig.sink.ready()
    await rig.committed(2)
    assert rig.store.letters.rows == []


def looks(rig):
    """How often it was asked what is due; each time costs a turn of the loop."""
    courier, counted = rig.dispatcher._components.scheduler, []
    act = courier.act

    def asked(now):
        counted.append(now)
        return act(now)

    courier.act = asked
    return counted


async def test_a_pause_that_is_over_before_the_rate_allows_costs_nothing(rig):
    """Nothing may begin until both let it: the loop is not asked again and again meanwhile."""
    rig.log.clock = rig.clock
    rig.sink.answer(0, SinkAnswer(503, retry_after="2"))
    await rig.publish(an_event(0))
    await rig.begin(rate_limit="6/min")
    await rig.answered(0)
    counted = looks(rig)
    await rig.clock.advance(9)
    assert len(counted) < 10
    await rig.clock.advance(2)
    await rig.answered(0, 0)
