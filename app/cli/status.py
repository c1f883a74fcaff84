"""``skybridge status`` shows a running service on one screen, with the problems that need a person
first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import exits, options, printing, states
from app.cli.admin_client import AdminClient
from app.cli.states import state_word
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.cli.printing import Column

Found = dict[str, Any]
POLL = 0.5  # seconds between requests for the spools


@verb(
    "status",
    "skybridge status",
    "skybridge status --interval 0                       # one request, no rates",
    "skybridge status --json | jq .attention",
    "skybridge status > /dev/null || echo 'needs a person'",
    "skybridge status --drained 60                       # before a spool's volume is removed",
)
def run(
    interval: Annotated[
        float, option("Measure the rates over this many seconds; 0: show no rates.", min=0, max=60)
    ] = 1.0,
    *,
    drained: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Wait at most this many seconds until every spool is empty, and show no screen; exit with 1 if "
            "events are left.",
        ),
    ] = None,
    service: AdminClient,
) -> None:
    """Show the state of a running service on one screen.

    The screen has brokers, routes, subscriptions, parked events, dead letters and disks. Problems
    that need a person come first, each with its cure and a command; then the exit code is 1. A
    subscription that an operator paused is listed too, but does not change the exit code.
    Rates are those of the answering process between two requests.
    """
    if drained is not None:
        options.refuse_ineffective("--drained shows no screen", "interval")
        _wait(service, drained)
        return
    found = _status_with_rates(service, interval)
    service.show(found, _show)
    if any(each["severity"] != "notice" for each in found["attention"]):
        raise typer.Exit(exits.FAILED)


def _wait(service: AdminClient, within: float) -> None:
    """Wait until every spool is empty, or fail after ``within`` seconds. New events can keep a
    spool from being empty.
    """
    import time

    deadline = time.monotonic() + within
    while left := [each for each in service.get("/status")["spools"] if each["records"]]:
        if time.monotonic() >= deadline:
            waiting = ", ".join(f"{each['records']} of route {each['route']}" for each in left)
            printing.fail(
                f"Spools still hold events after {within:g} s: {waiting}.",
                cure="Keep the volume: the next start with it drains the spools.",
            )
        time.sleep(POLL)


def _status_with_rates(service: AdminClient, interval: float) -> Found:
    """Return the last answer, with the rate ``per_second`` of each route and subscription.

    The rate is None if the interval is 0, or if the service restarted between the two requests.
    """
    import time

    before = service.get("/status") if interval else {}
    if interval:
        time.sleep(interval)
    found: Found = service.get("/status")
    seconds = found["uptime_seconds"] - before.get("uptime_seconds", float("inf"))
    for kind, name, count in (("routes", "name", "events"), ("subscriptions", "id", "delivered")):
        was = {each[name]: each[count] for each in before.get(kind, ())}
        for each in found[kind]:
            known = seconds > 0 and each[name] in was
            each["per_second"] = (
                round((each[count] - was[each[name]]) / seconds, 3) if known else None
            )
    return found


def _show(found: Found) -> None:
    if found["attention"]:
        printing.text_line("NEEDS A PERSON")
        for each in found["attention"]:
            printing.text_line(f"  {each['subject']}: {printing.escape_line(each['detail'])}")
            printing.text_line(f"    cure: {each['cure']}")
            printing.text_line(f"    next: {each['next']}")
        printing.text_line("")
    ready = "ready" if found["ready"] else "not ready"
    roles, configured = "+".join(found["roles"]), found["configuration"]
    printing.text_line(
        f"{found['installation']}  skybridge {found['version']}  {roles}  {ready}  "
        f"up {_span(found['uptime_seconds'])}  configuration {configured['digest']}"
    )
    healths = {**found["brokers"], "(store)": found["store"]}
    _table(
        ("broker", ("state", _up), ("cause", lambda each: each["cause"] or None)),
        [{"broker": name, **health} for name, health in healths.items()],
    )
    _table(_ROUTES, found["routes"])
    if "worker" in found["roles"]:
        _table(_SUBSCRIPTIONS, found["subscriptions"])
    else:
        printing.text_line("\nsubscriptions run in another process: name the worker with --server")
    _table(_SENDERS, [*found["producers"], *found["intakes"]])
    _table(_SPOOLS, found["spools"])
    _table(_DISKS, [{"disk": path, **volume} for path, volume in sorted(found["disks"].items())])


def _table(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        printing.text_line("")
        printing.print_rows(columns, rows)


def _up(health: Mapping[str, Any]) -> str:
    return "up" if health["healthy"] else "down"


def _waits(each: Mapping[str, Any]) -> str | None:
    oldest = states.oldest_seconds(each)
    return None if oldest is None else _span(oldest)


def _cause(each: Mapping[str, Any]) -> str | None:
    until = each["paused_for"]
    cause = each["cause"].removeprefix(f"{each['state']}: ")
    probe = "" if until is None else f" (next probe in {_span(until)})"
    return (printing.escape_line(cause) + probe).strip() or None


def _span(seconds: float) -> str:
    """Return a duration as text, in the largest unit of which it has at least two. For example, 119
    seconds are shown in seconds and 120 seconds as 2 minutes.
    """
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f}GiB"


_ROUTES: Sequence[Column] = (
    ("route", "name"),
    ("to", lambda each: ",".join(f"{to['broker']}/{to['topic']}" for to in each["to"])),
    ("per second", "per_second"),
    ("stored", "events"),
    ("not stored", "unpublished"),
    ("filter errors", "filter_errors"),
)
_SUBSCRIPTIONS: Sequence[Column] = (
    ("subscription", "id"),
    ("state", state_word),
    "lag",
    ("per second", "per_second"),
    ("delivered", "delivered"),
    ("oldest", _waits),
    ("parked", states.parked_rows),
    ("dead letters", states.dead_letters),
    ("filter errors", "filter_errors"),
    ("cause", _cause),
)
_SENDERS: Sequence[Column] = (
    ("sender", "name"),
    ("per second", "events_per_second"),
    "events",
    "refused",
    ("last", lambda each: None if (ago := each["last_event_seconds"]) is None else _span(ago)),
)
_SPOOLS: Sequence[Column] = (
    ("spool of", "route"),
    "state",
    "records",
    ("oldest", lambda each: _span(each["oldest_seconds"]) if each["records"] else None),
    ("size", lambda each: _gib(each["bytes"])),
    ("most", lambda each: _gib(each["most"])),
    "repeats",
    ("cause", lambda each: printing.escape_line(each["cause"]) or None),
)
_DISKS: Sequence[Column] = (
    "disk",
    ("free", lambda each: _gib(each["free"])),
    ("size", lambda each: _gib(each["size"])),
    ("free %", lambda each: f"{100 * each['free'] / max(1, each['size']):.0f}"),
)
