"""Which topics there are: asked of the administration once, then again from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from app.brokers.asking import Asking, Made, unknown_topic
from app.brokers.portable import Submission
from app.brokers.pulsar.admin import Admin
from app.brokers.pulsar.batchers import Topic
from app.brokers.pulsar.errors import translate
from app.brokers.pulsar.settings import PulsarSettings
from app.errors import BoundReached, BrokerError, BrokerRefused, BrokerUnavailable

ASK_AGAIN, ASK_AGAIN_LONGEST = 0.1, 1.0


class Topics(Asking[Topic]):
    """Finds topics, makes them where the settings say so, and remembers refusals for a moment.

    A topic that could not be asked for is asked for again until it is found or refused, so that an
    outage at the first event ends by itself, and ``trouble`` tells of it meanwhile.
    """

    def __init__(
        self,
        settings: PulsarSettings,
        admin: Admin,
        found: Callable[[Topic], None],
        join: Callable[[Topic, Submission], None],
    ) -> None:
        """``found`` gets each topic once, ``join`` the submissions that waited for it."""
        super().__init__(settings.name, self._find, join, translate)
        self.known: dict[str, Topic] = {}
        self._settings = settings
        self._admin = admin
        self._found = found
        self._made = Made(settings.name)
        self._failing: dict[str, BrokerError] = {}

    @property
    def trouble(self) -> str:
        """Why a topic that somebody publishes to could not be asked for; empty when all could."""
        return next((str(error) for error in self._failing.values()), "")

    def ask(self, submission: Submission) -> None:
        """The topic is not known yet; the submission waits for the answer."""
        failure = self._failing.get(submission.topic)
        if failure is not None:
            submission.fail(failure)
        else:
            super().ask(submission)

    def refuse(self, name: str, error: BrokerError) -> None:
        """Do not bother the broker with this topic for a moment."""
        super().refuse(name, error)
        topic = self.known.pop(name, None)
        for batcher in topic.batchers if topic else ():
            batcher.recall()
            batcher.give_up(error)

    async def refresh(self) -> None:
        """Partitions may have been added, topics deleted. A failed question changes nothing."""
        for name, topic in list(self.known.items()):
            try:
                wires = await self._admin.wires(name)
            except Exception as error:
                meaning = translate(error, self._settings.name)
                if meaning is None:
                    raise
                if isinstance(meaning, BrokerRefused):
                    self.refuse(name, meaning)
            else:
                self._resize(name, topic, wires)

    def _resize(self, name: str, topic: Topic, wires: Mapping[int, str]) -> None:
        if len(wires) < len(topic.batchers):
            words = f"topic {name} was made again, with {len(wires)} partitions"
            self.refuse(name, BrokerUnavailable(words, broker=self._settings.name))
        else:
            topic.grow(wires.values())

    async def _find(self, name: str) -> Topic:
        """Until it is found or refused. Waiting callers are told of the first failure."""
        delay = ASK_AGAIN
        try:
            while not isinstance(found := await self._try(name), Topic):
                if isinstance(found, BrokerRefused | BoundReached):
                    raise found
                self._failing[name] = found
                self.release(name, found)
                await asyncio.sleep(delay)
                delay = min(delay * 2, ASK_AGAIN_LONGEST)
            return found
        finally:
            self._failing.pop(name, None)

    async def _try(self, name: str) -> Topic | BrokerError:
        try:
            topic = Topic(name, await self._wires(name))
        except Exception as raised:
            meaning = translate(raised, self._settings.name)
            if meaning is None:
                raise
            if _not_there(meaning):
                return unknown_topic("Pulsar", self._settings.name, f"topic {name}")
            return meaning
        trouble = self._failing.get(name)
        for batcher in topic.batchers:
            batcher.cause = "" if trouble is None else str(trouble)  # until it is open
        self.known[name] = topic
        self._found(topic)
        return topic

    async def _wires(self, name: str) -> list[str]:
        create = self._settings.create_topics
        if create and await self._admin.partitions(name) is None:
            with self._made.making(name):
                await self._admin.create_topic(name, self._settings.partitions)
        return list((await self._admin.wires(name)).values())


def _not_there(meaning: BrokerError) -> bool:
    return isinstance(meaning, BrokerRefused) and meaning.kind == "unknown-topic"
