"""Bounds, the publish time-out, draining and errors around any driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from app.bindings.record import Record
from app.brokers.portable import PortableLog, PublishBounds, Submission, size_of
from app.errors import BoundReached, BrokerRefused, BrokerUnavailable, PublishUnknown
from app.interfaces import Log
from app.model.metadata import LogHealth
from app.model.receipt import Receipt
from fake_log import CAPABILITIES

STORED = Receipt("fake", "t", 0, "1")
RECORD = Record(b"key", (("name", b"value"), ("null", None)), b"body")


class FakeDriver:
    """Keeps what it is given; the test resolves it."""

    name = "fake"
    capabilities = replace(CAPABILITIES, generations=False, max_record=1_000)

    def __init__(self) -> None:
        self.taken: list[Submission] = []
        self.stopped = False
        self.error: Exception | None = None

    async def start(self) -> None: ...

    async def stop(self) -> None:
        self.stopped = True
        for submission in self.taken:
            submission.fail(BrokerUnavailable("stopped"))

    def publish(self, submission: Submission) -> None:
        self.taken.append(submission)

    async def subscribe(self, *arguments: Any) -> Any:
        raise AssertionError("not asked here")

    def read(self, *arguments: Any) -> Any:
        raise AssertionError("not asked here")

    async def metadata(self, *arguments: Any) -> Any:
        assert self.error is not None
        raise self.error

    async def create_topic(self, topic: str, partitions: int) -> None: ...

    async def check_targets(self, *arguments: Any) -> Any:
        raise AssertionError("not asked here")

    async def health(self) -> LogHealth:
        if self.error is not None:
            raise self.error
        return LogHealth(healthy=True)

    def translate(self, error: Exception) -> BrokerUnavailable | None:
        return BrokerUnavailable("away") if isinstance(error, ConnectionError) else None


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


async def started(driver: FakeDriver, **bounds: Any) -> PortableLog:
    log = PortableLog(driver, PublishBounds(**bounds))
    await log.start()
    return log


@pytest.fixture
async def quick(driver: FakeDriver) -> AsyncIterator[PortableLog]:
    """A log with a publish time-out that a test can wait for."""
    log = await started(driver, publish_timeout=0.05, drain_timeout=0.05)
    yield log
    await log.stop()


async def test_results_come_in_the_order_of_the_records(
    driver: FakeDriver, quick: PortableLog
) -> None:
    """Fates belong to records, in whatever order the broker answers."""
    future = quick.submit("t", [RECORD] * 3)
    refused = BrokerRefused("no")
    (submission,) = driver.taken
    submission.resolve(2, STORED)
    submission.resolve(0, refused)
    assert not future.done()
    submission.resolve(1, STORED)
    assert await future == [refused, STORED, STORED]
    assert (quick.stats().stored, quick.stats().failed) == (2, 1)


async def test_no_answer_in_time_is_unknown_and_known_fates_are_kept(
    driver: FakeDriver, quick: PortableLog
) -> None:
    """A time-out is not a failure (rule 9), and a partly stored batch says which part."""
    future = quick.submit("t", [RECORD, RECORD])
    driver.taken[0].resolve(1, STORED)
    unknown, stored = await future
    assert isinstance(unknown, PublishUnknown)
    assert unknown.retry_after == 1.0
    assert stored is STORED
    assert quick.stats().timed_out == 1


async def test_what_timed_out_fills_the_bound_until_the_driver_lets_go(
    driver: FakeDriver, quick: PortableLog
) -> None:
    """Else a stalled broker would let memory grow with every time-out (reliability R7)."""
    future = quick.submit("t", [RECORD])
    await future
    assert quick.stats().records_in_flight == 1
    driver.taken[0].resolve(0, STORED)
    assert (quick.stats().records_in_flight, quick.stats().bytes_in_flight) == (0, 0)
    (answer,) = future.result()
    assert isinstance(answer, PublishUnknown), "the caller was answered: it stays so"


async def test_one_record_has_its_fate_in_the_step_that_knows_it(
    driver: FakeDriver, quick: PortableLog
) -> None:
    """No callback through the loop: a bundle of fates is a bundle of answers."""
    fates: list[object] = []
    assert quick.submit_one("t", RECORD, fates.append) is None
    assert fates == []
    driver.taken[0].resolve(0, STORED)
    assert fates == [STORED]
    assert (quick.stats().stored, quick.stats().records_in_flight) == (1, 0)


async def test_a_fate_known_at_once_is_returned_and_told_to_nobody(driver: FakeDriver) -> None:
    """So that nobody is answered twice."""
    fates: list[object] = []
    log = await started(driver, records=1)
    assert log.submit_one("t", RECORD, fates.append) is None
    assert isinstance(log.submit_one("t", RECORD, fates.append), BoundReached)
    refused = BrokerRefused("no")
    driver.publish = lambda submission: submission.fail(refused)  # type: ignore[method-assign]
    driver.taken[0].resolve(0, STORED)
    assert log.submit_one("t", RECORD, fates.append) is refused
    assert fates == [STORED]
    await log.stop()


async def test_one_record_without_an_answer_in_time_is_unknown_once(
    driver: FakeDriver, quick: PortableLog
) -> None:
    """Rule 9: what the driver learns later is no second answer."""
    told: asyncio.Queue[object] = asyncio.Queue()
    quick.submit_one("t", RECORD, told.put_nowait)
    assert isinstance(await told.get(), PublishUnknown)
    assert quick.stats().records_in_flight == 1
    driver.taken[0].resolve(0, STORED)
    assert told.empty()
    assert quick.stats().records_in_flight == 0


async def test_who_fails_when_told_keeps_nobody_else_waiting(
    driver: FakeDriver, quick: PortableLog, caplog: pytest.LogCaptureFixture
) -> None:
    """One bundle has the fates of many callers."""
    fates: list[object] = []

    def fail(_: object) -> None:
        raise RuntimeError("a defect of the caller")

    quick.submit_one("t", RECORD, fail)
    quick.submit_one("t", RECORD, fates.append)
    for submission in driver.taken:
        submission.resolve(0, STORED)
    assert fates == [STORED]
    assert "a defect of the caller" in caplog.text


async def test_who_is_told_may_submit_again_in_the_same_step(
    driver: FakeDriver, quick: PortableLog
) -> None:
    """The next request of a connection begins when one is answered."""
    fates: list[object] = []

    def again(fate: object) -> None:
        fates.append(fate)
        quick.submit_one("t", RECORD, fates.append)

    quick.submit_one("t", RECORD, again)
    driver.taken[0].resolve(0, STORED)
    driver.taken[1].resolve(0, BrokerRefused("no"))
    assert [type(fate) for fate in fates] == [Receipt, BrokerRefused]


async def test_a_log_without_a_shorter_way_publishes_one_record_as_many(
    driver: FakeDriver, quick: PortableLog
) -> None:
    """Whatever stands between a publisher and a log needs ``submit`` alone."""
    told: asyncio.Queue[object] = asyncio.Queue()
    assert Log.submit_one(quick, "t", RECORD, told.put_nowait) is None
    driver.taken[0].resolve(0, STORED)
    assert await told.get() is STORED


async def test_one_timer_serves_every_publish(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timer an event would cost more than the event."""
    loop = asyncio.get_running_loop()
    log = await started(driver)
    timers: list[float] = []
    call_at = loop.call_at
    monkeypatch.setattr(
        loop, "call_at", lambda when, *rest: timers.append(when) or call_at(when, *rest)
    )
    for _ in range(100):
        log.submit("t", [RECORD])
    assert len(timers) == 1
    await_all = [submission.resolve_all([STORED]) for submission in driver.taken]
    assert len(await_all) == 100
    await log.stop()


