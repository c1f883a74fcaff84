"""What a consumer of the embedded log does beyond the broker contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from app.bindings.record import Record
from app.brokers.embedded import (
    ConsumerSettings,
    DeclaredGroup,
    EmbeddedDriver,
    EngineSettings,
    GroupTimes,
    RetentionLimits,
    commit_rounds,
)
from app.brokers.embedded.commit_rounds import (
    PIGGYBACK_ROWS_A_SECOND,
    ROWS_A_SECOND,
    CommitRounds,
    Due,
)
from app.brokers.embedded.consumer import EmbeddedConsumer
from app.brokers.portable import PortableLog
from app.errors import BoundReached, PositionOutOfRange
from app.interfaces import Consumer
from app.log.groups.positions import CommittedOffset, Places
from app.model.message import Assigned, Lost, Message, Partition, Revoked
from app.model.receipt import Receipt
from app.model.start import EARLIEST, LATEST
from log_steps import ManualTime
from patience import PATIENT, PATIENT_GROUP
from waiting import until

TOPIC = "t"
PLACE = Partition(TOPIC, 0)


class Setup:
    """A log in a folder, opened as often as a test likes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.time = ManualTime()
        self.driver: EmbeddedDriver
        self.log: PortableLog

    async def open(
        self, consumers: ConsumerSettings, *, partitions: int = 1, **settings: object
    ) -> PortableLog:
        if consumers.times == GroupTimes():
            consumers = replace(consumers, times=PATIENT_GROUP)
        engine = EngineSettings(
            path=self.folder,
            partitions=partitions,
            now_ms=self.time,
            retention_interval=3600,
            **settings,
        )
        self.driver = EmbeddedDriver(engine, consumers)
        self.log = PortableLog(self.driver, PATIENT)
        await self.log.start()
        return self.log

    async def publish(self, *bodies: bytes) -> None:
        for body in bodies:
            (result,) = await self.log.submit(TOPIC, [Record(None, (), body)])
            assert isinstance(result, Receipt)

    def committed(self, group: str) -> int:
        return self.driver.engine.groups.positions.of(group)[PLACE].offset


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[Setup]:
    setup = Setup(tmp_path / "log")
    yield setup
    await setup.log.stop()


async def messages_of(consumer: Consumer, count: int) -> list[Message]:
    got: list[Message] = []
    async with asyncio.timeout(60):
        while len(got) < count:
            event = await consumer.poll(1.0)
            got += event if isinstance(event, tuple) else ()
    return got


async def change_of(consumer: Consumer, kind: type[Assigned | Revoked | Lost]) -> object:
    async with asyncio.timeout(60):
        while not isinstance(event := await consumer.poll(1.0), kind):
            pass
    return event


async def test_settled_messages_are_committed_by_themselves_while_others_are_open(
    setup: Setup,
) -> None:
    """After the interval, without anybody asking: what a kill repeats is bounded (rule 2)."""
    log = await setup.open(ConsumerSettings(commit_interval=0.02))
    await setup.publish(b"0", b"1")
    consumer = await log.subscribe("g", [TOPIC], EARLIEST)
    messages = await messages_of(consumer, 2)
    assert setup.committed("g") == 0
    await consumer.settle(messages[:1])
    await until(lambda: setup.committed("g") == 1)


