"""Find in a status what needs a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from app.api.asked.readiness import RoleReadiness
from app.api.http.views import HealthView
from app.api.status.answers import SenderView, SpoolView, Status
from app.api.subscriptions.facts import facts_of
from app.delivery.service_verdicts import SenderFacts, ServiceFacts, SpoolFacts, verdicts
from app.delivery.subscription_verdicts import SubscriptionFacts
from app.model.operator_verdict import OperatorVerdict

_NAMED_BY_COMPONENTS = frozenset(
    {"broker-away", "store-away", "not-ready", "disabled", "cannot-run", "restarting", "paused"}
)
"""The verdicts that readiness has among its causes anyway."""
_OF_GATEWAY = frozenset({"route", "producer", "intake"})


def attention(
    status: Status,
    *,
    reloaded: float | None,
    deleted: Mapping[str, Mapping[str, int]],
    broken: Iterable[SubscriptionFacts] = (),
) -> list[OperatorVerdict]:
    """Return what of a status needs a person, the gravest first.

    Args:
        status: The status, without its attention.
        reloaded: The seconds since the last reload that changed something, or None if there was none.
        deleted: Dead letters by cause, of each subscription that no longer exists.
        broken: Subscriptions that no process can run.
    """
    facts = _facts(status, reloaded, deleted, [*map(facts_of, status.subscriptions), *broken])
    return verdicts(facts)


def _facts(
    status: Status,
    reloaded: float | None,
    deleted: Mapping[str, Mapping[str, int]],
    subscriptions: Sequence[SubscriptionFacts],
) -> ServiceFacts:
    configured = status.configuration
    return ServiceFacts(
        file=configured.source or "skybridge.yaml",
        brokers={name: _cause_of(health) for name, health in status.brokers.items()},
        store_cause=_cause_of(status.store),
        disks={path: each.free / max(1, each.size) for path, each in status.disks.items()},
        roles={role: state.causes for role, state in status.readiness.items()},
        spools=list(map(_spool, status.spools)),
        senders=[*_senders("producer", status.producers), *_senders("intake", status.intakes)],
        reloaded=reloaded,
        refusals=configured.last.faults if configured.last.outcome == "refused" else None,
        alerts={each.name: each.error for each in status.alerts},
        subscriptions=subscriptions,
        deleted=deleted,
    )


def _cause_of(health: HealthView) -> str:
    """Return why a part does not answer, or "" if it does."""
    return "" if health.healthy else health.cause or "it does not answer"


def _spool(each: SpoolView) -> SpoolFacts:
    return SpoolFacts(
        route=each.route,
        state=each.state,
        records=each.records,
        bytes=each.bytes,
        most=each.most,
        cause=each.cause,
        oldest=each.oldest_seconds,
    )


def _senders(kind: str, views: Sequence[SenderView]) -> Iterator[SenderFacts]:
    for each in views:
        yield SenderFacts(kind=kind, name=each.name, last=each.last_event_seconds)


def with_attention(
    role: str, state: RoleReadiness, found: Iterable[OperatorVerdict]
) -> RoleReadiness:
    """Return the readiness of a role with the verdicts on its work among its causes. They never change
    whether it is ready."""
    causes = [
        f"{each.subject}: {each.detail}. Cure: {each.cure}"
        for each in found
        if each.name not in _NAMED_BY_COMPONENTS and role in _roles_of(each)
    ]
    return state.model_copy(update={"causes": [*state.causes, *causes]})


def _roles_of(each: OperatorVerdict) -> Sequence[str]:
    """Return the roles whose readiness names a verdict."""
    kind = each.subject.partition(" ")[0]
    if kind == "subscription":
        return ("worker",)
    return ("gateway",) if kind in _OF_GATEWAY else ("gateway", "worker")
