"""Random histories that keep every promise, and one way for each verdict to break them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from proof.history import (
    Call,
    Delivery,
    Event,
    Fault,
    Left,
    Ownership,
    Record,
    Request,
    Terms,
    digest,
)

SUBSCRIPTIONS = ("billing", "audit")
TERMS = Terms(subscriptions=dict.fromkeys(SUBSCRIPTIONS, "events"))
BEGIN = -60.0  # the workers are started long before the first request, at 0
KILL = 50.0  # seconds from the begin of the run; worker 1 is killed, worker 2 takes over a second later
PAUSED, RESUMED = 100.0, 160.0  # of the subscription `billing`
LATER = 500.0  # seconds from the begin of the run, after the end of everything


@dataclass
class CleanHistory:
    """A history that a service may cause: sender repeats, failed attempts, dead letters, a kill and a pause.

    Attributes:
        records: The lines of the history, without its terms.
    """

    random: Random
    records: list[Record] = field(default_factory=list)

    def make(self) -> CleanHistory:
        for key in range(self.random.randint(1, 4)):
            self._send(f"key-{key}", self.random.randint(2, 12))
        for subscription in SUBSCRIPTIONS:
            for partition, end in (("0", KILL), ("1", None)):
                self.records.append(Ownership("worker-1", subscription, partition, BEGIN, end))
            self.records.append(Ownership("worker-2", subscription, "0", KILL + 1))
        self.records += [
            Fault("kill", "worker-1", KILL, KILL),
            Call("pause", "billing", PAUSED - 0.1, PAUSED, 200),
            Call("resume", "billing", RESUMED, RESUMED + 0.1, 200),
        ]
        self.random.shuffle(self.records)  # lines may have any order
        return self

    def _send(self, key: str, count: int) -> None:
        """Send the events of one key one after the other, each until it is acknowledged."""
        now = self.random.uniform(0, 120)
        free = dict.fromkeys(SUBSCRIPTIONS, 0.0)
        parked: set[str] = set()  # the subscriptions at which the key is parked until the end
        for number in range(count):
            event = Event(f"{key}-{number}", key, digest(f"{key} {number}".encode()))
            copies = self.random.choice((1, 1, 1, 2))
            for _ in range(copies - 1):
                status = self.random.choice((None, 503))
                self.records.append(Request("gateway-1", now, now + 0.2, status, (event,)))
                now += 0.3
            stored = now + 0.01  # a copy cannot arrive before it was sent
            acknowledged = replace(event, receipt=f"log/{event.id}")
            self.records.append(Request("gateway-1", now, now + 0.05, 202, (acknowledged,)))
            now += self.random.uniform(0.05, 12)
            parked |= {each for each in SUBSCRIPTIONS if self.random.random() < 0.03}
            for subscription in SUBSCRIPTIONS:
                if subscription in parked:
                    self.records.append(Left(subscription, event.id, "parked"))
                    continue
                begin = max(stored, free[subscription])
                free[subscription] = self._deliver(subscription, event, begin, copies)

    def _deliver(self, subscription: str, event: Event, now: float, copies: int) -> float:
        """Record the attempts of an event, and return the time at which its key is free."""
        for _ in range(self.random.choice((0, 0, 1, 2))):
            now = self._attempt(subscription, event, now, self.random.choice((None, 500)))
        if self.random.random() < 0.05:
            self.records.append(Left(subscription, event.id))
            return now
        for _ in range(self.random.randint(1, copies)):
            now = self._attempt(subscription, event, now, 204)
        if KILL - TERMS.commit < now < KILL:
            now = self._attempt(subscription, event, KILL + 2, 204)
        return now

    def _attempt(self, subscription: str, event: Event, now: float, status: int | None) -> float:
        start = now + self.random.uniform(0.001, 1)
        if subscription == "billing" and PAUSED < start < RESUMED:
            start = RESUMED + self.random.uniform(0.2, 1)
        end = start + self.random.uniform(0.001, 0.5)
        worker = "worker-1" if start < KILL else "worker-2"
        self.records.append(Delivery(subscription, worker, start, end, status, (event,)))
        return end

    def deliveries(self, condition: Callable[[Delivery], bool]) -> list[Delivery]:
        return [each for each in self.records if isinstance(each, Delivery) and condition(each)]

    def attempts(self, subscription: str, event: str) -> list[Delivery]:
        return self.deliveries(
            lambda each: (each.subscription, each.events[0].id) == (subscription, event)
        )

    def only_successes(self) -> list[Delivery]:
        """Return the deliveries of events that were sent once, and delivered once outside of the time of the kill."""
        done = [
            (d.subscription, d.events[0].id) for d in self.deliveries(lambda d: d.status == 204)
        ]
        sent = [r.events[0].id for r in self.records if isinstance(r, Request)]
        return self.deliveries(
            lambda d: (
                d.status == 204
                and done.count((d.subscription, d.events[0].id)) == 1
                and sent.count(d.events[0].id) == 1
                and not KILL - TERMS.commit <= d.end <= KILL + 1 + TERMS.settle
            )
        )

    def swap(self, old: Record, new: Record) -> None:
        self.records[self.records.index(old)] = new


def lose(history: CleanHistory) -> bool:
    """Remove all deliveries of one event to one subscription."""
    for chosen in _chosen(history, history.only_successes()):
        for each in history.attempts(chosen.subscription, chosen.events[0].id):
            history.records.remove(each)
        return True
    return False


def repeat(history: CleanHistory) -> bool:
    """Deliver an event again without a cause."""
    for chosen in _chosen(history, history.only_successes()):
        again = replace(chosen, start=chosen.end + 0.0001, end=chosen.end + 0.0002)
        history.records.append(again)
        return True
    return False


def overtake(history: CleanHistory) -> bool:
    """Finish an event only after the next event of its key was attempted."""
    for chosen in _chosen(history, history.only_successes()):
        key, number = chosen.events[0].id.rsplit("-", 1)
        later = history.attempts(chosen.subscription, f"{key}-{int(number) + 1}")
        if later:
            first = min(later, key=lambda each: each.start)
            late = replace(chosen, start=first.end + 0.0001, end=first.end + 0.0002)
            history.swap(chosen, replace(late, worker=first.worker))
            return True
    return False


def go_backwards(history: CleanHistory) -> bool:
    """Repeat two events of one key after another kill, the later one first."""
    for chosen in _chosen(history, history.only_successes()):
        key, number = chosen.events[0].id.rsplit("-", 1)
        singles = {
            (each.subscription, each.events[0].id): each for each in history.only_successes()
        }
        later = singles.get((chosen.subscription, f"{key}-{int(number) + 1}"))
        if later is not None:
            history.records.append(Fault("killed", "worker-3", chosen.start, LATER))
            at = history.random.uniform(LATER, LATER + 5)
            history.records += [
                replace(each, worker="worker-3", start=at + after, end=at + after + 0.1)
                for after, each in ((0, later), (1, chosen))
            ]
            return True
    return False


def attempt_at_once(history: CleanHistory) -> bool:
    """Begin an attempt of an event while another one of it is in flight."""
    for chosen in _chosen(history, history.only_successes()):
        middle = (chosen.start + chosen.end) / 2
        history.records.append(replace(chosen, start=middle, end=chosen.end, status=500))
        return True
    return False


def invent(history: CleanHistory) -> bool:
    """Deliver an event that was never sent."""
    event = Event("nobody-sent-it", "another key", digest(b""))
    history.records.append(Delivery("billing", "worker-1", 10, 10.1, 204, (event,)))
    return True


def change(history: CleanHistory) -> bool:
    """Deliver an event with other bytes."""
    for chosen in _chosen(history, history.deliveries(lambda _: True)):
        other = replace(chosen.events[0], hash=digest(b"other"))
        history.swap(chosen, replace(chosen, events=(other,)))
        return True
    return False


def reuse_receipt(history: CleanHistory) -> bool:
    """Acknowledge two events with one place in the log."""
    stored = [r for r in history.records if isinstance(r, Request) and r.status == 202]
    first, second = history.random.sample(stored, 2)
    other = replace(second.events[0], receipt=first.events[0].receipt)
    history.swap(second, replace(second, events=(other,)))
    return True


def ignore_pause(history: CleanHistory) -> bool:
    """Begin the first attempt of another event in the pause."""
    event = Event("sent-in-pause", "another key", digest(b""))
    start = PAUSED + TERMS.pause + history.random.uniform(0.001, 50)
    history.records.append(Request("gateway-1", PAUSED, PAUSED + 0.1, 202, (event,)))
    history.records += [
        Delivery(each, "worker-2", start, start + 0.1, 204, (event,)) for each in SUBSCRIPTIONS
    ]
    return True


def own_twice(history: CleanHistory) -> bool:
    """Let the first worker own its partition until after the lease."""
    first = Ownership("worker-1", "billing", "0", BEGIN, KILL)
    history.swap(first, replace(first, end=KILL + 1 + TERMS.lease + 0.001))
    return True


def _chosen(history: CleanHistory, deliveries: list[Delivery]) -> list[Delivery]:
    """Return the deliveries in a random order."""
    return history.random.sample(deliveries, len(deliveries))


BREACHES: dict[str, Callable[[CleanHistory], bool]] = {
    "lost": lose,
    "repeated": repeat,
    "out of order": overtake,
    "backwards": go_backwards,
    "two at once": attempt_at_once,
    "invented": invent,
    "changed": change,
    "one receipt": reuse_receipt,
    "begun in pause": ignore_pause,
    "two owners": own_twice,
}
"""One way to break the promise of each verdict. Each returns False if the history offers no place for it."""
