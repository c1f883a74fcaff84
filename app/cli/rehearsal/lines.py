"""What is shown: an event's way as one line, and the closing account."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.markup import escape
from rich.table import Table

from app.cli.rehearsal.ledger import Account, Ledger, Way, is_taken

_COLOURS = {True: "green", False: "yellow"}
_COLUMNS = (
    "accepted", "delivered", "dead\nletters", "attempts", "repeats", "order\nbreaks",
    "changed\nbytes", "holds",
)  # fmt: skip
_SHOWN = 4  # answers of one endpoint; more are counted


def way_line(way: Way, endpoints: tuple[str, ...]) -> str:
    """``com.github.push  everything -> events/3@17  key=octo/repo  picky 204 · busy 429 204``."""
    if way.receipt is None:
        return f"[bold]{escape(way.event.type)}[/]  [red]refused[/] {escape(way.refusal)}"
    receipt = way.receipt
    place = f"{receipt['topic']}/{receipt['partition']}@{receipt['position']}"
    answers = " · ".join(f"{name} {_answers(way.answers.get(name, []))}" for name in endpoints)
    return (
        f"[bold]{escape(way.event.type)}[/]  {escape(receipt['route'])} -> {escape(place)}  "
        f"key={escape(way.key or '-')}  {answers}"
    )


def _answers(statuses: list[int]) -> str:
    shown = statuses[-_SHOWN:]
    dots = "… " if len(statuses) > len(shown) else ""
    texts = [f"[{_colour(status)}]{status}[/]" for status in shown]
    return dots + " ".join(texts)


def _colour(status: int) -> str:
    return "red" if status == 415 else _COLOURS[is_taken(status)]  # noqa: PLR2004 - dead letter


def progress(ledger: Ledger, dead_letters: dict[str, int]) -> str:
    """One line: how far everything is."""
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


def way_json(way: Way) -> dict[str, Any]:
    return {
        "type": way.event.type,
        "id": way.event.id,
        "key": way.key,
        "receipt": way.receipt,
        "refusal": way.refusal or None,
        "answers": way.answers,
    }