async def test_each_publish_times_out_at_its_own_time(
    driver: FakeDriver, quick: PortableLog
) -> None:
    """The one timer goes on for those that came later."""
    first = quick.submit("t", [RECORD])
    await first
    second = quick.submit("t", [RECORD])
    (answer,) = await second
    assert isinstance(answer, PublishUnknown)


@pytest.mark.parametrize("bounds", [{"records": 2}, {"bytes": 2 * size_of(RECORD)}])
async def test_a_full_bound_refuses_and_opens_again(
    driver: FakeDriver, bounds: dict[str, int]
) -> None:
    """Both bounds, records and bytes; nothing of the refused reaches the driver (rule 8)."""
    log = await started(driver, **bounds)
    held = log.submit("t", [RECORD, RECORD])
    (answer,) = await log.submit("t", [RECORD])
    assert isinstance(answer, BoundReached)
    assert len(driver.taken) == 1
    driver.taken[0].resolve_all([STORED, STORED])
    assert await held == [STORED, STORED]
    again = log.submit("t", [RECORD])
    assert not again.done()
    driver.taken[1].resolve_all([STORED])
    assert log.stats().refused == 1
    await log.stop()


async def test_the_size_of_a_record_counts_key_names_and_values() -> None:
    """The bound is on what is kept in memory, headers included."""
    assert size_of(RECORD) == len(b"key") + len("name") + len(b"value") + len("null") + len(b"body")
    assert size_of(Record(None, (), None)) == 0


