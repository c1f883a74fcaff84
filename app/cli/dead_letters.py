"""``skybridge dead-letters``: what was given up, why, and back again."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import asking, exits, letters, printing, redriving, verbs
from app.cli.asking import SERVER, Json, Server, Token
from app.cli.letters import Cause, Ids, Since, Source, Subscription, Type, Until

if TYPE_CHECKING:
    from collections.abc import Mapping

app = verbs.group(
    "dead-letters",
    "Messages that were given up: look, count, send again, throw away.\n\n"
    "A message becomes a dead letter when its target refuses it for good (415 and other 4xx), when its "
    "schedule of attempts is used up, or when it is no CloudEvent. It stays in the store, whole, until it "
    "is redriven or discarded. Begin with `count`, look at one with `show`, mend the target, then "
    "`redrive`.",
)
_verb = functools.partial(verbs.verb, app)

PATH = "/v1/dead-letters"
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@_verb(
    "list",
    "skybridge dead-letters list",
    "skybridge dead-letters list --subscription billing --cause status-415 --limit 500",
    "skybridge dead-letters list --since 2026-01-01T00:00:00Z --type 'com.example.*' --json",
)
def list_(
    subscription: Subscription = "",
    cause: Cause = None,
    since: Since = "",
    until: Until = "",
    source: Source = "",
    type_: Type = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """List dead letters, the newest first."""
    query = letters.chosen(subscription, cause, since, until, source, type_)
    found, more = _pages(server, token, query, limit)
    if as_json:
        for each in found:
            printing.json_line(each)
        return
    printing.table(
        ("id", "at", "subscription", "cause", "attempts", "type", "event id"),
        [_line(each) for each in found],
    )
    if more:
        printing.err().print("there are more: raise --limit, or see `count`", markup=False)


@_verb("show", "skybridge dead-letters show 17", "skybridge dead-letters show 17 --json")
def show(
    letter: Annotated[int, typer.Argument(help="Its id, as `list` shows it.", min=1)],
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Show one dead letter: where it comes from, why it is one, its event, its attempts."""
    missing = {404: "`skybridge dead-letters list` shows those that there are."}
    found = asking.ask(server, token, f"{PATH}/{letter}", cures=missing)
    if as_json:
        printing.json_line(found)
        return
    for name, value in _said(found):
        printing.text_line(f"{name:<13} {value}")
    if found["history"]:
        printing.text_line("")
        printing.table(
            ("attempt", "at", "ms", "outcome", "status", "detail"),
            [
                (
                    each["number"],
                    letters.moment(each["started_ms"]),
                    round(each["duration_ms"]),
                    each["outcome"],
                    each["status"],
                    printing.one_line(each["detail"]),
                )
                for each in found["history"]
            ],
        )


