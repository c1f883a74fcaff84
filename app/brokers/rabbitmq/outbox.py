"""What waits to be published, and what is on the wire: records go out in their order, each is answered by its confirm.

Whatever was submitted in one turn of the loop leaves in one write. What a wire takes with it goes out again first.
"""

from __future__ import annotations

import asyncio
from collections import deque

from app.brokers.driver import DROPPED, Submission, answer, unanswered
from app.brokers.rabbitmq.aiormq_adapter import AbstractChannel
from app.brokers.rabbitmq.connection import Wire
from app.brokers.rabbitmq.failed_publish import find_culprits, rejected, rejects_a_record
from app.brokers.rabbitmq.frames import TooLarge, content
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.targets import Batchers, Targets
from app.brokers.rabbitmq.unconfirmed import Entry, Unconfirmed
from app.errors import BrokerError, BrokerRefused, PublishUnknown


class Outbox:
    """``wire`` and ``channel``: what it writes to; None while there is none. ``progress``: loop time of the last confirm,
    or of the first record of a run."""

    def __init__(self, settings: RabbitSettings) -> None:
        self.name = settings.name
        self.settings = settings
        self.wire: Wire | None = None
        self.channel: AbstractChannel | None = None
        self.unconfirmed = Unconfirmed(settings.name)
        self.again: deque[Entry] = deque()  # was on a wire that is gone; its fate is unknown
        self.progress = 0.0
        self._queue: deque[Entry] = deque()
        self._suspects = 0  # records that go out one by one, until the rejected one is alone
        self._shipping = False  # a shipment is scheduled

    def open(self, wire: Wire, channel: AbstractChannel, unconfirmed: Unconfirmed) -> None:
        """Write to this channel from now on."""
        self.wire, self.channel, self.unconfirmed = wire, channel, unconfirmed
        self.schedule()

    def join(self, batchers: Batchers, submission: Submission) -> None:
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
        """Everything that the window has room for, in one write."""
        self._shipping = False
        wire, channel = self.wire, self.channel
        if wire is None or channel is None or wire.blocked or channel.is_closed:
            return
        unconfirmed, settings = self.unconfirmed, self.settings
        first, window = not unconfirmed, 1 if self._suspects else settings.window
        out: list[bytes] = []
        for queue in (self.again, self._queue):
            while queue and len(unconfirmed) < window and unconfirmed.bytes < settings.window_bytes:
                self._suspects = max(0, self._suspects - 1)
                self._load(queue.popleft(), wire, channel, out)
        if not out:
            return
        if first:
            self.progress = asyncio.get_running_loop().time()
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
        self.unconfirmed.board(entry, len(frames))

    def confirmed(self, tag: int, multiple: bool, stored: bool) -> None:
        self.unconfirmed.confirmed(tag, multiple, stored)
        self.progress = asyncio.get_running_loop().time()
        if self._queue or self.again:
            self.schedule()

    def judge(self, error: BaseException, targets: Targets) -> None:
        """A publish closed the channel: its kind is answered, the others go out again."""
        if rejects_a_record(error):
            self._suspect(error)
            return
        culprits = find_culprits(error, self.name, targets)
        self.put_back()
        kept: deque[Entry] = deque()
        for entry in self.again:
            refusal = culprits(entry)
            if refusal is None:
                kept.append(entry)
            else:
                entry[0].resolve(entry[1], refusal)
        self.again = kept

    def _suspect(self, error: BaseException) -> None:
        """Refuse the record that was alone on the wire; of several, send one at a time from now on."""
        suspects = unanswered(self.unconfirmed.unload())
        if len(suspects) == 1:
            submission, index, *_ = suspects[0]
            submission.resolve(index, rejected(error, self.name, suspects[0]))
            return
        self._suspects = len(suspects)
        self.again.extendleft(reversed(suspects))

    def put_back(self) -> None:
        """What was on the wire and is unanswered goes out again first, in its order."""
        self.again.extendleft(reversed(unanswered(self.unconfirmed.unload())))

    def give_up(self, error: BrokerError) -> None:
        """What was on a wire may be stored, what was not is not."""
        unknown = PublishUnknown(f"on the wire when it was lost: {error}", broker=self.name)
        again, self.again = self.again, deque()
        queue, self._queue = self._queue, deque()
        answer(again, unknown)
        answer(queue, error)
