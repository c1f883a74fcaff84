"""``skybridge dead-letters`` lists, counts, redrives and discards dead letters."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from app.cli import exits, printing, redrive_progress, values, verbs
from app.cli.admin_client import AdminClient, Yes
from app.cli.redrive_progress import PATH
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.cli.printing import Column

app = verbs.group(
    "dead-letters",
    "List, count, redrive or discard dead letters.\n\n"
    "A message becomes a dead letter if its target refuses it for good (415 and most other 4xx), if its "
    "retry schedule is exhausted, or if it is not a CloudEvent. The store keeps the whole message until it "
    "is redriven or discarded. Begin with `count`, inspect one with `show`, repair the target, then "
    "`redrive`.",
)

Ids = Annotated[
    list[int] | None, option("Select the dead letter with this id; may be repeated.", "--id", min=1)
]


class DeadLetterSelection(NamedTuple):
    """The options that select dead letters."""

    subscription: Annotated[
        list[str] | None,
        option(
            "Select dead letters of this subscription; may be repeated; by default all.",
            "--subscription",
            "-s",
        ),
    ] = None
    cause: Annotated[
        list[str] | None,
        option(
            "Select dead letters with this cause, as `dead-letters count` shows it, such as status-415; may be repeated; by default all.",
            "-c",
        ),
    ] = None
    since: Annotated[
        str,
        option(
            "Select dead letters from this time on: a duration such as 1h, or 2026-01-01T00:00:00Z.",
            callback=values.moment,
        ),
    ] = ""
    until: Annotated[
        str,
        option(
            "Select dead letters before this time, in the same form as --since.",
            callback=values.moment,
        ),
    ] = ""
    source: Annotated[
        str, option("Select dead letters of events from this source; by default all.")
    ] = ""
    type: Annotated[
        str,
        option(
            "Select dead letters of events with this type, or com.example.* for a prefix; by default all.",
            "-t",
        ),
    ] = ""

    def with_ids(self, ids: Sequence[int] | None) -> dict[str, Any]:
        """Return the selection as query parameters of the API. Options that were not set are left
        out.
        """
        return {name: it for name, it in {**self._asdict(), "id": ids}.items() if it}


@app.verb(
    "list",
    "skybridge dead-letters list",
    "skybridge dead-letters list --subscription billing --cause status-415 --limit 500",
    "skybridge dead-letters list --since 2026-01-01T00:00:00Z --type 'com.example.*' --json",
)
def list_(
    choice: DeadLetterSelection,
    limit: Annotated[int, option("Show at most this many dead letters.", "-n", min=1)] = 50,
    *,
    service: AdminClient,
) -> None:
    """List dead letters, the newest first."""
    found, more = _pages(service, choice, limit)
    if not found:
        service.demand_subscriptions(*choice.subscription or ())
    service.show_all(found, _LETTERS)
    if more and not service.as_json:
        printing.err().print(
            "There are more dead letters: raise --limit, or run `count`.", markup=False
        )


@app.verb("show", "skybridge dead-letters show 17", "skybridge dead-letters show 17 --json")
def show(
    letter: Annotated[
        int,
        typer.Argument(
            help="Show the dead letter with this id, as `dead-letters list` shows it.", min=1
        ),
    ],
    *,
    service: AdminClient,
) -> None:
    """Show one dead letter with its event and attempts.

    The output has the source, the cause, the event and every attempt that is still stored.
    """
    service.show(service.get(f"{PATH}/{letter}"), _show)


@app.verb(
    "count",
    "skybridge dead-letters count",
    "skybridge dead-letters count --since 2026-01-01T00:00:00Z --json",
)
def count(choice: DeadLetterSelection, *, service: AdminClient) -> None:
    """Count dead letters by subscription and cause."""
    found = service.get(f"{PATH}/count", choice._asdict())
    if not found["counts"]:
        service.demand_subscriptions(*choice.subscription or ())
    service.show(found, _show_counts)


@app.verb(
    "redrive",
    "skybridge dead-letters redrive --subscription billing --cause status-415",
    "skybridge dead-letters redrive --subscription billing --subscription audit --rate 50 --yes",
    "skybridge dead-letters redrive --id 17 --id 18",
    "skybridge dead-letters redrive --subscription billing --json          # counts only",
    "skybridge dead-letters redrive --subscription billing --json --yes",
)
def redrive(
    choice: DeadLetterSelection,
    id_: Ids = None,
    rate: Annotated[
        float,
        option(
            "Send at most this many dead letters per second for each subscription; 0: no limit.",
            min=0,
            max=values.FASTEST,
        ),
    ] = 0.0,
    yes: Yes = False,
    wait: Annotated[
        bool,
        option("Show the progress until the end; --no-wait returns at once.", "--wait/--no-wait"),
    ] = True,
    *,
    service: AdminClient,
) -> None:
    """Send dead letters to their subscriptions again.

    The event and its id stay the same, and events of one key are sent one at a time. The command
    first counts the dead letters and asks for confirmation. An event that fails again becomes a
    dead letter again. If you interrupt the command, the redrive continues. With --json, --yes is
    required too.
    """
    chosen = choice.with_ids(id_)
    found = redrive_progress.post_redrive(service, chosen, dry_run=True)
    if not service.as_json:
        _show_counts(found)
        redrive_progress.warn(found)
    if _is_confirmed(found["left"], "Redrive {}?", yes=yes, service=service):
        redrive_progress.run(service, chosen, found, rate=rate, wait=wait)
    elif service.as_json:
        printing.json_line(found)


@app.verb(
    "discard",
    "skybridge dead-letters discard --subscription billing --cause status-400",
    "skybridge dead-letters discard --until 2026-01-01T00:00:00Z --yes",
)
def discard(
    choice: DeadLetterSelection, id_: Ids = None, yes: Yes = False, *, service: AdminClient
) -> None:
    """Delete dead letters for good. The command first counts them and asks for confirmation."""
    chosen = choice.with_ids(id_)
    found = service.post(f"{PATH}:discard", {**chosen, "dry_run": True})
    if not found["counts"]:
        service.demand_subscriptions(*choice.subscription or ())
    if not service.as_json:
        _show_counts(found)
    question = "Discard {} for good?"
    if _is_confirmed(found["matched"], question, yes=yes, service=service):
        found = service.post(f"{PATH}:discard", {**chosen, "dry_run": False})
    service.show(found, lambda found: printing.text_line(f"discarded {found['discarded']}"))


def _is_confirmed(count: int, question: str, *, yes: bool, service: AdminClient) -> bool:
    """Return True if the action is confirmed and at least one dead letter matches.

    With --json, only --yes confirms the action. The command ends if the user answers no, or if
    there is neither a terminal nor --yes.
    """
    if not count or yes or service.as_json:
        return bool(count) and yes
    if not sys.stdin.isatty():
        printing.fail(
            "The command needs a confirmation, and there is no terminal to ask on.",
            cure="Add --yes to confirm.",
            code=exits.SETUP,
        )
    if not typer.confirm(question.format(printing.counted(count, "dead letter"))):
        raise typer.Exit(exits.FAILED)
    return True


def _pages(
    service: AdminClient, choice: DeadLetterSelection, limit: int
) -> tuple[list[dict[str, Any]], bool]:
    """Return up to ``limit`` dead letters, the newest first, and whether there are more."""
    found: list[dict[str, Any]] = []
    query = {**choice._asdict(), "limit": min(limit, 1000)}
    while True:
        page = service.get(PATH, query)
        found += page["dead_letters"]
        if page["next"] is None or len(found) >= limit:
            return found[:limit], page["next"] is not None or len(found) > limit
        query["before"] = found[-1]["id"]


def _event_of(letter: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attributes of the event in a dead letter. If the message could not be decoded,
    return the attributes that are known.
    """
    message = letter["message"]
    found: Mapping[str, Any] = message.get("event") or message.get("attributes") or {}
    return found