async def test_a_group_with_nothing_open_commits_all_its_partitions_at_once(setup: Setup) -> None:
    """In one commit."""
    log = await setup.open(ConsumerSettings(commit_interval=0.05), partitions=4)
    await setup.publish(b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7")
    consumer = await log.subscribe("g", [TOPIC], EARLIEST)
    positions = setup.driver.engine.groups.positions
    committed: list[int] = []
    store = positions.store

    def counted(db: apsw.Connection, commits: Sequence[tuple[str, Places]]) -> Callable[[], None]:
        committed.extend(len(places) for _, places in commits)
        return store(db, commits)

    messages = await messages_of(consumer, 8)
    places = {message.partition for message in messages}
    positions.store = counted  # type: ignore[method-assign]
    await consumer.settle(messages[:3])
    await consumer.settle(messages[3:])
    await until(lambda: sum(each.offset for each in positions.of("g").values()) == 8)
    assert committed == [len(places)]


async def test_what_is_settled_goes_along_with_the_next_commit_group(setup: Setup) -> None:
    """Where a commit group is written anyway no interval is waited for, and no transaction is added."""
    log = await setup.open(ConsumerSettings(commit_interval=3600))
    await setup.publish(b"0", b"1", b"2")
    consumer = await log.subscribe("g", [TOPIC], EARLIEST)
    messages = await messages_of(consumer, 3)
    engine = setup.driver.engine
    transactions = 0

    def committing() -> bool:
        nonlocal transactions
        transactions += 1
        return False

    await engine._writer_or_raise().run(lambda db: db.set_commit_hook(committing))
    await consumer.settle([messages[0], messages[2]])
    assert setup.committed("g") == 0
    await setup.publish(b"3")
    assert engine.groups.positions.of("g")[PLACE] == CommittedOffset(1, "f1:1")
    assert transactions == 1
    await consumer.settle(messages[1:2])
    await asyncio.sleep(0)
    assert setup.committed("g") == 1


async def test_nothing_is_told_as_committed_before_it_is_in_the_file(setup: Setup) -> None:
    """Position and lag are those that a kill leaves (rule 2)."""
    log = await setup.open(ConsumerSettings(commit_interval=3600))
    await setup.publish(b"0", b"1")
    consumer = await log.subscribe("g", [TOPIC], EARLIEST)
    await consumer.settle(await messages_of(consumer, 2))

    async def told() -> tuple[str | None, int | None]:
        (one,) = (await log.metadata([TOPIC], {"g": [TOPIC]})).groups
        return one.committed, one.lag

    assert consumer.window(PLACE) == 0
    assert await told() == ("0", 2)
    await consumer.commit()
    assert await told() == ("2", 0)


def stored_at_once(_: object) -> asyncio.Future[None]:
    stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    stored.set_result(None)
    return stored


async def test_many_positions_in_a_round_put_the_next_one_off() -> None:
    """Thousands of groups that pass over a busy topic take a bounded share of the writer."""
    rounds = CommitRounds(0.05, stored_at_once)
    places = {Partition(TOPIC, n): CommittedOffset(1) for n in range(2 * ROWS_A_SECOND)}
    rounds.add(lambda: Due("g", places, lambda: None))
    rounds._round()
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    rounds.stir()
    assert rounds._timer is not None
    assert rounds._timer.when() - loop.time() > 1.0
    rounds.close()


async def test_rides_take_a_bounded_share_of_a_busy_log() -> None:
    """It writes thousands of commit groups a second; who stays behind goes when the interval is over."""
    rounds = CommitRounds(3600, stored_at_once)
    places = {Partition(TOPIC, n): CommittedOffset(1) for n in range(60 * PIGGYBACK_ROWS_A_SECOND)}
    committed: list[str] = []

    def due() -> Due:
        return Due("g", places, lambda: committed.append("g"))

    rounds.add(due)
    for _ in range(3):
        rounds.settled(due)
        rounds.piggyback()
        await asyncio.sleep(0)
    assert len(committed) == 1
    rounds._round()
    await asyncio.sleep(0)
    assert len(committed) == 2
    rounds.close()


async def test_a_commit_that_fails_is_made_up_for_later(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk may pass: what is settled must not be forgotten meanwhile (rule 8)."""
    log = await setup.open(ConsumerSettings(commit_interval=0.01))
    await setup.publish(b"0")
    consumer = await log.subscribe("g", [TOPIC], EARLIEST)
    messages = await messages_of(consumer, 1)
    failures, loop = asyncio.Event(), asyncio.get_running_loop()

    def refuse(*_: object) -> None:
        loop.call_soon_threadsafe(failures.set)
        raise BoundReached("full")

    monkeypatch.setattr(commit_rounds, "AGAIN_AFTER", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(setup.driver.engine.groups.positions, "store", refuse)
        await consumer.settle(messages)
        async with asyncio.timeout(60):
            await failures.wait()
        with pytest.raises(BoundReached):
            await consumer.commit()
    await until(lambda: setup.committed("g") == 1)


async def revoked_for_another(
    setup: Setup, commit_interval: float
) -> tuple[Consumer, list[Message], Consumer]:
    """Who read two messages, these, and to whom the partition goes next."""
    log = await setup.open(ConsumerSettings(commit_interval=commit_interval))
    await setup.publish(b"0", b"1")
    first = await log.subscribe("g", [TOPIC], EARLIEST)
    messages = await messages_of(first, 2)
    second = await log.subscribe("g", [TOPIC], EARLIEST)
    revoked = await change_of(first, Revoked)
    assert isinstance(revoked, Revoked)
    assert revoked.partitions == (PLACE,)
    return first, messages, second


async def test_what_is_settled_is_committed_on_revocation(setup: Setup) -> None:
    """The next owner must not repeat what is finished."""
    first, messages, second = await revoked_for_another(setup, 3600)
    assert first.holds(messages[0]), "ours until we ask for more"
    await first.settle(messages[:1])
    polls = asyncio.gather(first.poll(1.0), second.poll(1.0))
    await until(lambda: setup.committed("g") == 1)
    await polls
    assert not first.holds(messages[0])


async def test_settling_under_an_older_ownership_is_void(setup: Setup) -> None:
    """Who lost a partition and got it back has read it anew."""
    consumer, old, other = await revoked_for_another(setup, 0.01)
    await asyncio.gather(consumer.poll(0.2), other.close())
    again = await messages_of(consumer, 2)
    assert again[0].epoch > old[0].epoch
    await consumer.settle(old)
    assert consumer.window(PLACE) == 2
    await consumer.settle(again)
    assert consumer.window(PLACE) == 0


async def test_epochs_go_on_rising_after_a_restart(setup: Setup) -> None:
    """A store that fences by epoch must not refuse the newest owner (rule 5)."""
    epochs = []
    for _ in range(3):
        log = await setup.open(ConsumerSettings())
        await setup.publish(b"x")
        consumer = await log.subscribe("g", [TOPIC], EARLIEST)
        epochs.append((await messages_of(consumer, 1))[0].epoch)
        await log.stop()
    assert epochs == sorted(set(epochs))


async def one_taken(setup: Setup, times: GroupTimes) -> tuple[PortableLog, Consumer, Message]:
    """A log with one message, the consumer that has it, and the message."""
    log = await setup.open(ConsumerSettings(times=times))
    await setup.publish(b"0")
    consumer = await log.subscribe("g", [TOPIC], EARLIEST)
    (message,) = await messages_of(consumer, 1)
    return log, consumer, message


async def test_a_member_that_fell_silent_is_told_that_it_lost(setup: Setup) -> None:
    """A paused process comes back as a zombie: its partitions are gone, and it hears so (R12)."""
    times = GroupTimes(session_timeout=120.0, heartbeat_interval=0.05, rebalance_timeout=0.4)
    _, consumer, message = await one_taken(setup, times)
    assert isinstance(consumer, EmbeddedConsumer)
    member = consumer._membership
    setup.driver.engine.coordinator.leave("g", member.member)  # as an ended session would
    assert isinstance(await change_of(consumer, Lost), Lost)
    assert not consumer.holds(message)
    assigned = await change_of(consumer, Assigned)
    assert isinstance(assigned, Assigned)
    assert assigned.epoch > message.epoch
    assert [m.position for m in await messages_of(consumer, 1)] == [message.position]


async def test_a_lease_ends_without_heartbeats(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``holds`` trusts the monotonic clock alone (rule 5)."""
    times = GroupTimes(session_timeout=600.0, heartbeat_interval=3600)
    _, consumer, message = await one_taken(setup, times)
    assert consumer.holds(message)
    loop = asyncio.get_running_loop()
    later = loop.time() + 600.1
    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", lambda: later)
        assert not consumer.holds(message)
    assert consumer.holds(message)


async def test_a_consumer_that_does_not_react_gives_up_after_the_bound(setup: Setup) -> None:
    """One stuck member must not hold up the group for ever (R13)."""
    times = GroupTimes(session_timeout=1.0, heartbeat_interval=0.02, rebalance_timeout=0.1)
    log, stuck, message = await one_taken(setup, times)
    other = await log.subscribe("g", [TOPIC], EARLIEST, client_id="a")
    await until(lambda: not stuck.holds(message))
    await stuck.close()
    assert len(await messages_of(other, 1)) == 1


async def test_retention_that_passes_a_reader_stops_it(setup: Setup) -> None:
    """With ``drop_unread`` a slow subscription is told, and must not jump silently (rule 10)."""
    log = await setup.open(ConsumerSettings(), retention=RetentionLimits(max_age=10))
    await setup.publish(b"0", b"1")
    consumer = await log.subscribe("g", [TOPIC], EARLIEST)
    await consumer.close()
    await setup.driver.declare([DeclaredGroup("g", (TOPIC,), drop_unread=True)])
    setup.time.now_ms += 60_000
    assert await setup.driver.engine.upkeep.retain() == 1
    consumer = await log.subscribe("g", [TOPIC], LATEST)
    with pytest.raises(PositionOutOfRange):
        await messages_of(consumer, 1)


async def test_subscribing_keeps_the_unread_from_retention(setup: Setup) -> None:
    """A subscription is declared by being made."""
    log = await setup.open(ConsumerSettings(), retention=RetentionLimits(max_age=10))
    consumer = await log.subscribe("g", [TOPIC], EARLIEST)
    await setup.publish(b"0", b"1")
    setup.time.now_ms += 60_000
    assert await setup.driver.engine.upkeep.retain() == 0
    messages = await messages_of(consumer, 2)
    await consumer.settle(messages)
    await consumer.commit()
    assert await setup.driver.engine.upkeep.retain() == 1


async def test_a_topic_that_comes_later_is_read_from_its_beginning(setup: Setup) -> None:
    """Subscribing makes the topic: what is published next must not be missed, whatever the start."""
    log = await setup.open(ConsumerSettings())
    consumer = await log.subscribe("g", ["not-there-yet"], LATEST)
    await log.submit("not-there-yet", [Record(None, (), b"first")])
    (message,) = await messages_of(consumer, 1)
    assert message.record.body == b"first"


async def test_a_waiting_consumer_is_woken_by_the_writer(setup: Setup) -> None:
    """A tail waits on a notification, not on polling: the event is there at once."""
    log = await setup.open(ConsumerSettings())
    consumer = await log.subscribe("g", [TOPIC], EARLIEST)
    await change_of(consumer, Assigned)
    polling = asyncio.create_task(consumer.poll(3600.0))
    await setup.publish(b"0")
    async with asyncio.timeout(60):
        assert isinstance(await polling, tuple)
