"""The topics that the publisher uses. Each topic is looked up in the administration, and then refreshed
periodically."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from app.brokers.portable import Submission
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.batchers import TopicBatchers
from app.brokers.pulsar.errors import translate
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.topic_resolver import CreatedTopics, TopicResolver, unknown_topic
from app.errors import BoundReached, BrokerError, BrokerRefused, BrokerUnavailable

ASK_AGAIN, ASK_AGAIN_LONGEST = 0.1, 1.0


class KnownTopics(TopicResolver[TopicBatchers]):
    """The topics of one cluster that the publisher has looked up.

    A new topic is looked up, and created if the settings allow it. A topic that the broker rejects fails at
    once for a moment. If a look-up fails for another reason, it is repeated until the topic is found or
    rejected. So publishing resumes by itself after an outage, and ``trouble`` reports the failure until then.
    """

    def __init__(
        self,
        settings: PulsarSettings,
        admin: PulsarAdmin,
        found: Callable[[TopicBatchers], None],
        join: Callable[[TopicBatchers, Submission], None],
    ) -> None:
        """Start without any topics. No request is made.

        Args:
            settings: The settings for creating topics.
            admin: The administration of the cluster.
            found: Called once with each topic that was found.
            join: A function that publishes a waiting submission to its topic.
        """
        super().__init__(settings.name, self._find, join, translate)
        self.known: dict[str, TopicBatchers] = {}
        self._settings = settings
        self._admin = admin
        self._found = found
        self._made = CreatedTopics(settings.name)
        self._failing: dict[str, BrokerError] = {}

    @property
    def trouble(self) -> str:
        """Return why a topic in use could not be looked up, or an empty text."""
        return next((str(error) for error in self._failing.values()), "")

    def ask(self, submission: Submission) -> None:
        """Queue the submission until its topic is found. If earlier look-ups of the topic have failed, fail
        the submission at once."""
        failure = self._failing.get(submission.topic)
        if failure is not None:
            submission.fail(failure)
        else:
            super().ask(submission)

    def refuse(self, name: str, error: BrokerError) -> None:
        """Fail the waiting submissions of a topic, and new ones for the next two seconds. Forget the topic."""
        super().refuse(name, error)
        topic = self.known.pop(name, None)
        for batcher in topic.batchers if topic else ():
            batcher.recall()
            batcher.fail_queued(error)

    async def refresh(self) -> None:
        """Look all topics up again, because partitions may have been added and topics deleted. A failed
        look-up changes nothing."""
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

    def _resize(self, name: str, topic: TopicBatchers, wires: Mapping[int, str]) -> None:
        if len(wires) < len(topic.batchers):
            message = f"topic {name} was created again, with {len(wires)} partitions"
            self.refuse(name, BrokerUnavailable(message, broker=self._settings.name))
        else:
            topic.grow(wires.values())

    async def _find(self, name: str) -> TopicBatchers:
        """Look the topic up again and again until it is found or rejected. The first failure fails the
        submissions that wait."""
        delay = ASK_AGAIN
        try:
            while not isinstance(found := await self._try(name), TopicBatchers):
                if isinstance(found, BrokerRefused | BoundReached):
                    raise found
                self._failing[name] = found
                self.release(name, found)
                await asyncio.sleep(delay)
                delay = min(delay * 2, ASK_AGAIN_LONGEST)
            return found
        finally:
            self._failing.pop(name, None)

    async def _try(self, name: str) -> TopicBatchers | BrokerError:
        try:
            topic = TopicBatchers(name, await self._wires(name))
        except Exception as raised:
            meaning = translate(raised, self._settings.name)
            if meaning is None:
                raise
            if _not_there(meaning):
                return unknown_topic("Pulsar", self._settings.name, f"topic {name}")
            return meaning
        trouble = self._failing.get(name)
        for batcher in topic.batchers:
            batcher.cause = "" if trouble is None else str(trouble)  # until its producer is open
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
