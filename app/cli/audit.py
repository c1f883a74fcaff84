"""``skybridge audit`` shows the audit log: changes, logins, looks at event data and refused
requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from app.cli import printing, values
from app.cli.admin_client import AdminClient
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.cli.printing import Column

PAGE_SIZE = 1000  # entries per request

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
    kind: Annotated[
        Literal["change", "login", "look", "refusal"] | None,
        option(
            "Show only entries of this kind, such as look: a reader saw event data; by default all."
        ),
    ] = None,
    who: Annotated[
        str, option("Show only requests made with the token of this name; by default all.")
    ] = "",
    operation: Annotated[
        str,
        option(
            "Show only requests for this operation (an operationId of openapi.json); by default all."
        ),
    ] = "",
    target: Annotated[
        str, option("Show only requests on this object, such as a subscription; by default all.")
    ] = "",
    since: Annotated[
        str,
        option(
            "Show entries from this time on: a duration such as 1h, or 2026-01-01T00:00:00Z.",
            callback=values.moment,
        ),
    ] = "",
    until: Annotated[
        str,
        option(
            "Show entries before this time, in the same form as --since.", callback=values.moment
        ),
    ] = "",
    limit: Annotated[int, option("Show at most this many entries.", "-n", min=1)] = 50,
    *,
    service: AdminClient,
) -> None:
    """Show the audit log, the newest entry first.

    Each entry has the token's name, the operation, the client's address, the object and the status
    of the answer. Equal requests within an hour share one entry, with their count and the time of
    the last one. A successful change always has an entry of its own. If a request was never
    answered, its entry has no status. Entries contain no event data and no secrets.
    """
    query = {
        "kind": kind or "",
        "who": who,
        "operation": operation,
        "target": target,
        "since": since,
        "until": until,
    }
    service.show_all(_entries(service, query, limit), _ENTRIES)


def _entries(service: AdminClient, query: dict[str, str], limit: int) -> list[dict[str, Any]]:
    """Return up to ``limit`` entries, the newest first. Request further pages until there are
    enough entries.
    """
    found: list[dict[str, Any]] = []
    before = None
    while len(found) < limit:
        left = min(limit - len(found), PAGE_SIZE)
        page = service.get("/v1/audit", {**query, "limit": left, "before": before})
        found += page["entries"]
        if page["next"] is None:
            break
        before = found[-1]["id"]
    return found
