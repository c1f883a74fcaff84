"""Publish to topics that the driver does not know yet.

Each unknown topic is looked up only once, even if many submissions wait for it. The driver keeps the topics
that were found.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from app.brokers.driver import DROPPED, Submission
from app.errors import BoundReached, BrokerError, BrokerRefused, BrokerUnavailable

log = logging.getLogger(__name__)

REFUSED_FOR = 2.0  # seconds before a rejected topic is looked up again
BOUND = 1_000  # most topics; names come from templates filled from events, so producers choose them

Found = TypeVar("Found")


CREATE = "create it, or set topics.create"


def unknown_topic(product: str, broker: str, what: str, cure: str = CREATE) -> BrokerRefused:
    """Return the error for a topic that the broker does not have.

    Args:
        product: The product, such as "Kafka".
        broker: The name of the broker.
        what: The missing thing, such as "topic orders".
        cure: What the operator can do.
    """
    return BrokerRefused(
        f"{product} {broker} has no {what}: {cure}",
        kind="unknown-topic",
        broker=broker,
    )


class CreatedTopics:
    """The topics that this process has created because events were published to them. Their number is
    limited."""

    def __init__(self, broker: str, most: int = BOUND) -> None:
        self._broker = broker
        self._most = most
        self._names: set[str] = set()

    @contextmanager
    def making(self, name: str) -> Iterator[None]:
        """Count the topic ``name`` while the caller creates it. Raise BoundReached if the limit of created
        topics is reached.

        A topic whose creation fails is not counted.
        """
        if name not in self._names and len(self._names) >= self._most:
            text = f"topic {name} was not created: {len(self._names)} topics were created for events, the most allowed. Cure: create {name} yourself"
            raise BoundReached(text, broker=self._broker)
        self._names.add(name)
        try:
            yield
        except BaseException:
            self._names.discard(name)
            raise


class TopicResolver(Generic[Found]):
    """Topic look-ups in progress, the submissions that wait for them, and recent rejections.

    Every submission is published or failed exactly once, after any outcome of the look-up.
    """

    def __init__(
        self,
        broker: str,
        find: Callable[[str], Coroutine[Any, Any, Found]],
        join: Callable[[Found, Submission], None],
        translate: Callable[[Exception, str], BrokerError | None],
        *,
        remember_outages: bool = True,
        most: int = BOUND,
    ) -> None:
        """Create the resolver of one broker.

        Args:
            broker: The name of the broker.
            find: A function that looks up a topic at the broker, within its own time limit, and stores the
                result.
            join: A function that publishes one waiting submission to the topic that was found.
            translate: A function that returns the broker error for an error of ``find``, or None for a bug.
            remember_outages: Whether retryable errors are remembered for a moment too.
            most: Most look-ups at a time, and most remembered rejections.
        """
        self._broker = broker
        self._question = find
        self._join = join
        self._translate = translate
        self._remember_outages = remember_outages
        self._most = most
        self._waiting: dict[str, list[Submission]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, tuple[BrokerError, float]] = {}
        self._work: dict[str, asyncio.Task[None]] = {}

    async def stop(self) -> None:
        tasks = [*self._tasks.values(), *self._work.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._tasks.clear()  # a task cancelled before its first step does not remove itself
        self.give_up(BrokerUnavailable("stopped", broker=self._broker))

    def work_on(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a background task for ``name`` unless one is running. The task must log its own errors."""
        if name not in self._work:
            self._work[name] = task = asyncio.create_task(work())
            task.add_done_callback(lambda _: self._work.pop(name, None))

    def ask(self, submission: Submission) -> None:
        """Queue the submission until its topic is found. Fail it at once if the topic was rejected a moment
        ago."""
        name = submission.topic
        refusal = self._refusal(name)
        if refusal is None and name not in self._tasks:
            refusal = self._begin(name)
        if refusal is None:
            self._waiting.setdefault(name, []).append(submission)
        else:
            submission.fail(refusal)

    def refuse(self, name: str, error: BrokerError) -> None:
        """Fail the waiting submissions of a topic, and new ones for the next two seconds."""
        if self._remember_outages or not error.retryable:
            if len(self._refused) >= self._most:
                self._refused.clear()
            until = asyncio.get_running_loop().time() + REFUSED_FOR
            self._refused[name] = error, until
        self.release(name, error)

    def release(self, name: str, outcome: Found | BrokerError) -> None:
        """Resolve all submissions that wait for a topic. If ``outcome`` is the topic, they are published, and
        if it is an error, they fail."""
        for submission in self._waiting.pop(name, ()):
            self._answer(submission, outcome)

    def give_up(self, error: BrokerError) -> None:
        """Fail all waiting submissions, because no broker can be reached."""
        for name in list(self._waiting):
            self.release(name, error)

    def _answer(self, submission: Submission, outcome: Found | BrokerError) -> None:
        if submission.done():
            submission.fail(DROPPED)
        elif isinstance(outcome, BrokerError):
            submission.fail(outcome)
        else:
            try:
                self._join(outcome, submission)
            except Exception as error:  # noqa: BLE001 - other submissions still need their answer
                submission.fail(self._meaning(submission.topic, error))

    def _refusal(self, name: str) -> BrokerError | None:
        refusal, until = self._refused.get(name, (None, 0.0))
        return refusal if asyncio.get_running_loop().time() < until else None

    def _begin(self, name: str) -> BrokerError | None:
        if len(self._tasks) >= self._most:
            text = f"{len(self._tasks)} topics are already being checked"
            return BoundReached(text, broker=self._broker)
        self._tasks[name] = asyncio.create_task(self._ask_for(name))
        return None

    async def _ask_for(self, name: str) -> None:
        try:
            found = await self._question(name)
        except (
            asyncio.CancelledError
        ):  # by ``stop``, or by a client library that lost its connection
            self._end(
                name,
                BrokerUnavailable("the look-up of the topic was cancelled", broker=self._broker),
            )
            raise
        except Exception as error:  # noqa: BLE001 - callers wait for an answer to any error
            del self._tasks[name]
            self.refuse(name, self._meaning(name, error))
        else:
            self._end(name, found)

    def _end(self, name: str, outcome: Found | BrokerError) -> None:
        """Finish a look-up and resolve its waiting submissions. The next submission starts a new look-up."""
        del self._tasks[name]
        self.release(name, outcome)

    def _meaning(self, name: str, error: Exception) -> BrokerError:
        meaning = self._translate(error, self._broker)
        if meaning is None:
            log.error(
                "broker %s: a bug prevented the look-up of topic %s",
                self._broker,
                name,
                exc_info=error,
            )
            return BrokerUnavailable(repr(error), broker=self._broker)
        return meaning
