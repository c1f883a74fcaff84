"""Decide what of a service needs a person, from facts.

=====================================================  ================  =======================================
facts                                                  verdict           cure
=====================================================  ================  =======================================
a broker does not answer                               broker-away       start the broker.
the store does not answer                              store-away        start the database.
a spool takes events, or is removed with events        spool-filling     start the broker of its route.
a volume is nearly full                                disk              free space.
a role is not ready for another cause                  not-ready         follow the cause.
dead letters of a subscription that does not exist     dead-letters      discard them.
a sender sent until a reload, and no event since       silent-producer   compare its key, route and rights.
the last reload was refused                            reload-refused    correct the file.
the channel of an alert takes no messages              alert-fails       correct its URL or key.
facts of a subscription                                                  see ``subscription_verdicts``.
=====================================================  ================  =======================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from app.delivery.subscription_verdicts import (
    SubscriptionFacts,
    counted,
    duration_text,
    letter_verdicts,
    subscription_verdicts,
)
from app.model.cause import STORE, Cause, broker_subject, subscription_subject
from app.model.operator_verdict import OperatorVerdict, Severity, VerdictName, rank

NEARLY_FULL = 0.15  # free share of a volume or a spool; the chart's alert has the same default

SILENT = 300.0  # seconds without an event after a reload
ACTIVE = 300.0  # seconds before the reload in which a sender must have sent an event


class SpoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about the spool of one route. ``most`` is its bound in bytes, or 0 if its setting is removed."""

    route: str
    state: str
    records: int = 0
    bytes: int = 0
    most: int = 0
    cause: str = ""
    oldest: float = 0.0


class SenderFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about one producer or intake. ``last`` is the time in seconds since its last event, or None if
    it has sent none."""

    kind: str
    name: str
    last: float | None = None


class ServiceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a service from which verdicts follow.

    Attributes:
        file: The configuration file.
        brokers: Why each broker does not answer, or "" if it does, by name.
        store_cause: Why the store does not answer, or "" if it does.
        disks: The free share of each volume, by folder.
        roles: The causes of each role that is not ready. A ``Cause`` names the part at fault.
        spools: The spools of routes.
        senders: The producers and intakes.
        reloaded: The seconds since the last applied reload, or None if there was none.
        refusals: The faults for which the last reload was refused.
        alerts: Why the channel of each alert takes no messages, or "" if it does, by name.
        subscriptions: The subscriptions.
        deleted: The number of dead letters by cause, of each subscription that does not exist.
    """

    file: str = "skybridge.yaml"
    brokers: Mapping[str, str] = {}
    store_cause: str = ""
    disks: Mapping[str, float] = {}
    roles: Mapping[str, Sequence[str]] = {}
    spools: Sequence[SpoolFacts] = ()
    senders: Sequence[SenderFacts] = ()
    reloaded: float | None = None
    refusals: Sequence[str] | None = None
    alerts: Mapping[str, str] = {}
    subscriptions: Sequence[SubscriptionFacts] = ()
    deleted: Mapping[str, Mapping[str, int]] = {}


def verdicts(facts: ServiceFacts) -> list[OperatorVerdict]:
    """Return everything that needs a person, the gravest first. A broker that does not answer is one verdict,
    not one for each of its subscriptions."""
    found = [*_service(facts)]
    for each in facts.subscriptions:
        found += [one for one in subscription_verdicts(each) if one.name != "broker-away"]
    return sorted(found, key=lambda each: rank(each.name, each.severity))


def _service(facts: ServiceFacts) -> Iterator[OperatorVerdict]:
    connect = f"skybridge check {facts.file} --connect"
    yield from _away(facts, connect)
    yield from _roles(facts, connect)
    for each in facts.spools:
        yield from _spool(each, connect)
    for path, free in facts.disks.items():
        if free < NEARLY_FULL:
            detail = f"{free:.0%} of the volume is free"
            yield _verdict("disk", "error", f"disk {path}", detail, "free space", f"df -h {path}")
    for name, letters in facts.deleted.items():
        yield from letter_verdicts(name, letters, deleted=True)
    if facts.reloaded is not None:
        yield from _silent(facts.senders, facts.reloaded)
    if facts.refusals is not None:
        detail = f"the last reload refused the file: {'; '.join(facts.refusals)}"
        cure, command = "correct the file", f"skybridge check {facts.file}"
        yield _verdict("reload-refused", "error", "configuration", detail, cure, command)
    yield from _alerts(facts.alerts)


def _alerts(alerts: Mapping[str, str]) -> Iterator[OperatorVerdict]:
    for name, cause in alerts.items():
        if cause:
            detail = f"its channel does not take the message: {cause}"
            cure = "correct the URL or the key of the channel"
            command = f"skybridge alerts test {name}"
            yield _verdict("alert-fails", "warning", f"alert {name}", detail, cure, command)


def _away(facts: ServiceFacts, connect: str) -> Iterator[OperatorVerdict]:
    for name, cause in facts.brokers.items():
        if cause:
            cure = "start the broker, or correct its address and credentials"
            yield _verdict("broker-away", "error", f"broker {name}", cause, cure, connect)
    if facts.store_cause:
        cure = "start the database of the store, or free its volume"
        yield _verdict("store-away", "error", "store", facts.store_cause, cure, connect)


def _roles(facts: ServiceFacts, connect: str) -> Iterator[OperatorVerdict]:
    """Yield causes of roles that are not ready, such as a missing target or a failing task. Causes that other
    facts explain are left out."""
    known = {broker_subject(name) for name, cause in facts.brokers.items() if cause}
    known |= {subscription_subject(each.id) for each in facts.subscriptions}
    known.add(STORE)
    for role, causes in facts.roles.items():
        for cause in causes:
            if not (isinstance(cause, Cause) and cause.subject in known):
                cure = "the cause names it"
                yield _verdict("not-ready", "error", f"role {role}", cause, cure, connect)


def _spool(each: SpoolFacts, connect: str) -> Iterator[OperatorVerdict]:
    if each.state not in {"spooling", "removed"} or not each.records:
        return
    waits = f"{counted(each.records, 'event', 'wait')} in the spool, the oldest for {duration_text(each.oldest)}"
    used = (
        f"{each.bytes / each.most:.0%} of spool.max is used" if each.most else "its setting is gone"
    )
    why = each.cause and f": {each.cause}"
    full = each.most > 0 and each.bytes > (1 - NEARLY_FULL) * each.most
    severity: Severity = "error" if full else "warning"
    cure = "start the broker of the route; a full spool refuses events"
    detail = f"{waits}, {used}{why}"
    yield _verdict("spool-filling", severity, f"route {each.route}", detail, cure, connect)


def _silent(senders: Iterable[SenderFacts], reloaded: float) -> Iterator[OperatorVerdict]:
    """Yield the senders that sent events until the reload, and none since."""
    for each in senders:
        was_active = each.last is not None and 0 < each.last - reloaded <= ACTIVE
        if not was_active or reloaded < SILENT:
            continue
        time = duration_text(reloaded)
        detail = f"sent events until the reload {time} ago, and none since"
        cure = "compare its key, its rights and its route with the changed configuration"
        subject = f"{each.kind} {each.name}"
        command = "skybridge producers list" if each.kind == "producer" else "skybridge status"
        yield _verdict("silent-producer", "warning", subject, detail, cure, command)


def _verdict(
    name: VerdictName, severity: Severity, subject: str, detail: str, cure: str, command: str
) -> OperatorVerdict:
    return OperatorVerdict(
        name=name, severity=severity, subject=subject, detail=detail, cure=cure, command=command
    )
