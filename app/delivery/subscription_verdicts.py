"""Decide what of a subscription needs a person, from facts.

==========================================================  ===============  ====================================
facts                                                       verdict          cure
==========================================================  ===============  ====================================
the broker of its source does not answer                    broker-away      start the broker.
broken or stopped                                           cannot-run       change the subscription.
the target answered 410                                     disabled         repair the target, resume.
the last ``FAILED`` attempts failed, and events wait        endpoint-fails   repair the target, try again at once.
the same for ``STEADY`` seconds, if it has dead letters     endpoint-fails   repair the target, try again at once.
the same, and only dead letters are left                    endpoint-fails   repair the target, redrive them.
its endpoint is paused for ``GRACE`` seconds                endpoint-fails   repair the target, try again at once.
the pull queue is full                                      queue-full       start consumers.
its worker failed and restarts                              restarting       look at the cause.
its lag has grown for ``LATE`` seconds                      lag-grows        more concurrency or workers.
its oldest event waits for ``LATE`` seconds                 late-events      look at the attempts.
the oldest event of its pull queue waits ``LATE`` seconds   unread-queue     start consumers.
keys are parked                                             parked-keys      repair the target, try again at once.
the same, while it is paused or disabled                    parked-keys      repair the target, resume.
dead letters                                                dead-letters     by cause: repair and redrive, or discard.
an operator or the configuration paused it                  paused           resume it.
==========================================================  ===============  ====================================

Of the verdicts down to ``unread-queue`` a subscription has one, the first that fits, because each of them
explains the following ones. ``paused`` belongs to them. Parked keys and dead letters remain when that one is
cured, so they are verdicts of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from app.delivery.event_age import MAX_AGE, PARKED_TOO_LONG
from app.delivery.outcomes import UNSENDABLE
from app.model.operator_verdict import OperatorVerdict, Severity, VerdictName
from app.model.subscription_status import PAUSED_BY_CONFIGURATION

LATE = 300.0  # seconds that events may wait before a person is needed
GRACE = 60.0  # seconds that an endpoint may be paused before a person is needed
FAILED = 3  # failed attempts in a row after which the endpoint counts as failing
STEADY = 10.0  # seconds of failures after which it does if it has dead letters: it may refuse single events

_MINUTE = 60
_FOREIGN = "foreign"
_BY_CONSUMERS = frozenset({"rejected", "max-deliveries"})
_TOO_OLD = frozenset({MAX_AGE, PARKED_TOO_LONG})


class SubscriptionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about one subscription from which verdicts follow. Times are in seconds.

    A count is None if the store or the broker does not report it. No verdict follows from such a count: it is not
    taken for 0, nor for more than 0.

    Attributes:
        state: The state of its worker, as in ``SubscriptionStatus``.
        cause: Why it does not run or deliver.
        last_error: The error of the newest failed attempt.
        broker: The broker of its source.
        broker_cause: Why that broker does not answer, or "" if it does.
        paused_for: The time until its endpoint is probed, or None if the endpoint is not paused.
        failures: The failed attempts since the last success.
        failing_for: The time since the first of these failures.
        held: The events that its worker has read and not finished.
        waiting: The events of ``held`` that wait for their next attempt.
        oldest: The age of the oldest of these events.
        lag: The unfinished records of the log, or None if unknown.
        lag_grew: The records by which the lag has grown since it last fell.
        lag_grows_for: The time since the lag last fell.
        queued: The events in its pull queue, or None if unknown.
        queue_bound: The most events of its pull queue, or None if it is not a pull subscription.
        queue_oldest: The age of the oldest event in the pull queue.
        parked: The parked events, without redriven ones, or None if unknown.
        parked_keys: Their keys.
        parked_keyless: Those of them that have no key.
        parked_oldest: The age of the oldest of them.
        letters: The number of dead letters by cause, or None if unknown.
    """

    id: str
    state: str = "running"
    cause: str = ""
    last_error: str = ""
    broker: str = ""
    broker_cause: str = ""
    paused_for: float | None = None
    failures: int = 0
    failing_for: float = 0.0
    held: int = 0
    waiting: int = 0
    oldest: float = 0.0
    lag: int | None = 0
    lag_grew: int = 0
    lag_grows_for: float = 0.0
    queued: int | None = 0
    queue_bound: int | None = None
    queue_oldest: float = 0.0
    parked: int | None = 0
    parked_keys: int = 0
    parked_keyless: int = 0
    parked_oldest: float = 0.0
    letters: Mapping[str, int] | None = {}

    @property
    def waits(self) -> bool:
        """Return True if events are known to wait for the target, or were given up."""
        return bool(self.held or self.lag or self.parked or self.letters)

    @property
    def queue_is_full(self) -> bool:
        """Return True if the pull queue is known to take no event. A full queue takes none until an eighth of it
        is free."""
        if self.queue_bound is None or self.queued is None:
            return False
        free = self.queue_bound - self.queued
        return free <= 0 or (self.paused_for is not None and free < max(1, self.queue_bound // 8))

    @property
    def endpoint_fails(self) -> bool:
        """Return True if the target fails and does not recover by itself at once."""
        if self.paused_for is not None and self.failing_for >= GRACE:
            return True
        has_no_letters = self.letters is not None and not self.letters
        steady = has_no_letters or self.failing_for >= STEADY
        return self.failures >= FAILED and steady and self.waits

    @property
    def paused(self) -> bool:
        """Return True if an operator or its configuration paused it, not its failing target."""
        return self.state == "paused" and self.paused_for is None

    @property
    def retries(self) -> bool:
        """Return True if events wait for their next attempt, or may wait, so that trying them now has an effect."""
        return (
            self.paused_for is not None or self.parked is None or bool(self.waiting or self.parked)
        )


def subscription_verdicts(facts: SubscriptionFacts) -> Iterator[OperatorVerdict]:
    """Yield what of one subscription needs a person, the gravest first."""
    yield from _state(facts)
    if facts.parked:
        yield _parked(facts, facts.parked)
    yield from letter_verdicts(facts.id, facts.letters or {})


def _state(facts: SubscriptionFacts) -> Iterator[OperatorVerdict]:
    """Yield the verdict on the state of the subscription, if there is one."""
    for decide in (_stopped, _failing, _late):
        found = decide(facts)
        if found is not None:
            yield found
            return


def _stopped(facts: SubscriptionFacts) -> OperatorVerdict | None:
    """Return the verdict on a subscription that delivers nothing at all, or None."""
    cause = facts.cause.partition(": ")[2] or facts.cause
    resume, show = _resume(facts.id), _show(facts.id)
    if facts.broker_cause and facts.state not in {"disabled", "broken"}:
        detail = f"broker {facts.broker} does not answer: {facts.broker_cause}"
        return _verdict(facts, "broker-away", "error", detail, "start the broker", show)
    match facts.state:
        case "broken" | "stopped":
            detail = f"{facts.state}: {facts.cause}"
            cure = "change the subscription as the cause demands"
            return _verdict(facts, "cannot-run", "error", detail, cure, show)
        case "disabled":
            detail = f"disabled, nothing is sent: {cause_text(cause)}"
            cure = "repair the target, then resume the subscription"
            return _verdict(facts, "disabled", "error", detail, cure, resume)
        case "restarting":
            detail = f"restarting: {facts.cause}"
            cure = "the cause names what the worker lacks"
            return _verdict(facts, "restarting", "error", detail, cure, show)
        case "paused" if facts.paused:
            return _paused(facts, cause)
    return None


def cause_text(cause: str) -> str:
    """Return the cause of a disabled subscription in words: ``status-410`` is a code for programs."""
    status = cause.removeprefix("status-")
    return cause if status == cause else f"the target answered {status}"


def _paused(facts: SubscriptionFacts, cause: str) -> OperatorVerdict:
    """Return the verdict on a subscription that an operator or its configuration paused."""
    by_file = facts.cause == PAUSED_BY_CONFIGURATION
    reason = facts.cause if by_file else f"paused: {cause or 'no reason was given'}"
    cure = "remove paused from its document" if by_file else "resume it when the reason is gone"
    detail = f"{reason}. Its events wait in the log"
    return _verdict(facts, "paused", "notice", detail, cure, _restart(facts))


def _failing(facts: SubscriptionFacts) -> OperatorVerdict | None:
    """Return the verdict on a target that takes no events, or None."""
    if facts.queue_is_full:
        detail = f"its pull queue is full: {facts.queued} of {facts.queue_bound} events wait to be pulled"
        cure = "start consumers, or raise sink.pull.max_waiting; skybridge pull prints and acknowledges events"
        return _verdict(facts, "queue-full", "error", detail, cure, f"skybridge pull {facts.id}")
    if not facts.endpoint_fails:
        return None
    why = facts.last_error or facts.cause
    last = "the last attempt" if facts.failures == 1 else f"the last {facts.failures} attempts"
    since = f"the target fails, {last} failed"
    detail = f"{since}: {why}" if why else since
    cure, command = "repair the target, then try again at once", _retry(facts.id)
    if facts.letters and not facts.retries:
        cure, command = "repair the target, then redrive its dead letters", _redrive(facts.id)
    return _verdict(facts, "endpoint-fails", "error", detail, cure, command)


def _late(facts: SubscriptionFacts) -> OperatorVerdict | None:
    """Return the verdict on events that wait too long although the target does not fail, or None."""
    attempts = f"skybridge attempts --subscription {facts.id}"
    if facts.lag is not None and facts.lag_grew > 0 and facts.lag_grows_for >= LATE:
        time = duration_text(facts.lag_grows_for)
        detail = f"its lag has grown by {facts.lag_grew} to {facts.lag} in {time}"
        cure = "raise its concurrency, or start more workers if the target answers fast"
        return _verdict(facts, "lag-grows", "warning", detail, cure, attempts)
    if facts.oldest > LATE:
        why = facts.cause or facts.last_error
        detail = f"its oldest event has waited for {duration_text(facts.oldest)}" + (
            why and f": {why}"
        )
        cure = "the attempts show what the target answers"
        return _verdict(facts, "late-events", "warning", detail, cure, attempts)
    if facts.queued and facts.queue_oldest > LATE:
        waits = duration_text(facts.queue_oldest)
        detail = f"{counted(facts.queued, 'event', 'wait')} to be pulled, the oldest for {waits}"
        cure = "start consumers; skybridge pull prints and acknowledges events"
        return _verdict(
            facts, "unread-queue", "warning", detail, cure, f"skybridge pull {facts.id}"
        )
    return None


def _parked(facts: SubscriptionFacts, parked: int) -> OperatorVerdict:
    """Return the verdict on parked keys."""
    waits = duration_text(facts.parked_oldest)
    verb = "is" if parked == 1 else "are"
    detail = f"{_parked_events(facts, parked)} {verb} parked, the oldest for {waits}"
    repair = "repair what the target refuses, then"
    if facts.paused or facts.state == "disabled":  # nothing is tried before it is resumed
        cure, command = f"{repair} resume the subscription", _restart(facts)
    else:
        cure, command = f"{repair} try again at once", _retry(facts.id)
    return _verdict(facts, "parked-keys", "warning", detail, cure, command)


def _parked_events(facts: SubscriptionFacts, parked: int) -> str:
    """Return the parked events with their keys: ``5 events of 2 keys``."""
    events, keys = counted(parked, "event"), counted(facts.parked_keys, "key")
    if not facts.parked_keyless:
        return f"{events} of {keys}"
    if not facts.parked_keys:
        return f"{events} without a key"
    return f"{events} ({facts.parked_keyless} without a key, the others of {keys})"


def letter_verdicts(
    subscription: str, letters: Mapping[str, int], *, deleted: bool = False
) -> Iterator[OperatorVerdict]:
    """Yield one verdict for each cure that dead letters have.

    Args:
        subscription: The id of the subscription.
        letters: The number of its dead letters by cause.
        deleted: True if the subscription no longer exists.
    """
    groups: dict[tuple[str, str], dict[str, int]] = {}
    for cause, count in sorted(letters.items()):
        groups.setdefault(_DELETED if deleted else _cure_of(cause), {})[cause] = count
    subject = f"subscription {subscription}"
    for (cure, verb), found in groups.items():
        counts = ", ".join(f"{cause}: {count}" for cause, count in found.items())
        chosen = (
            "" if len(found) == len(letters) else "".join(f" --cause {cause}" for cause in found)
        )
        yield OperatorVerdict(
            name="dead-letters",
            severity="warning",
            subject=subject,
            detail=f"dead letters of a deleted subscription ({counts})"
            if deleted
            else f"dead letters ({counts})",
            cure=cure,
            command=f"skybridge dead-letters {verb} --subscription {subscription}{chosen}",
        )


_DELETED = "discard them, or create the subscription again and redrive", "discard"


def _cure_of(cause: str) -> tuple[str, str]:
    """Return the cure of dead letters with this cause, and the verb of its command."""
    if cause == _FOREIGN:
        return (
            "discard them, or set on_foreign: wrap and redrive; they are no CloudEvents, so a redrive alone fails again",
            "discard",
        )
    if cause in UNSENDABLE:
        return (
            "change the settings that the events do not fit, then redrive or discard them",
            "redrive",
        )
    if cause in _BY_CONSUMERS:
        return "repair the consumer, then redrive or discard them", "redrive"
    if cause in _TOO_OLD:
        return "redrive them, or discard them if they are of no use any more", "redrive"
    return "repair the target, then redrive or discard them", "redrive"


def _restart(facts: SubscriptionFacts) -> str:
    """Return the command that ends a pause. A pause of its document ends in the document, which ``show`` prints."""
    return (_show if facts.cause == PAUSED_BY_CONFIGURATION else _resume)(facts.id)


def _show(subscription: str) -> str:
    return f"skybridge subscriptions show {subscription}"


def _resume(subscription: str) -> str:
    return f"skybridge subscriptions resume {subscription}"


def _retry(subscription: str) -> str:
    return f"skybridge retry {subscription}"


def _redrive(subscription: str) -> str:
    return f"skybridge dead-letters redrive --subscription {subscription}"


def _verdict(
    facts: SubscriptionFacts,
    name: VerdictName,
    severity: Severity,
    detail: str,
    cure: str,
    command: str,
) -> OperatorVerdict:
    return OperatorVerdict(
        name=name,
        severity=severity,
        subject=f"subscription {facts.id}",
        detail=detail,
        cure=cure,
        command=command,
    )


def duration_text(seconds: float) -> str:
    """Return a duration in days, hours and minutes, or in seconds below two minutes."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(int(seconds) // _MINUTE, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def counted(count: int, noun: str, verb: str = "") -> str:
    """Return a count with its noun and verb in the singular or plural."""
    words = (noun, verb and f"{verb}s") if count == 1 else (f"{noun}s", verb)
    return " ".join(filter(None, (str(count), *words)))
