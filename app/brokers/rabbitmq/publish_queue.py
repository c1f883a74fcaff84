"""Records that wait to be published or confirmed. They are sent in their order, and each is resolved by its
confirm.

Records that were submitted in one step of the event loop are sent with one write. After a connection was
lost, its unconfirmed records are sent again before all others.
"""

from __future__ import annotations

import asyncio
from collections import deque

from app.brokers.driver import DROPPED, Submission, answer, unanswered
from app.brokers.rabbitmq.aiormq_adapter import AbstractChannel
from app.brokers.rabbitmq.connection import RabbitConnection
from app.brokers.rabbitmq.failed_publish import find_culprits, rejected, rejects_a_record
from app.brokers.rabbitmq.frames import HeadersTooLarge, content
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.targets import RabbitTargets, TargetPartitions
from app.brokers.rabbitmq.unconfirmed import Entry, UnconfirmedRecords
from app.errors import BrokerError, BrokerRefused, PublishUnknown


class PublishQueue:
    """The queue of records to publish, and the records in flight.

    Attributes:
        connection: The connection in use, or None.
        channel: The channel in use, or None.
        progress: The time of the last confirm, by the event loop's clock, or of the first record after an
            idle time.
        rejecting: Whether the broker has rejected a record on this channel.
        settled: Set by a confirm after which no record is in flight.
    """

    def __init__(self, settings: RabbitSettings) -> None:
        self.name = settings.name
        self.settings = settings
        self.connection: RabbitConnection | None = None
        self.channel: AbstractChannel | None = None
        self.unconfirmed = UnconfirmedRecords(settings.name)
        self.resend: deque[Entry] = (
            deque()
        )  # records from a lost connection, whose result is unknown
        self.progress = 0.0
        self.rejecting = False
        self.settled = asyncio.Event()
        self._queue: deque[Entry] = deque()
        self._suspects = 0  # records that are sent one by one to find the rejected one
        self._shipping = False  # whether ``_ship`` is scheduled

    def open(
        self,
        connection: RabbitConnection,
        channel: AbstractChannel,
        unconfirmed: UnconfirmedRecords,
    ) -> None:
        """Use this channel from now on."""
        self.connection, self.channel, self.unconfirmed = connection, channel, unconfirmed
        self.rejecting = False
        self.progress = asyncio.get_running_loop().time()
        self.schedule()

    def close(self) -> None:
        """Use no channel until the next ``open``, because the connection has ended."""
        self.connection = self.channel = None
        self.requeue_unconfirmed()

    @property
    def is_empty(self) -> bool:
        """Return True if no record waits to be sent or confirmed."""
        return not (self.unconfirmed or self.resend or self._queue)

    def add(self, entry: Entry) -> None:
        """Queue one record."""
        self._queue.append(entry)
        self.schedule()

    def join(self, batchers: TargetPartitions, submission: Submission) -> None:
        queue = self._queue
        for index, record in enumerate(submission.records):
            queue.append((submission, index, record, batchers, batchers.partition(record.key)))
        batchers.move_on()
        self.schedule()

    def schedule(self) -> None:
        if not self._shipping:
            self._shipping = True
            asyncio.get_running_loop().call_soon(self._ship)

    def _ship(self) -> None:
        """Send queued records in one write, as many as the limits of unconfirmed records permit."""
        self._shipping = False
        connection, channel = self.connection, self.channel
        if connection is None or channel is None or connection.blocked or channel.is_closed:
            return
        unconfirmed, settings = self.unconfirmed, self.settings
        first, window = not unconfirmed, 1 if self._suspects else settings.window
        out: list[bytes] = []
        number, frame_max = channel.number, connection.frame_max
        for queue in (self.resend, self._queue):
            while queue and len(unconfirmed) < window and unconfirmed.bytes < settings.window_bytes:
                self._suspects = max(0, self._suspects - 1)
                self._encode(queue.popleft(), number, frame_max, out)
        if not out:
            return
        if first:
            self.progress = asyncio.get_running_loop().time()
        connection.write(b"".join(out))
        if not settings.confirms:
            unconfirmed.confirmed(unconfirmed.tag, multiple=True, stored=True)

    def _encode(self, entry: Entry, channel: int, frame_max: int, out: list[bytes]) -> None:
        submission, index, record, batchers, partition = entry
        if submission.done():  # its caller has an answer, so it is not sent
            submission.resolve(index, DROPPED)
            return
        try:
            frames = content(record, channel, frame_max)
            method = batchers.method(channel, partition)
        except Exception as error:  # noqa: BLE001 - an unsent record here would shift the tags of later ones
            kind = "record-too-large" if isinstance(error, HeadersTooLarge) else "unwritable"
            refusal = BrokerRefused(
                f"the record cannot be written: {error}", kind=kind, broker=self.name
            )
            submission.resolve(index, refusal)
            return
        out += (method, frames)
        self.unconfirmed.add(entry, len(frames))

    def confirmed(self, tag: int, multiple: bool, stored: bool) -> None:
        self.unconfirmed.confirmed(tag, multiple, stored)
        self.rejecting = self.rejecting or not stored
        self.progress = asyncio.get_running_loop().time()
        if not self.unconfirmed:
            self.settled.set()
        if self._queue or self.resend:
            self.schedule()

    def on_channel_closed(self, error: BaseException, targets: RabbitTargets) -> None:
        """Handle a channel that a publish closed: fail the records at fault, and queue the others again."""
        if rejects_a_record(error):
            self._suspect(error)
            return
        culprits = find_culprits(error, self.name, targets)
        self.requeue_unconfirmed()
        kept: deque[Entry] = deque()
        for entry in self.resend:
            refusal = culprits(entry)
            if refusal is None:
                kept.append(entry)
            else:
                entry[0].resolve(entry[1], refusal)
        self.resend = kept

    def _suspect(self, error: BaseException) -> None:
        """Fail the record that was the only one in flight, because it made the broker close the channel. If
        several were in flight, send them one by one from now on."""
        suspects = unanswered(self.unconfirmed.remove_all())
        if len(suspects) == 1:
            submission, index, *_ = suspects[0]
            submission.resolve(index, rejected(error, self.name, suspects[0]))
            return
        self._suspects = len(suspects)
        self.resend.extendleft(reversed(suspects))

    def requeue_unconfirmed(self) -> None:
        """Queue unconfirmed records again, before all others and in their order."""
        self.resend.extendleft(reversed(unanswered(self.unconfirmed.remove_all())))

    def fail_all(self, error: BrokerError) -> None:
        """Fail all records. The result of records that were sent on a connection is "unknown", and that of
        the others is ``error``."""
        unknown = PublishUnknown(
            f"the record was in flight when the connection was lost: {error}", broker=self.name
        )
        resend, self.resend = self.resend, deque()
        queue, self._queue = self._queue, deque()
        answer(resend, unknown)
        answer(queue, error)
