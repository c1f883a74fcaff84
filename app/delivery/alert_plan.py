"""Decide which messages the alerts of an installation send. Pure.

One process decides, from the reports of all processes. A problem is known by its verdict and subject. It must be found
twice before it is reported, and be absent for a while before it counts as recovered. So a single look decides nothing.

================================================  =====================================================
problems                                          message
================================================  =====================================================
a new one                                         at once, or ``every`` after the last message
some are over                                     with the next message, ``every`` after the last one
all are over                                      at once
unchanged                                         ``remind`` after the last message; 0: none
================================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from app.model.operator_verdict import OperatorVerdict, rank

SETTLED = 60.0  # seconds without a problem after which it is over, or ``every`` if that is shorter
SILENT_SENDER = "silent-producer"


class ProcessFindings(msgspec.Struct, frozen=True):
    """The report of one process.

    Attributes:
        verdicts: Everything that needs a person, as this process sees it.
        active: The producers and intakes that have sent to this process lately, as subjects of verdicts.
    """

    verdicts: tuple[OperatorVerdict, ...] = ()
    active: tuple[str, ...] = ()


class AlertRule(NamedTuple):
    """The setting that decides when one alert sends a message. Times are in seconds."""

    when: frozenset[str]
    every: float
    remind: float

    @property
    def settled(self) -> float:
        """Return the seconds after which an absent problem is over."""
        return min(SETTLED, self.every)


class ReportedProblem(msgspec.Struct, frozen=True):
    """A problem that was reported. ``since_ms`` is the time at which it was first found, in ms since 1970."""

    verdict: OperatorVerdict
    since_ms: int

    @property
    def key(self) -> tuple[str, str]:
        """Return verdict and subject, by which a problem is known."""
        return self.verdict.name, self.verdict.subject


class AlertState(msgspec.Struct, frozen=True):
    """The record of what one alert has sent. The store keeps this.

    Attributes:
        sent_ms: The time of the last message about problems; 0 before the first one.
        reported: The problems that were reported and are not over.
        failures: The tries of the current message that failed.
        error: Why the last try failed, or "".
    """

    sent_ms: int = 0
    reported: tuple[ReportedProblem, ...] = ()
    failures: int = 0
    error: str = ""


class FoundProblem(NamedTuple):
    """A problem of a message. ``is_new`` is False if an earlier message reported it."""

    verdict: OperatorVerdict
    since_ms: int
    is_new: bool


class AlertMessage(NamedTuple):
    """A message: the problems now, the gravest first, and those that are over."""

    problems: Sequence[FoundProblem]
    recovered: Sequence[ReportedProblem]
    is_reminder: bool = False


def joined(findings: Iterable[ProcessFindings]) -> list[OperatorVerdict]:
    """Return the problems that several processes found, each once, the gravest first.

    A sender is silent only if no process has an event of it."""
    reports = list(findings)
    active = {subject for each in reports for subject in each.active}
    found: dict[tuple[str, str], OperatorVerdict] = {}
    for report in reports:
        for each in _once_per_subject(report.verdicts):
            if each.name != SILENT_SENDER or each.subject not in active:
                found.setdefault((each.name, each.subject), each)
    return sorted(found.values(), key=lambda each: rank(each.name, each.severity))


def _once_per_subject(verdicts: Iterable[OperatorVerdict]) -> Iterable[OperatorVerdict]:
    """Return the verdicts of one process. Those that differ only in detail and cure become one."""
    found: dict[tuple[str, str], OperatorVerdict] = {}
    for each in verdicts:
        key = each.name, each.subject
        first = found.get(key)
        detail = each.detail if first is None else f"{first.detail}; {each.detail}"
        found[key] = msgspec.structs.replace(first or each, detail=detail)
    return found.values()


class _Sighting(NamedTuple):
    """A problem that was found, or that was reported before this process sent alerts.

    Attributes:
        verdict: The last verdict.
        since_ms: The time at which the problem was first found.
        last: The monotonic time of the last look that found it, in seconds.
        looks: The number of looks that found it.
    """

    verdict: OperatorVerdict
    since_ms: int
    last: float
    looks: int


class AlertWatch:
    """The problems that one alert has found, and when. It lives in the process that sends.

    Args:
        rule: when a message is sent.
        state: what was sent before.
        now: the monotonic clock in seconds. Problems that were reported count as found now, because nothing is
            known of the time before.
    """

    def __init__(self, rule: AlertRule, state: AlertState, now: float) -> None:
        self.rule = rule
        self.state = state
        self._seen = {
            each.key: _Sighting(each.verdict, each.since_ms, now, 1) for each in state.reported
        }

    def look(
        self, found: Iterable[OperatorVerdict], now: float, now_ms: int
    ) -> AlertMessage | None:
        """Note what was found, and return the message that is due, or None."""
        for each in found:
            if each.name in self.rule.when:
                key = each.name, each.subject
                before = self._seen.get(key, _Sighting(each, now_ms, now, 0))
                self._seen[key] = _Sighting(each, before.since_ms, now, before.looks + 1)
        settled = now - self.rule.settled
        self._seen = {key: each for key, each in self._seen.items() if each.last > settled}
        message = self._due(self._problems(now), now_ms)
        if message is None and self.state.failures:  # the message that failed is no longer due
            self.state = msgspec.structs.replace(self.state, failures=0, error="")
        return message

    def _problems(self, now: float) -> list[FoundProblem]:
        """Return the problems that were reported and are not over, and new ones that were found twice."""
        known = {each.key for each in self.state.reported}
        return [
            FoundProblem(each.verdict, each.since_ms, key not in known)
            for key, each in self._seen.items()
            if key in known or (each.last == now and each.looks > 1)
        ]

    def _due(self, problems: Sequence[FoundProblem], now_ms: int) -> AlertMessage | None:
        state, rule = self.state, self.rule
        over = [each for each in state.reported if each.key not in self._seen]
        waited = (now_ms - state.sent_ms) / 1000
        may_send = not 0 <= waited < rule.every  # a clock that was set back delays no message
        is_new = any(each.is_new for each in problems)
        reminds = bool(rule.remind and problems and waited >= rule.remind)
        if (over and not problems) or (may_send and (is_new or over or reminds)):
            return AlertMessage(problems, over, is_reminder=not is_new and not over)
        return None

    def sent(self, message: AlertMessage, now_ms: int) -> None:
        """Note that a message was sent."""
        sent_ms = now_ms if message.problems else self.state.sent_ms
        reported = [ReportedProblem(each.verdict, each.since_ms) for each in message.problems]
        self.state = AlertState(sent_ms, tuple(reported))

    def failed(self, error: str) -> None:
        """Note that a message could not be sent. The next look decides again what is due."""
        failures = self.state.failures + 1
        self.state = msgspec.structs.replace(self.state, failures=failures, error=error)
