"""The queue of one partition, and the wire batch of it that is on its way.

Many callers that wait for room in one batch of aiokafka wake each other up in quadratic time
(reliability 5.1, #528). Here nobody waits: a record is an entry in a plain queue, and the whole queue
becomes the next wire batch when the broker is free. While one batch is in flight the next forms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from time import monotonic
from typing import Any

from aiokafka import TopicPartition

from app.bindings.record import Record
from app.brokers.asking import REFUSED_FOR
from app.brokers.driver import DROPPED, Submission, answer, unanswered
from app.brokers.portable import LIMIT_KNOWN, size_of
from app.errors import BrokerError, BrokerRefused
from app.model.receipt import Receipt
from app.routing.partitions import partition_of

Entry = tuple[Submission, int, Record]
"""A record, and where its fate goes: the submission and the index in it."""

UNLIMITED = 1 << 62
_IDENTITY = frozenset({"ce_id", "ce_source"})
ALONE = (
    3  # records in a row that fail standing alone: then it is the topic, and the rest is not tried
)
DOUBTS = 1_000  # records of a topic


class Batcher:
    """One partition. At most one wire batch of it is ``aboard`` at a time, so order per key holds."""

    __slots__ = (
        "aboard", "failed_alone", "leader", "most", "number", "queue", "size", "suspected_at", "suspects", "topic",
        "tp", "waiting",
    )  # fmt: skip

    def __init__(self, topic: Topic, number: int) -> None:
        self.topic = topic
        self.number = number
        self.tp = TopicPartition(topic.name, number)
        self.queue: deque[Entry] = deque()
        self.aboard: list[Entry] = []
        self.leader = -1  # the node that the batch aboard went to
        self.waiting = False  # in the producer's list of lanes that have something to send
        self.size = 0  # bytes of the batch aboard
        self.suspects = 0  # records at the head of the queue of which the broker objects to one
        self.suspected_at = 0  # batches that the topic had taken by then
        self.failed_alone = 0  # of them in a row
        self.most = UNLIMITED  # records of the next batch, while that one is looked for

    def fill(self, batch: Any) -> bool:
        """Move what is still unanswered from the queue into ``batch``; whether anything is in it.

        Rule 9: a record whose caller has an answer, or went away, is dropped here: it is not on the wire.
        (Cancelling aiokafka's own futures would not stop a send: reliability 5.1.)
        """
        queue, aboard, append = self.queue, self.aboard, batch.append
        most, topic = self.most, self.topic
        bounded = topic.knows_bounds()
        while queue and len(aboard) < most:
            entry = queue[0]
            submission, index, record = entry
            if submission.done():
                submission.resolve(index, DROPPED)
            elif bounded and (refusal := topic.refusal(record)) is not None:
                submission.resolve(index, refusal)
            elif bounded and aboard and batch.size() + size_of(record) > topic.max_bytes > 0:
                break
            else:
                try:
                    taken = append(
                        timestamp=None,  # now
                        key=record.key,
                        value=record.body,
                        headers=list(record.headers),
                    )
                except (TypeError, ValueError) as error:  # nothing of it was written
                    submission.resolve(
                        index, BrokerRefused(f"no Kafka record: {error}", kind="unwritable")
                    )
                else:
                    if taken is None:
                        break
                    aboard.append(entry)
            queue.popleft()
        batch.close()
        self.size = batch.size()
        return bool(aboard)

    def landed(self, broker: str, offset: int | None) -> None:
        """Every record aboard is stored, the first one at ``offset``; None where nobody says so."""
        aboard = self._unload()
        self.failed_alone = 0
        self.topic.took(aboard)
        name, number = self.topic.name, self.number
        if offset is None:
            for submission, index, _ in aboard:
                submission.resolve(index, Receipt(broker, name, number, ""))
            return
        for submission, index, _ in aboard:
            submission.resolve(index, Receipt(broker, name, number, str(offset)))
            offset += 1

    def narrow(self) -> None:
        """Half as many records in the next batch, so that the one objected to will stand alone."""
        if not self.suspects:
            self.suspected_at, self.failed_alone = self.topic.taken, 0
        self.suspects = max(self.suspects, len(self.aboard))
        self.most = max(1, len(self.aboard) // 2)

    def learn_size(self, *, compressed: bool) -> None:
        """The batch aboard is above the broker's bound: remember for a while how much the topic does take. Where
        batches are compressed, the size of a record says little about that of another."""
        largest = max(size_of(record) for _, _, record in self.aboard)
        if len(self.aboard) == 1:
            if not compressed:
                self.topic.learn(too_large=largest)
        elif largest * 2 < self.size:  # too large only because it holds many
            self.topic.learn(max_bytes=self.size // 2)

    def again(self) -> None:
        """What is aboard and still unanswered goes back to the head of the queue, in its order."""
        aboard, self.aboard = self.aboard, []
        self.queue.extendleft(reversed(unanswered(aboard)))

    def fail(self, error: BrokerError) -> None:
        """What is aboard has met its fate."""
        answer(self._unload(), error)

    def refuse(self, named: Collection[int], why: Callable[[int, Record], BrokerError]) -> bool:
        """Refuse the records aboard that the broker named by their index, and queue the others again. Return
        False, with nothing done, if the broker named none of them."""
        culprits = {index for index in named if 0 <= index < len(self.aboard)}
        for place in culprits:
            submission, index, record = self.aboard[place]
            submission.resolve(index, why(place, record))
        if culprits:
            self.aboard = [each for at, each in enumerate(self.aboard) if at not in culprits]
            self.suspects = max(0, self.suspects - len(culprits))
            self.most = self.most if self.suspects else UNLIMITED
            self.again()
        return bool(culprits)

    def stands_alone(self) -> bool:
        """Return True if the record aboard, which the broker refused standing alone with an unclear code, is at
        fault: the topic has taken others since the record failed first."""
        [(_, _, record)] = self.aboard
        among_others = self.suspects > 0 and self.topic.taken > self.suspected_at
        return self.topic.doubts(record) or among_others

    def give_up_suspects(self, error: BrokerError) -> None:
        """The record aboard failed standing alone, and the topic took nothing meanwhile. After a few such records
        the rest of their batch is answered too, instead of tried one by one."""
        self.failed_alone += 1
        rest = self.suspects - 1 if self.failed_alone >= ALONE else 0
        self.fail(error)
        answer([self.queue.popleft() for _ in range(min(rest, len(self.queue)))], error)
        if rest > 0:
            self.suspects, self.most = 0, UNLIMITED

    def _unload(self) -> list[Entry]:
        aboard, self.aboard = self.aboard, []
        if self.suspects:
            self.suspects = max(0, self.suspects - len(aboard))
            self.most = self.most if self.suspects else UNLIMITED
        return aboard

    def drop_answered(self) -> int:
        """Let go of queued records whose caller has had his answer; how many there were."""
        before = len(self.queue)
        self.queue = deque(unanswered(self.queue))
        return before - len(self.queue)

    def give_up(self, error: BrokerError) -> None:
        """The same fate for all that is queued."""
        queue, self.queue = self.queue, deque()
        answer(queue, error)

    def answered(self) -> bool:
        """Whether anybody aboard has had his answer, so that this batch may not go out (again)."""
        return any(submission.done() for submission, _, _ in self.aboard)


class Topic:
    """The lanes of one topic, and which of them takes the records without a key for now."""

    __slots__ = (
        "_doubted",
        "_keyed",
        "_keyed_until",
        "_keyless",
        "_known_until",
        "lanes",
        "max_bytes",
        "name",
        "taken",
        "too_large",
    )

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.max_bytes = 0  # of one wire batch, learnt where the broker takes less than we send
        self.too_large = 0  # bytes of the smallest record refused, standing alone, for its size
        self.taken = 0  # wire batches
        self.lanes = [Batcher(self, number) for number in range(partitions)]
        self._doubted: dict[
            bytes, int
        ] = {}  # digests of records, to ``taken`` when each failed alone first
        self._keyed: BrokerRefused | None = None  # why records without a key are refused
        self._keyed_until = 0.0
        self._keyless = 0
        self._known_until = 0.0

    def took(self, entries: Sequence[Entry]) -> None:
        """A wire batch is stored."""
        self.taken += 1
        if self._doubted:
            for _, _, record in entries:
                self._doubted.pop(_digest(record), None)

    def doubts(self, record: Record) -> bool:
        """Note that a record was refused standing alone, with a code that does not say why. Return True if it was
        before, and the topic has taken others since."""
        digest = _digest(record)
        if digest not in self._doubted and len(self._doubted) >= DOUBTS:
            del self._doubted[next(iter(self._doubted))]
        return self.taken > self._doubted.setdefault(digest, self.taken)

    def learn(self, *, too_large: int = 0, max_bytes: int = 0) -> None:
        """Bounds of the broker, which an operator may raise at any time."""
        self.too_large = too_large or self.too_large
        self.max_bytes = max_bytes or self.max_bytes
        self._known_until = monotonic() + LIMIT_KNOWN

    def demand_keys(self, error: BrokerRefused) -> None:
        """Records without a key need not cost a producer each. An operator may change the topic at any time."""
        self._keyed, self._keyed_until = error, monotonic() + REFUSED_FOR

    def knows_bounds(self) -> bool:
        """After a while the next large record, or the next one without a key, is tried again."""
        if self._keyed is not None and monotonic() >= self._keyed_until:
            self._keyed = None
        return self._knows_sizes() or self._keyed is not None

    def _knows_sizes(self) -> bool:
        if not (self.too_large or self.max_bytes):
            return False
        if monotonic() >= self._known_until:
            self.too_large = self.max_bytes = 0
            return False
        return True

    def lane(self, key: bytes | None) -> Batcher:
        """Records without a key stay on one partition until a wire batch of it leaves (sticky)."""
        if key is None:
            return self.lanes[self._keyless]
        return self.lanes[partition_of(key, len(self.lanes))]

    def refusal(self, record: Record) -> BrokerRefused | None:
        """A record as large as one that was refused need not cost another producer, nor one without a key."""
        if record.key is None and self._keyed is not None:
            return self._keyed
        if not self.too_large or size_of(record) < self.too_large:
            return None
        return BrokerRefused(
            f"topic {self.name} does not accept a record of {size_of(record)} bytes",
            kind="record-too-large",
        )

    def left(self, lane: Batcher) -> None:
        """A wire batch of ``lane`` leaves: the next records without a key go to the next partition."""
        if lane.number == self._keyless:
            self._keyless = (lane.number + 1) % len(self.lanes)

    def grow(self, partitions: int) -> None:
        """Somebody added partitions."""
        self.lanes += [Batcher(self, number) for number in range(len(self.lanes), partitions)]


def _digest(record: Record) -> bytes:
    """Return the same for the same event, whenever it is sent again. Other headers, as of a trace, may change."""
    named = [pair for pair in record.headers if pair[0] in _IDENTITY]
    parts = [record.key, record.body, *(named or record.headers)]
    return blake2b(repr(parts).encode("utf-8", "replace"), digest_size=16).digest()
