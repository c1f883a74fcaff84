"""Write the status of objects, and Events about subscriptions that stop and about dead letters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from app.interfaces import Clock
from app.kubernetes import paths
from app.kubernetes.client import NOT_FOUND, KubernetesClient, KubernetesRefused
from app.kubernetes.events import EventWriter, rfc3339
from app.kubernetes.names import GROUP, PLURAL, subscription_id
from app.kubernetes.outcome import Outcome
from app.kubernetes.status import Status, dead_letters_in, delivering, differs, in_force, status_of

_COUNTS_EVERY = 20.0  # seconds between two writes of a status in which only numbers changed
_LETTERS_EVERY = 60.0  # seconds between two Events about dead letters of an object
_STARTS_WITHIN = 3.0  # seconds; only a start that takes longer is written
_SOON_FOR = 30.0  # seconds in which the end of a start is looked for at once
_STOPPED = frozenset({"Paused", "EndpointPaused", "Disabled"})

_log = logging.getLogger(__name__)


class _Letters(NamedTuple):
    """The dead letters of the last Event about them, and its monotonic time. ``number`` is None if it is unknown."""

    number: int | None
    at: float


class _Reported(NamedTuple):
    """The last report about an object."""

    outcome: Outcome
    ready: str  # the status of the condition Ready
    version: tuple[str, int]  # the uid and the generation of the object
    written: float  # monotonic time of the last write of the status
    starting: float  # monotonic time of the first report about the start, or 0
    letters: _Letters


class Reporter:
    """The reports about all objects.

    Attributes:
        wanted: Set if the state of the subscriptions should be read soon.
    """

    def __init__(
        self, client: KubernetesClient, clock: Clock, identity: str, operator: str
    ) -> None:
        """Take the name of this process, and that of the operator in ``status.operator``."""
        self.wanted = asyncio.Event()
        self._client = client
        self._clock = clock
        self._events = EventWriter(client, clock, identity)
        self._operator = operator
        self._reported: dict[tuple[str, str], _Reported] = {}

    def ready_counts(self) -> Mapping[str, int]:
        """Return the number of objects by the status of their condition ``Ready``."""
        found: dict[str, int] = {}
        for each in self._reported.values():
            found[each.ready] = found.get(each.ready, 0) + 1
        return found

    def forget(self, key: tuple[str, str]) -> None:
        """Drop what was reported about an object that is gone."""
        self._reported.pop(key, None)
        self._events.forget(key)

    async def report_foreign(self, item: Any) -> None:
        """Report that an object belongs to the operator of another installation, whose status it keeps."""
        named, other = item["metadata"], item["status"]["operator"]
        message = (
            f"The operator {other} has this object, so {self._operator} leaves it. Cure: list the namespace in one "
            f"installation. If {other} is gone: kubectl patch {PLURAL}.{GROUP} -n {named['namespace']} {named['name']} "
            '--subresource status --type merge -p \'{"status":{"operator":null}}\''
        )
        _log.warning("%s/%s: %s", named["namespace"], named["name"], message)
        await self._events.write(item, "OtherInstallation", message)

    async def report(self, item: Any, outcome: Outcome, health: Mapping[str, Any] | None) -> None:
        """Report what became of an object, and the state of its subscription."""
        named = item["metadata"]
        key = named["namespace"], named["name"]
        earlier, before = self._reported.get(key), item.get("status") or {}
        shown = in_force(outcome, health)
        starting = self._starting_since(shown, _version(item), earlier)
        written = 0.0 if earlier is None else earlier.written
        lasts = self._clock.monotonic() - starting if starting else 0.0
        if not starting or lasts >= _STARTS_WITHIN:
            written = await self._write_status(item, shown, health, written)
        # after the status: while it cannot be written, the same Event would be written again and again
        letters = await self._write_events(item, before, health, earlier)
        self._reported[key] = _Reported(
            outcome, shown.status, _version(item), written, starting, letters
        )
        if starting and lasts < _SOON_FOR:
            self.wanted.set()

    def _starting_since(
        self, shown: Outcome, version: tuple[str, int], earlier: _Reported | None
    ) -> float:
        """Return when the start of a subscription was reported first, or 0 if it does not start. Most starts end
        before they are written, which halves the writes for many new objects."""
        if shown.reason != "Starting":
            return 0.0
        if earlier is not None and earlier.starting and earlier.version == version:
            return earlier.starting
        return self._clock.monotonic()

    async def report_health(self, item: Any, health: Mapping[str, Any] | None) -> None:
        """Report the present state of the subscription of an object that was looked at before."""
        named = item["metadata"]
        earlier = self._reported.get((named["namespace"], named["name"]))
        if earlier is not None and earlier.version == _version(item):
            await self.report(item, earlier.outcome, health)

    async def _write_status(
        self,
        item: Any,
        outcome: Outcome,
        health: Mapping[str, Any] | None,
        last: float,
    ) -> float:
        """Write the status if it differs, and return when it was written last, which was at ``last``."""
        named, before = item["metadata"], item.get("status") or {}
        subscription = subscription_id(named["namespace"], named["name"])
        at = rfc3339(self._clock.now())
        status = status_of(subscription, named["generation"], outcome, health, before, at)
        status["operator"] = self._operator
        now = self._clock.monotonic()
        if not differs(before, status, counts=now - last >= _COUNTS_EVERY):
            return last
        gone = dict.fromkeys({*before} - {*status})  # which the API server would keep
        await self._patch_status(item, {**gone, **status})
        item["status"] = status  # so that the next report knows it before the watch does
        return now

    async def _patch_status(self, item: Any, status: Status) -> None:
        named = item["metadata"]
        path = paths.subscription(named["namespace"], named["name"], "/status")
        try:
            await self._client.patch(path, {"status": status})
        except KubernetesRefused as refused:
            if refused.status != NOT_FOUND:  # deleted meanwhile
                raise

    async def _write_events(
        self, item: Any, before: Status, health: Mapping[str, Any] | None, earlier: _Reported | None
    ) -> _Letters:
        """Write Events about what is new since the status ``before``, and return the dead letters that are reported
        now."""
        if (news := _stop_or_resume(before, health)) is not None:
            await self._events.write(item, *news)
        known = _letters_in(before) if earlier is None else earlier.letters
        number = None if health is None else dead_letters_in(health)
        if number is None:
            return known
        now = self._clock.monotonic()
        if known.number is None or number <= known.number:
            return _Letters(number, known.at)  # some were redriven or discarded
        if known.at and now - known.at < _LETTERS_EVERY:
            return known
        new = f"{number - known.number} more dead letters; {number} in all."
        await self._events.write(item, "DeadLetters", f"{new} See: skybridge dead-letters list")
        return _Letters(number, now)


def _letters_in(status: Mapping[str, Any]) -> _Letters:
    """Return the dead letters in the status of an object. A status with a state but without the number was written
    while the store did not answer."""
    return _Letters(status.get("deadLetters", None if "state" in status else 0), 0.0)


def _stop_or_resume(
    before: Mapping[str, Any], health: Mapping[str, Any] | None
) -> tuple[str, str] | None:
    """Return the reason and message of an Event if the subscription has stopped or resumed since the status of the
    object was written, else None."""
    if health is None:
        return None
    now = delivering(health)
    conditions = {each["type"]: each for each in before.get("conditions", ())}
    reason = conditions.get("Delivering", {}).get("reason", "")
    if now.reason == reason:
        return None
    if now.reason in _STOPPED:
        return now.reason, now.message or f"The subscription is {now.reason}."
    if reason in _STOPPED and now.status == "True":
        return "Resumed", "The subscription delivers again."
    return None


def _version(item: Any) -> tuple[str, int]:
    return item["metadata"]["uid"], item["metadata"]["generation"]
