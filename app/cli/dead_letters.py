"""``skybridge dead-letters``: what was given up, why, and back again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from app.cli import exits, printing, redrive_progress, verbs
from app.cli.admin_client import Service, Yes
from app.cli.redrive_progress import PATH
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.cli.printing import Column

app = verbs.group(
    "dead-letters",
    "Events that were given up: list, count, redrive, discard.\n\n"
    "A message becomes a dead letter when its target refuses it for good (415 and other 4xx), when its "
    "schedule of attempts is used up, or when it is no CloudEvent. The store keeps the whole message until it "
    "is redriven or discarded. Begin with `count`, inspect one with `show`, repair the target, then "
    "`redrive`.",
)

Ids = Annotated[
    list[int] | None, option("Only the one with this id; may be repeated.", "--id", min=1)
]


class Choice(NamedTuple):
    """Which dead letters a verb means."""

    subscription: Annotated[
        list[str] | None,
        option("Only this subscription; may be repeated; all by default.", "--subscription", "-s"),
    ] = None
    cause: Annotated[
        list[str] | None,
        option("Cause, as `count` shows it: status-415, schedule-exhausted.", "-c"),
    ] = None
    since: Annotated[
        str, option("Given up at this time or later: 2026-01-01T00:00:00Z, or milliseconds.")
    ] = ""
    until: Annotated[str, option("Given up before this time.")] = ""
    source: Annotated[str, option("The event's source.")] = ""
    type: Annotated[str, option("The event's type; com.example.* for a prefix.", "-t")] = ""

    def with_ids(self, ids: Sequence[int] | None) -> dict[str, Any]:
        """As the API takes them, without what was not given."""
        return {name: it for name, it in {**self._asdict(), "id": ids}.items() if it}


@app.verb(
    "list",
    "skybridge dead-letters list",
    "skybridge dead-letters list --subscription billing --cause status-415 --limit 500",
    "skybridge dead-letters list --since 2026-01-01T00:00:00Z --type 'com.example.*' --json",
)
def list_(
    choice: Choice,
    limit: Annotated[int, option("Most rows.", "-n", min=1)] = 50,
    *,
    service: Service,
) -> None:
    """List dead letters, the newest first."""
    found, more = _pages(service, choice, limit)
    service.show_all(found, _LETTERS)
    if more and not service.as_json:
        printing.err().print("there are more: raise --limit, or see `count`", markup=False)


@app.verb("show", "skybridge dead-letters show 17", "skybridge dead-letters show 17 --json")
def show(
    letter: Annotated[int, typer.Argument(help="Id, as `list` shows it.", min=1)],
    *,
    service: Service,
) -> None:
    """Show one dead letter: its source, cause, event and attempts."""
    service.show(service.get(f"{PATH}/{letter}"), _show)


@app.verb(
    "count",
    "skybridge dead-letters count",
    "skybridge dead-letters count --since 2026-01-01T00:00:00Z --json",
)
def count(choice: Choice, *, service: Service) -> None:
    """Count dead letters by subscription and cause."""
    service.show(service.get(f"{PATH}/count", choice._asdict()), _show_counts)


@app.verb(
    "redrive",
    "skybridge dead-letters redrive --subscription billing --cause status-415",
    "skybridge dead-letters redrive --subscription billing --subscription audit --rate 50 --yes",
    "skybridge dead-letters redrive --id 17 --id 18",
    "skybridge dead-letters redrive --subscription billing --json          # counts only",
    "skybridge dead-letters redrive --subscription billing --json --yes",
)
def redrive(
    choice: Choice,
    id_: Ids = None,
    rate: Annotated[
        float, option("Letters a second for each subscription; 0: no limit.", min=0)
    ] = 0.0,
    yes: Yes = False,
    wait: Annotated[
        bool, option("Show the progress until the end, or return at once.", "--wait/--no-wait")
    ] = True,
    *,
    service: Service,
) -> None:
    """Send dead letters to their subscriptions again: same event, same id, one at a time per key.

    It first counts the letters and asks for confirmation. An event that fails again becomes a dead letter
    again. Interrupting the command does not stop the redrive. With --json nothing is sent without --yes."""
    chosen = choice.with_ids(id_)
    found = redrive_progress.order(service, chosen, dry_run=True)
    if not service.as_json:
        _show_counts(found)
        redrive_progress.warn(found)
    if _demanded(found["left"], "Redrive {} dead letters?", yes=yes, service=service):
        redrive_progress.run(service, chosen, found, rate=rate, wait=wait)
    elif service.as_json:
        printing.json_line(found)


@app.verb(
    "discard",
    "skybridge dead-letters discard --subscription billing --cause status-400",
    "skybridge dead-letters discard --until 2026-01-01T00:00:00Z --yes",
)
def discard(choice: Choice, id_: Ids = None, yes: Yes = False, *, service: Service) -> None:
    """Discard dead letters for good. It first counts them and asks for confirmation."""
    chosen = choice.with_ids(id_)
    found = service.post(f"{PATH}:discard", {**chosen, "dry_run": True})
    if not service.as_json:
        _show_counts(found)
    question = "Discard {} dead letters for good?"
    if _demanded(found["matched"], question, yes=yes, service=service):
        found = service.post(f"{PATH}:discard", {**chosen, "dry_run": False})
    service.show(found, lambda found: printing.text_line(f"discarded {found['discarded']}"))


def _demanded(count: int, question: str, *, yes: bool, service: Service) -> bool:
    """Whether there is something to do, and it is to be done: with --json only where --yes says so. Nobody
    to ask is no yes; a no ends the verb."""
    if not count or yes or service.as_json:
        return bool(count) and yes
    if not sys.stdin.isatty():
        printing.fail(
            "there is no terminal to ask for confirmation.",
            cure="Add --yes to confirm.",
            code=exits.SETUP,
        )
    if not typer.confirm(question.format(count)):
        raise typer.Exit(exits.FAILED)
    return True


def _pages(service: Service, choice: Choice, limit: int) -> tuple[list[dict[str, Any]], bool]:
    """So many of them, and whether there are more."""
    found: list[dict[str, Any]] = []
    query = {**choice._asdict(), "limit": min(limit, 1000)}
    while True:
        page = service.get(PATH, query)
        found += page["dead_letters"]
        if page["next"] is None or len(found) >= limit:
            return found[:limit], page["next"] is not None or len(found) > limit
        query["before"] = found[-1]["id"]


def _event_of(letter: Mapping[str, Any]) -> Mapping[str, Any]:
    """Attributes of its event, as far as there is one."""
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
    ("detail", lambda each: printing.one_line(each["detail"])),
)


def _show_counts(found: Mapping[str, Any]) -> None:
    printing.listing(("subscription", "cause", "count"), found["counts"])


def _show(found: Mapping[str, Any]) -> None:
    for name, value in _said(found):
        printing.text_line(f"{name:<13} {printing.one_line(str(value))}")
    if found["history"]:
        printing.text_line("")
        printing.listing(_HISTORY, found["history"])


def _said(found: Mapping[str, Any]) -> list[tuple[str, Any]]:
    message = found["message"]
    place = f"{found['broker']}/{message['topic']}/{message['partition']}@{message['position']}"
    rows = [
        *((name, found[name]) for name in ("id", "subscription", "cause")),
        ("detail", printing.one_line(found["detail"])),
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
    """Text as it is, all else as JSON."""
    import msgspec

    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return printing.one_line(text)