async def test_a_record_too_large_is_refused_alone(driver: FakeDriver, quick: PortableLog) -> None:
    """By its kind, so that the answer can say so."""
    (answer,) = await quick.submit("t", [Record(None, (), bytes(1_001))])
    assert isinstance(answer, BrokerRefused)
    assert answer.kind == "record-too-large"
    assert driver.taken == []


async def test_a_caller_that_goes_away_leaves_nothing_behind(
    driver: FakeDriver, quick: PortableLog
) -> None:
    """A disconnected client cancels; the driver sees it and drops what is not sent (rule 9)."""
    future = quick.submit("t", [RECORD])
    future.cancel()
    (submission,) = driver.taken
    assert submission.done()
    submission.resolve(0, BrokerUnavailable("not sent"))
    assert quick.stats().records_in_flight == 0


async def test_stop_waits_for_what_is_under_way(driver: FakeDriver) -> None:
    """SIGTERM loses no accepted event (reliability G6)."""
    log = await started(driver)
    future = log.submit("t", [RECORD])
    stopping = asyncio.create_task(log.stop())
    await asyncio.sleep(0)
    assert not driver.stopped
    (refused,) = await log.submit("t", [RECORD])
    assert isinstance(refused, BrokerUnavailable)
    driver.taken[0].resolve_all([STORED])
    await stopping
    assert await future == [STORED]
    assert driver.stopped


async def test_stop_waits_no_longer_than_its_bound(driver: FakeDriver) -> None:
    """A broker that never answers must not hold up the process."""
    log = await started(driver, drain_timeout=0.01)
    future = log.submit("t", [RECORD])
    await log.stop()
    (answer,) = await future
    assert isinstance(answer, BrokerUnavailable)


async def test_nothing_to_publish_is_done_at_once(driver: FakeDriver, quick: PortableLog) -> None:
    """An empty batch is legal."""
    assert await quick.submit("t", []) == []
    assert driver.taken == []


async def test_a_vendors_error_is_explained_and_a_bug_is_not_hidden(
    driver: FakeDriver, quick: PortableLog
) -> None:
    """Callers see our errors; anything else may say that it is a bug."""
    driver.error = ConnectionError("refused")
    with pytest.raises(BrokerUnavailable):
        await quick.metadata()
    assert (await quick.health()).cause == "away"
    driver.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await quick.metadata()


async def test_one_timer_waits_whatever_callers_do_when_they_are_told(driver: FakeDriver) -> None:
    """A connection with pipelined requests publishes the next one in the step that tells it of the last."""
    log = await started(driver, publish_timeout=0.02)
    loop = asyncio.get_running_loop()
    real, times = log._on_deadline, 0

    def counted() -> None:
        nonlocal times
        times += 1
        real()

    log._on_deadline = counted  # type: ignore[method-assign]
    told = 0

    def again(_: object) -> None:
        nonlocal told
        told += 1
        if told < 200:
            log.submit_one("t", RECORD, again)

    for _ in range(5):
        log.submit_one("t", RECORD, again)
        await asyncio.sleep(0.003)
    async with asyncio.timeout(60):
        while told < 200:
            await asyncio.sleep(0.01)
    assert times <= told + 5, "each firing tells of at least one record"
    assert loop is log._loop
    await log.driver.stop()
