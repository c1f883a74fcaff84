"""Find the problems in a status that an operator must solve: they do not recover, or have not for five
minutes."""

from __future__ import annotations

from collections.abc import Iterator

from app.api.status.answers import Attention, Status
from app.api.subscriptions.answers import SubscriptionView, retry_command

LATE = 300.0  # seconds that an event may wait before its subscription is listed
NEARLY_FULL = 0.15  # free share of a volume; the chart's alert has the same default
_DEAD = frozenset({"broken", "restarting", "stopped"})


def attention(status: Status) -> Iterator[Attention]:
    """Yield the problems of a status, the gravest first: brokers, store, disks and roles, then subscriptions,
    then settings."""
    file = status.configuration.source or "skybridge.yaml"
    connect = f"skybridge check {file} --connect"
    yield from _brokers(status, connect)
    yield from _disks(status)
    yield from _roles(status, connect)
    for each in status.subscriptions:
        yield from _subscription(each)
    last = status.configuration.last
    if last.outcome == "refused":
        detail = f"the last reload refused the file: {'; '.join(last.faults)}"
        yield Attention(subject="configuration", detail=detail, next=f"skybridge check {file}")


def _brokers(status: Status, command: str) -> Iterator[Attention]:
    for name, health in status.brokers.items():
        if not health.healthy:
            yield Attention(subject=f"broker {name}", detail=health.cause, next=command)
    if not status.store.healthy:
        yield Attention(subject="store", detail=status.store.cause, next=command)


def _disks(status: Status) -> Iterator[Attention]:
    for path, disk in status.disks.items():
        free = disk.free / max(1, disk.size)
        if free < NEARLY_FULL:
            detail = f"{free:.0%} of the volume is free"
            yield Attention(subject=f"disk {path}", detail=detail, next=f"df -h {path}")


def _roles(status: Status, command: str) -> Iterator[Attention]:
    """Yield causes of roles that are not ready, such as a missing target or a failing task. Brokers, the
    store and subscriptions of this process are left out, because other functions list them."""
    listed = {f"broker {name}:" for name, health in status.brokers.items() if not health.healthy}
    listed.add("store:")
    subscriptions = {f"subscription {each.id}" for each in status.subscriptions}
    for role, state in status.readiness.items():
        for cause in state.causes:
            named = (
                cause.partition(" is ")[0] in subscriptions
            )  # a set, because there may be a thousand subscriptions
            if not named and not any(each in cause for each in listed):
                yield Attention(subject=f"role {role}", detail=cause, next=command)


def _subscription(each: SubscriptionView) -> Iterator[Attention]:
    """Yield the problems of one subscription."""
    name = each.id
    subject = f"subscription {name}"
    if each.state == "disabled":
        cause = each.cause.removeprefix("disabled: ")
        detail = f"disabled, nothing is sent: {cause}"
        command = f"skybridge subscriptions resume {name}"
        yield Attention(subject=subject, detail=detail, next=command)
    elif each.state in _DEAD:
        detail = f"{each.state}: {each.cause}"
        command = f"skybridge subscriptions show {name}"
        yield Attention(subject=subject, detail=detail, next=command)
    elif (each.oldest or 0.0) > LATE and not _is_paused_by_operator(each):
        why = each.cause or each.last_error
        detail = f"its oldest event has waited for {_duration_text(each.oldest)}" + (
            why and f": {why}"
        )
        paused = each.paused_for is not None
        command = retry_command(each) if paused else f"skybridge attempts --subscription {name}"
        yield Attention(subject=subject, detail=detail, next=command)
    if (each.parked.oldest_seconds or 0.0) > LATE:
        waits = _duration_text(each.parked.oldest_seconds)
        detail = f"{each.parked.rows} events of {each.parked.keys} keys are parked, the oldest for {waits}"
        command = retry_command(each) or f"skybridge parked --subscription {name}"
        yield Attention(subject=subject, detail=detail, next=command)
    if each.dead_letters:
        causes = ", ".join(f"{cause}: {n}" for cause, n in sorted(each.dead_letters.items()))
        detail = f"dead letters ({causes}). Repair the target, then redrive or discard them"
        command = f"skybridge dead-letters redrive --subscription {name}"
        yield Attention(subject=subject, detail=detail, next=command)


def _is_paused_by_operator(each: SubscriptionView) -> bool:
    """Return True if an operator or the configuration paused the subscription. A pause of the endpoint ends
    by itself."""
    return each.state == "paused" and each.paused_for is None


def _duration_text(seconds: float | None) -> str:
    """Return a duration in days, hours and minutes."""
    minutes = int(seconds or 0) // 60
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