_LETTERS: Sequence[Column] = (
    "id",
    ("at", printing.moment_of("at_ms")),
    "subscription",
    "cause",
    "attempts",
    ("type", lambda each: _event_of(each).get("type")),
    ("event id", lambda each: _event_of(each).get("id")),
)
_HISTORY: Sequence[Column] = (
    ("attempt", "number"),
    ("at", printing.moment_of("started_ms")),
    ("ms", printing.rounded("duration_ms")),
    "outcome",
    "status",
    ("detail", lambda each: printing.escape_line(each["detail"])),
)


def _show_counts(found: Mapping[str, Any]) -> None:
    printing.print_rows(("subscription", "cause", "count"), found["counts"])


def _show(found: Mapping[str, Any]) -> None:
    for name, value in _rows(found):
        printing.text_line(f"{name:<13} {printing.escape_line(str(value))}")
    if found["history"]:
        printing.text_line("")
        printing.print_rows(_HISTORY, found["history"])


def _rows(found: Mapping[str, Any]) -> list[tuple[str, Any]]:
    message = found["message"]
    place = f"{found['broker']}/{message['topic']}/{message['partition']}@{message['position']}"
    rows = [
        *((name, found[name]) for name in ("id", "subscription", "cause")),
        ("detail", printing.escape_line(found["detail"])),
        ("attempts", found["attempts"]),
        ("given up", printing.moment(found["at_ms"])),
        ("from", place),
        ("key", message["key"]),
    ]
    event = message.get("event")
    if event is None:
        return [*rows, ("no event", _as_written(message.get("fault") or message.get("attributes")))]
    return [*rows, *((f"  {name}", _as_written(value)) for name, value in event.items())]


def _as_written(value: Any) -> str:
    """Return text unchanged and any other value as JSON, on one line."""
    import msgspec

    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return printing.escape_line(text)
