"""The counters of each subscription over the last hour, for its charts. They are kept in memory and end with the
process."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.telemetry import Counters

POINTS = 360  # samples of a subscription, for an hour
MOST = 50_000  # samples of all subscriptions; with more subscriptions, each has a shorter history


class SubscriptionSample(NamedTuple):
    """The totals of a subscription at one time.

    Attributes:
        at: The time in seconds since the epoch.
        delivered: Events delivered since the start of the process.
        answers: Attempts since the start, by the status of the answer or by the fault.
    """

    at: float
    delivered: int
    answers: Mapping[str, int]


class LagSample(NamedTuple):
    """The lag of a group at a time in seconds since the epoch."""

    at: float
    lag: int


class SubscriptionHistories:
    """The samples of all subscriptions, and the lags of their groups."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[SubscriptionSample]] = defaultdict(deque)
        self._lags: dict[str, deque[LagSample]] = defaultdict(deque)

    def add(self, at: float, counters: Counters, lags: Mapping[str, int]) -> None:
        """Add a sample of each subscription that has counters, and of each group with a known lag."""
        answers = _answers(counters)
        delivered = {
            labels[0]: count
            for labels, count in counters.series("deliveries").items()
            if labels[-1] == "delivered"
        }
        for name in answers.keys() | delivered.keys():
            sample = SubscriptionSample(at, delivered.get(name, 0), answers.get(name, {}))
            self._samples[name].append(sample)
        for group, lag in lags.items():
            self._lags[group].append(LagSample(at, lag))
        for kept in (self._samples, self._lags):
            _shorten(kept)

    def of(self, subscription: str) -> Sequence[SubscriptionSample]:
        """Return the samples of a subscription, the oldest first."""
        return tuple(self._samples.get(subscription, ()))

    def lags_of(self, group: str) -> Sequence[LagSample]:
        """Return the lags of a group, the oldest first."""
        return tuple(self._lags.get(group, ()))


def _answers(counters: Counters) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for labels, count in counters.series("answers").items():
        found[labels[0]][labels[-1]] = count
    return found


def _shorten(
    kept: Mapping[str, deque[SubscriptionSample]] | Mapping[str, deque[LagSample]],
) -> None:
    """Remove the oldest samples beyond the bounds."""
    most = min(POINTS, max(2, MOST // max(1, len(kept))))
    for samples in kept.values():
        while len(samples) > most:
            samples.popleft()
