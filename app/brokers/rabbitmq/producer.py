"""Records in, fates out: one channel with confirms, a window of what is on the wire, and a watchdog.

Whatever was submitted in one turn of the loop leaves in one write. A record is answered when its
confirm comes; without one the connection is given up, and the next sends only what is unanswered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from random import random

from app.brokers.driver import DROPPED, Submission, answer, unanswered
from app.brokers.member import pause_for
from app.brokers.rabbitmq.aiormq_adapter import AbstractChannel, Confirms, DeliveredMessage, amqp
from app.brokers.rabbitmq.connection import Wire, close_channel, connect
from app.brokers.rabbitmq.errors import EXPECTED, words
from app.brokers.rabbitmq.failed_publish import find_culprits, rejected, rejects_a_record
from app.brokers.rabbitmq.frames import TooLarge, content
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.targets import Batchers, Targets
from app.brokers.rabbitmq.topology import Topology
from app.brokers.rabbitmq.unconfirmed import Entry, Unconfirmed
from app.errors import BoundReached, BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown
from app.model.metadata import Health
from app.telemetry.tasks import keep

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between attempts to connect
START_WITHIN = 5.0
RECOVERY = 10.0  # seconds that a broker which was away may take to have its queues back
LOOKS = 8  # of the watchdog, within the time that a confirm may take


class Producer:
    """Publishes through one connection after another. All on the event loop."""

    def __init__(self, settings: RabbitSettings, topology: Topology) -> None:
        self.settings = settings
        self.name = settings.name
        self.targets = Targets(settings, topology, self._join)
        self._wire: Wire | None = None
        self._channel: AbstractChannel | None = None
        self._unconfirmed = Unconfirmed(settings.name)
        self._again: deque[Entry] = deque()  # was on a wire that is gone; nobody knows its fate
        self._queue: deque[Entry] = deque()
        self._suspects = (
            0  # records that go out one by one, until the one that the broker rejects is alone
        )
        self._cause = ""  # why there is no connection
        self._certain_from = 0.0  # of the loop's clock: from then on what has no route has none
        self._shipping = False  # a shipment is scheduled
        self._progress = 0.0  # when a confirm came last, or the first of a run left
        self._tried = asyncio.Event()  # one attempt to connect has ended
        self._broken: asyncio.Future[BaseException] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when the first attempt has ended, or soon: it heals by itself."""
        self._task = keep("rabbitmq-producer", self._run, of=self.name)
        if not await pause_for(self._tried, START_WITHIN):
            self._cause = self._cause or "no answer yet"

    async def stop(self) -> None:
        """What is queued is told that it was not sent, what is on the wire that nobody knows."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.targets.stop()
        self._again.extend(self._unconfirmed.unload())
        self._give_up(BrokerUnavailable(f"log {self.name} has stopped", broker=self.name))

    def publish(self, submission: Submission) -> None:
        wire, batchers = self._wire, self.targets.known.get(submission.topic)
        if wire is None and self._cause:
            submission.fail(self._unavailable())
        elif wire is not None and wire.blocked:
            submission.fail(self._blocked(wire.blocked))
        elif batchers is None or wire is None or batchers.found_on != wire.number:
            self.targets.ask(submission)
        else:
            self._join(batchers, submission)

    async def health(self) -> Health:
        """Asks the broker, so that an idle producer knows too."""
        wire = self._wire
        if wire is not None and wire.blocked:
            return Health(healthy=False, cause=str(self._blocked(wire.blocked)))
        if wire is not None and not self._cause:
            try:
                await wire.probe()
            except EXPECTED as error:
                return Health(healthy=False, cause=self._away_text(error))
        return Health(healthy=not self._cause, cause=self._cause)

    def _join(self, batchers: Batchers, submission: Submission) -> None:
        queue = self._queue
        for index, record in enumerate(submission.records):
            queue.append((submission, index, record, batchers, batchers.partition(record.key)))
        batchers.move_on()
        self._schedule()

    def _schedule(self) -> None:
        if not self._shipping:
            self._shipping = True
            asyncio.get_running_loop().call_soon(self._ship)

    def _ship(self) -> None:
        """Everything that the window has room for, in one write."""
        self._shipping = False
        wire, channel = self._wire, self._channel
        if wire is None or channel is None or wire.blocked or channel.is_closed:
            return
        unconfirmed, settings = self._unconfirmed, self.settings
        first, window = not unconfirmed, 1 if self._suspects else settings.window
        out: list[bytes] = []
        for queue in (self._again, self._queue):
            while queue and len(unconfirmed) < window and unconfirmed.bytes < settings.window_bytes:
                self._suspects = max(0, self._suspects - 1)
                self._load(queue.popleft(), wire, channel, out)
        if not out:
            return
        if first:
            self._progress = asyncio.get_running_loop().time()
        wire.write(b"".join(out))
        if not settings.confirms:
            unconfirmed.confirmed(unconfirmed.tag, multiple=True, stored=True)

    def _load(self, entry: Entry, wire: Wire, channel: AbstractChannel, out: list[bytes]) -> None:
        submission, index, record, batchers, partition = entry
        if submission.done():  # rule 9: what is not on the wire is dropped
            submission.resolve(index, DROPPED)
            return
        try:
            frames = content(record, channel.number, wire.frame_max)
            method = batchers.method(channel.number, partition)
        except Exception as error:  # noqa: BLE001 - a gap here would shift the tags of all behind it
            kind = "record-too-large" if isinstance(error, TooLarge) else "unwritable"
            refusal = BrokerRefused(f"no AMQP message: {error}", kind=kind, broker=self.name)
            submission.resolve(index, refusal)
            return
        out += (method, frames)
        self._unconfirmed.board(entry, len(frames))

    def _confirmed(self, tag: int, multiple: bool, stored: bool) -> None:
        self._unconfirmed.confirmed(tag, multiple, stored)
        self._progress = asyncio.get_running_loop().time()
        if self._queue or self._again:
            self._schedule()

    async def _run(self) -> None:
        delay = FIRST_DELAY
        while True:
            try:
                wire = await connect(self.settings, changed=self._blocked_changed)
            except Exception as error:
                self._lose(error)
                if not isinstance(error, EXPECTED):
                    raise
                await asyncio.sleep(delay * (0.5 + random() / 2))  # noqa: S311 - spread, no secret
                delay = min(delay * 2, LONGEST_DELAY)
                continue
            try:
                await self._publish_through(wire)
            except EXPECTED as error:
                self._cause = self._away_text(error)
                log.warning("the connection to RabbitMQ %s is lost: %s", self.name, words(error))
            finally:
                self._wire = self.targets.wire = self._channel = None
                self._put_back()
                await wire.drop()
            delay = FIRST_DELAY
            await asyncio.sleep(FIRST_DELAY * random())  # noqa: S311 - spread, no secret

    async def _publish_through(self, wire: Wire) -> None:
        """One channel after another, until the connection is gone: then it raises why."""
        while True:
            self._broken = asyncio.get_running_loop().create_future()
            channel = await self._open(wire)
            watching = keep("rabbitmq-confirms", partial(self._watch, wire), of=self.name)
            try:
                error = await self._broken
            finally:
                watching.cancel()
                self._channel = None
            if wire.is_closed or not isinstance(error, amqp.ChannelClosed):
                raise error
            log.warning("RabbitMQ %s closed a channel: %s", self.name, words(error))
            self._judge(error)
            await close_channel(channel)

    async def _open(self, wire: Wire) -> AbstractChannel:
        hot = Confirms(self._confirmed, self._flight_returned)
        async with asyncio.timeout(self.settings.request_timeout):
            channel = await wire.open_channel(hot, confirms=self.settings.confirms)
        self._unconfirmed = Unconfirmed(
            self.name,
            self._certain,
            made=self.targets.is_made,
            in_turn=self.settings.kind == "stream",
        )
        if wire is not self._wire and self._cause:
            self._certain_from = asyncio.get_running_loop().time() + RECOVERY
        channel.closing.add_done_callback(self._closed)
        self._channel = channel
        self._wire = self.targets.wire = wire
        self._cause = ""
        self._tried.set()
        self._schedule()
        return channel

    def _certain(self, batchers: Batchers) -> bool:
        """Whether what leads nowhere will lead nowhere. A node that starts accepts connections before its
        streams have leaders, and until then it returns what goes there as if there were no queue."""
        if self._wire is None or batchers.found_on != self._wire.number:
            return False  # nobody has asked for its queues since
        now = asyncio.get_running_loop().time()
        return batchers.target.is_seen_whole or now >= self._certain_from

    def _flight_returned(self, message: DeliveredMessage) -> None:
        self._unconfirmed.returned(message)
        self.targets.came_back(message.exchange or "")

    def _closed(self, closing: asyncio.Future[None]) -> None:
        error = None if closing.cancelled() else closing.exception()
        self._break(error or ConnectionError("the channel was closed"))

    def _break(self, error: BaseException) -> None:
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(error)

    async def _watch(self, wire: Wire) -> None:
        """A broker that has stopped to confirm is given up. One that blocks its publishers says so,
        and goes on by itself: what it has of us by then it would store either way."""
        within = self.settings.request_timeout
        overtaken = 0
        while True:
            await asyncio.sleep(within / LOOKS)
            self.targets.look()
            before, overtaken = overtaken, self._unconfirmed.overtaken()
            if overtaken and overtaken == before:
                self._break(TimeoutError("a stream confirmed records out of their order"))
            waited = asyncio.get_running_loop().time() - self._progress
            if self._unconfirmed and not wire.blocked and waited > within:
                self._break(TimeoutError(f"no confirm for {waited:.1f} s"))

    def _blocked_changed(self) -> None:
        wire = self._wire
        if wire is None:
            return
        self._progress = asyncio.get_running_loop().time()
        if wire.blocked:
            log.warning("%s", self._blocked(wire.blocked))
            self._give_up(self._blocked(wire.blocked))
        else:
            log.warning("RabbitMQ %s accepts publishes again", self.name)
            self._schedule()

    def _judge(self, error: BaseException) -> None:
        """A publish closed the channel: its kind is answered, the others go out again."""
        if rejects_a_record(error):
            self._suspect(error)
            return
        culprits = find_culprits(error, self.name, self.targets)
        self._put_back()
        kept: deque[Entry] = deque()
        for entry in self._again:
            refusal = culprits(entry)
            if refusal is None:
                kept.append(entry)
            else:
                entry[0].resolve(entry[1], refusal)
        self._again = kept

    def _suspect(self, error: BaseException) -> None:
        """Refuse the record that was alone on the wire; of several, send one at a time from now on."""
        suspects = unanswered(self._unconfirmed.unload())
        if len(suspects) == 1:
            submission, index, *_ = suspects[0]
            submission.resolve(index, rejected(error, self.name, suspects[0]))
            return
        self._suspects = len(suspects)
        self._again.extendleft(reversed(suspects))

    def _put_back(self) -> None:
        """What was on the wire and is unanswered goes out again first, in its order."""
        self._again.extendleft(reversed(unanswered(self._unconfirmed.unload())))

    def _lose(self, error: BaseException) -> None:
        cause, self._cause = self._cause, self._away_text(error)
        if self._cause != cause:
            log.warning("%s", self._cause)
        self._tried.set()
        self._give_up(self._unavailable())
        self.targets.give_up(self._unavailable())

    def _give_up(self, error: BrokerError) -> None:
        """What was on a wire may be stored, what was not is not."""
        unknown = PublishUnknown(f"on the wire when it was lost: {error}", broker=self.name)
        again, self._again = self._again, deque()
        queue, self._queue = self._queue, deque()
        answer(again, unknown)
        answer(queue, error)

    def _unavailable(self) -> BrokerError:
        return BrokerUnavailable(self._cause, broker=self.name)

    def _blocked(self, reason: str) -> BoundReached:
        return BoundReached(
            f"RabbitMQ {self.name} accepts no publishes now: {reason} (free memory or disk there)",
            broker=self.name,
        )

    def _away_text(self, error: BaseException) -> str:
        return (
            f"RabbitMQ {self.name} cannot be reached at {self.settings.addresses}: {words(error)}"
            " (is it running, and are address and credentials right?)"
        )
