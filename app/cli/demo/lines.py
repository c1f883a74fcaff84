"""The output of the demo: one line per event, and the final account."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.markup import escape
from rich.table import Table

from app.cli.demo.ledger import Account, DemoLedger, EventTrace, is_taken

_COLOURS = {True: "green", False: "yellow"}
_COLUMNS = (
    "accepted", "delivered", "dead\nletters", "attempts", "repeats", "order\nbreaks",
    "changed\nbytes", "holds",
)  # fmt: skip
_SHOWN = 4  # answers of one endpoint; earlier ones are left out


def trace_line(trace: EventTrace, endpoints: tuple[str, ...]) -> str:
    """Return the line of one event: its type, route, position, key and the answers of each
    endpoint.

    Example: ``com.github.push  everything -> events/3@17  key=octo/repo  picky 204 · busy 429
    204``.
    """
    if trace.receipt is None:
        return f"[bold]{escape(trace.event.type)}[/]  [red]refused[/] {escape(trace.refusal)}"
    receipt = trace.receipt
    place = f"{receipt['topic']}/{receipt['partition']}@{receipt['position']}"
    answers = " · ".join(f"{name} {_answers(trace.answers.get(name, []))}" for name in endpoints)
    return (
        f"[bold]{escape(trace.event.type)}[/]  {escape(receipt['route'])} -> {escape(place)}  "
        f"key={escape(trace.key or '-')}  {answers}"
    )


def _answers(statuses: list[int]) -> str:
    shown = statuses[-_SHOWN:]
    dots = "… " if len(statuses) > len(shown) else ""
    texts = [f"[{_colour(status)}]{status}[/]" for status in shown]
    return dots + " ".join(texts)


def _colour(status: int) -> str:
    return "red" if status == 415 else _COLOURS[is_taken(status)]  # noqa: PLR2004 - dead letter


def progress(ledger: DemoLedger, dead_letters: dict[str, int]) -> str:
    """Return one line with the number of accepted events, and of delivered and dead-lettered ones
    per endpoint.
    """
    account = ledger.account(dead_letters)
    each = " · ".join(
        f"{line.subscription} {line.delivered}+{line.dead_lettered}" for line in account.lines
    )
    return f"[dim]accepted {account.accepted}/{account.sent} · {each}[/]"


def account_table(account: Account) -> Table:
    table = Table(title="The account", title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("endpoint")
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    for line in account.lines:
        numbers = (
            line.accepted, line.delivered, line.dead_lettered, line.attempts,
            line.duplicates, line.order_breaks, line.changed,
        )  # fmt: skip
        verdict = "[green]yes[/]" if line.holds else "[bold red]NO[/]"
        table.add_row(line.subscription, *map(str, numbers), verdict)
    return table


def account_json(account: Account, origin: str) -> dict[str, Any]:
    return {
        "feed": origin,
        "sent": account.sent,
        "accepted": account.accepted,
        "holds": account.holds,
        "subscriptions": [
            {**msgspec.structs.asdict(line), "holds": line.holds} for line in account.lines
        ],
    }


def trace_json(trace: EventTrace) -> dict[str, Any]:
    return {
        "type": trace.event.type,
        "id": trace.event.id,
        "key": trace.key,
        "receipt": trace.receipt,
        "refusal": trace.refusal or None,
        "answers": trace.answers,
    }
