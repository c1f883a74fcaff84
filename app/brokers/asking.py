"""Publishing to a topic that is not known yet: one question a topic, however many submissions wait for it.

What keeps the topics that were found is the driver's; here is what leads to it.
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

REFUSED_FOR = 2.0  # seconds before a topic that was refused is asked for again
BOUND = 1_000  # names come from templates, templates from events (rule 8)

Found = TypeVar("Found")


CREATE = "create it, or set topics.create"


def unknown_topic(product: str, broker: str, what: str, cure: str = CREATE) -> BrokerRefused:
    return BrokerRefused(
        f"{product} {broker} has no {what}: {cure}",
        kind="unknown-topic",
        broker=broker,
    )


class Made:
    """Topics that were made because somebody published to them, and how many may be (rule 8)."""

    def __init__(self, broker: str, most: int = BOUND) -> None:
        self._broker = broker
        self._most = most
        self._names: set[str] = set()

    @contextmanager
    def making(self, name: str) -> Iterator[None]:
        """Raises BoundReached where there are so many already. What could not be made does not count."""
        if name not in self._names and len(self._names) >= self._most:
            text = f"{len(self._names)} topics were created for events, which is the bound: create {name} yourself"
            raise BoundReached(text, broker=self._broker)
        self._names.add(name)
        try:
            yield
        except BaseException:
            self._names.discard(name)
            raise


class Asking(Generic[Found]):
    """Questions under way, who waits for them, and refusals that are remembered for a moment. Whatever
    becomes of a question, nobody is left waiting: each submission is joined or failed, once."""

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
        """``find`` asks the broker, within a bound of its own, and keeps what it found. ``join`` gets
        that and each submission that waited. ``translate``: what an error of ``find`` means; None for a
        bug. ``remember_outages``: also what may be over in a moment. ``most``: questions at a time, and
        refusals."""
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
        self._tasks.clear()  # one that had not begun has not ended either
        self.give_up(BrokerUnavailable("stopped", broker=self._broker))

    def work_on(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a background task that reports its own errors; one at a time for each name."""
        if name not in self._work:
            self._work[name] = task = asyncio.create_task(work())
            task.add_done_callback(lambda _: self._work.pop(name, None))

    def ask(self, submission: Submission) -> None:
        """It waits for the answer, or has it at once where the topic was refused a moment ago."""
        name = submission.topic
        refusal = self._refusal(name)
        if refusal is None and name not in self._tasks:
            refusal = self._begin(name)
        if refusal is None:
            self._waiting.setdefault(name, []).append(submission)
        else:
            submission.fail(refusal)

    def refuse(self, name: str, error: BrokerError) -> None:
        """Waiting callers are told, and so are those of the next moment."""
        if self._remember_outages or not error.retryable:
            if len(self._refused) >= self._most:
                self._refused.clear()
            until = asyncio.get_running_loop().time() + REFUSED_FOR
            self._refused[name] = error, until
        self.release(name, error)

    def release(self, name: str, outcome: Found | BrokerError) -> None:
        """The answer for all who wait so far."""
        for submission in self._waiting.pop(name, ()):
            self._answer(submission, outcome)

    def give_up(self, error: BrokerError) -> None:
        """Nobody can be asked."""
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
            except Exception as error:  # noqa: BLE001 - it must not take the answer from those behind it
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
        except asyncio.CancelledError:  # by ``stop``, or by a client that lost its connection
            self._end(name, BrokerUnavailable("given up", broker=self._broker))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            del self._tasks[name]
            self.refuse(name, self._meaning(name, error))
        else:
            self._end(name, found)

    def _end(self, name: str, outcome: Found | BrokerError) -> None:
        """The next caller asks the broker again."""
        del self._tasks[name]
        self.release(name, outcome)

    def _meaning(self, name: str, error: Exception) -> BrokerError:
        meaning = self._translate(error, self._broker)
        if meaning is None:
            log.error(
                "%s: topic %s was not found because of a defect", self._broker, name, exc_info=error
            )
            return BrokerUnavailable(repr(error), broker=self._broker)
        return meaning
