"""``skybridge audit``: who operated the service, who looked at event data, and with which outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from app.cli import printing
from app.cli.admin_client import Service
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.cli.printing import Column

MOST = 1000  # entries of one page

_ENTRIES: Sequence[Column] = (
    "id",
    ("at", printing.moment_of("at_ms")),
    ("times", "count"),
    ("last", printing.moment_of("last_ms")),
    "kind",
    "who",
    ("from", "address"),
    "operation",
    "target",
    "status",
    "detail",
)


@verb(
    "audit",
    "skybridge audit",
    "skybridge audit --kind login",
    "skybridge audit --kind look --since 2026-01-01T00:00:00Z",
    "skybridge audit --who ana --operation pause_subscription",
    "skybridge audit --target billing --limit 500 --json",
)
def audit(
    kind: Annotated[str, option("Only change, login, look or refusal.")] = "",
    who: Annotated[str, option("Only of the token with this name.")] = "",
    operation: Annotated[str, option("Only this operation, by its id in openapi.json.")] = "",
    target: Annotated[str, option("Only on this object.")] = "",
    since: Annotated[
        str, option("At this time or later: 2026-01-01T00:00:00Z, or milliseconds.")
    ] = "",
    until: Annotated[str, option("Before this time.")] = "",
    limit: Annotated[int, option("Most entries.", "-n", min=1)] = 50,
    *,
    service: Service,
) -> None:
    """Show changes, logins, looks at event data and refused requests, the newest first: who, from where, on what,
    and the status of the answer.

    Requests alike within an hour are one entry, with how many there were and the time of the last. A change that
    succeeded always has an entry of its own. An entry without a status is of a request that was never answered. Event data and secrets are never part
    of an entry."""
    query = {
        "kind": kind,
        "who": who,
        "operation": operation,
        "target": target,
        "since": since,
        "until": until,
    }
    service.show_all(_entries(service, query, limit), _ENTRIES)


def _entries(service: Service, query: dict[str, str], limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    before = None
    while len(found) < limit:
        left = min(limit - len(found), MOST)
        page = service.get("/v1/audit", {**query, "limit": left, "before": before})
        found += page["entries"]
        if page["next"] is None:
            break
        before = found[-1]["id"]
    return found