@_verb(
    "count",
    "skybridge dead-letters count",
    "skybridge dead-letters count --since 2026-01-01T00:00:00Z --json",
)
def count(
    subscription: Subscription = "",
    cause: Cause = None,
    since: Since = "",
    until: Until = "",
    source: Source = "",
    type_: Type = "",
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Count dead letters by subscription and cause."""
    query = letters.chosen(subscription, cause, since, until, source, type_)
    found = asking.ask(server, token, f"{PATH}/count", query)
    if as_json:
        printing.json_line(found)
    else:
        show_counts(found["counts"])


@_verb(
    "redrive",
    "skybridge dead-letters redrive --subscription billing --cause status-415",
    "skybridge dead-letters redrive --subscription billing --rate 50 --yes",
    "skybridge dead-letters redrive --id 17 --id 18",
    "skybridge dead-letters redrive --subscription billing --json          # counts only",
    "skybridge dead-letters redrive --subscription billing --json --yes",
)
def redrive(
    subscription: Subscription = "",
    cause: Cause = None,
    since: Since = "",
    until: Until = "",
    source: Source = "",
    type_: Type = "",
    id_: Ids = None,
    rate: Annotated[
        float, typer.Option(min=0, help="Letters a second, of each subscription; 0: at once.")
    ] = 0.0,
    yes: Yes = False,
    wait: Annotated[
        bool,
        typer.Option("--wait/--no-wait", help="Follow them, or leave when they are on their way."),
    ] = True,
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Send dead letters to their subscriptions again: same event, same id, one at a time a key.

    First it says what would go, then it asks. What fails again is a dead letter again. Interrupting it
    stops nothing that is on its way. With --json nothing goes without --yes."""
    choice = letters.chosen(subscription, cause, since, until, source, type_, id_)
    found = redriving.order(server, token, choice, dry_run=True)
    able = found["left"]
    if not as_json:
        show_counts(found["counts"])
        redriving.warn(found)
    if able and not yes and not as_json:
        _demand(f"Redrive {able} of them?")
    if not able or (as_json and not yes):
        if as_json:
            printing.json_line(found)
        return
    redriving.run(server, token, choice, found, rate=rate, wait=wait, as_json=as_json)


@_verb(
    "discard",
    "skybridge dead-letters discard --subscription billing --cause status-400",
    "skybridge dead-letters discard --until 2026-01-01T00:00:00Z --yes",
)
def discard(
    subscription: Subscription = "",
    cause: Cause = None,
    since: Since = "",
    until: Until = "",
    source: Source = "",
    type_: Type = "",
    id_: Ids = None,
    yes: Yes = False,
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Throw dead letters away for good. First it says which, then it asks."""
    choice = letters.chosen(subscription, cause, since, until, source, type_, id_)
    found = asking.post(server, token, f"{PATH}:discard", {**choice, "dry_run": True})
    if not as_json:
        show_counts(found["counts"])
    if found["matched"] and not yes and not as_json:
        _demand(f"Throw {found['matched']} of them away for good?")
    if found["matched"] and (yes or not as_json):
        found = asking.post(server, token, f"{PATH}:discard", {**choice, "dry_run": False})
    if as_json:
        printing.json_line(found)
    else:
        printing.text_line(f"discarded {found['discarded']}")


def show_counts(counts: list[Mapping[str, Any]]) -> None:
    columns = ("subscription", "cause", "count")
    printing.table(columns, [[each[name] for name in columns] for each in counts])


def _demand(question: str) -> None:
    """Leaves unless the answer is yes. Nobody to ask is no yes."""
    import sys

    if not sys.stdin.isatty():
        printing.fail(
            "nobody is there to be asked.", cure="Say --yes if you mean it.", code=exits.SETUP
        )
    if not typer.confirm(question):
        raise typer.Exit(exits.FAILED)


def _pages(
    server: str, token: str, query: dict[str, Any], limit: int
) -> tuple[list[dict[str, Any]], bool]:
    """So many of them, and whether there are more."""
    found: list[dict[str, Any]] = []
    query = {**query, "limit": min(limit, 1000)}
    while True:
        page = asking.ask(server, token, PATH, query)
        found += page["dead_letters"]
        if page["next"] is None or len(found) >= limit:
            return found[:limit], page["next"] is not None or len(found) > limit
        query["before"] = found[-1]["id"]


def _line(each: dict[str, Any]) -> tuple[Any, ...]:
    event = letters.event_of(each["message"])
    return (
        each["id"],
        letters.moment(each["at_ms"]),
        each["subscription"],
        each["cause"],
        each["attempts"],
        event.get("type"),
        event.get("id"),
    )


def _said(found: dict[str, Any]) -> list[tuple[str, Any]]:
    message = found["message"]
    place = f"{found['broker']}/{message['topic']}/{message['partition']}@{message['position']}"
    rows = [
        ("id", found["id"]),
        ("subscription", found["subscription"]),
        ("cause", found["cause"]),
        ("detail", printing.one_line(found["detail"])),
        ("attempts", found["attempts"]),
        ("given up", letters.moment(found["at_ms"])),
        ("from", place),
        ("key", message["key"]),
    ]
    event = message.get("event")
    if event is None:
        return [*rows, ("no event", _as_written(message.get("fault") or message.get("attributes")))]
    return [*rows, *((f"  {name}", _as_written(value)) for name, value in event.items())]


def _as_written(value: Any) -> str:
    """Text as it is, all else as JSON."""
    import msgspec

    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return printing.one_line(text)
