"""``skybridge subscriptions replay``: a range once more, and how far it is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from app.cli import exits, printing, subscriptions
from app.cli.admin_client import Service, subscription_path
from app.cli.subscriptions import Name
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.progress import Progress

LOOK = 0.5  # seconds between looks


@subscriptions.app.verb(
    "replay",
    "skybridge subscriptions replay billing --from 2026-01-01T00:00:00Z --dry-run",
    "skybridge subscriptions replay billing --from 2026-01-01T00:00:00Z --until 2026-01-02T00:00:00Z --rate 50",
    "skybridge subscriptions replay billing --from 0@42,3@17 --topic orders",
    "skybridge subscriptions replay billing --cancel",
)
def replay(
    name: Name,
    begin: Annotated[
        str, option("Start: earliest, a time as 2026-01-01T00:00:00Z, or 0@42,3@17.", "--from")
    ] = "",
    until: Annotated[str, option("End of the range, exclusive; same form.")] = "latest",
    topic: Annotated[
        str, option("Only this topic; by default all topics of the subscription.")
    ] = "",
    rate: Annotated[float, option("Events a second; 0: no limit.", min=0)] = 0.0,
    dry_run: Annotated[bool, option("Only show the range.")] = False,
    wait: Annotated[
        bool, option("Show the progress until the end, or return at once.", "--wait/--no-wait")
    ] = True,
    cancel: Annotated[bool, option("Cancel the running replay.")] = False,
    *,
    service: Service,
) -> None:
    """Deliver a range of the log to one subscription again, beside new events.

    Filters, order per key and retries are those of the subscription; its position does not move.
    """
    if cancel:
        service.request("DELETE", subscription_path(name, "/replays"))
        printing.text_line("ended")
        return
    if not begin:
        printing.fail("from where?", cure="--from earliest, a time, or 0@42", code=exits.SETUP)
    asked: dict[str, Any] = {"from": _place(begin), "until": _place(until), "rate": rate}
    asked |= {"dry_run": dry_run} | ({"topic": topic} if topic else {})
    plan = service.post(subscription_path(name, ":replay"), asked)
    if dry_run:
        service.show(plan, _show)
        return
    left = _follow(service, name, plan) if wait else plan["replays"]
    if service.as_json:
        printing.json_line({**plan, "replays": left})
    elif left:
        printing.text_line(f"under way: {subscriptions.PATH}/{name}/replays")
    else:
        printing.text_line("done")


def _place(text: str) -> Any:
    """As the API takes it: a word, a time, or positions by partition."""
    if text in {"earliest", "latest"}:
        return text
    if "@" not in text:
        return {"time": text}
    pairs = (each.partition("@") for each in text.split(","))
    return {"position": {number.strip(): position.strip() for number, _, position in pairs}}


def _show(plan: Mapping[str, Any]) -> None:
    printing.listing(("topic", "partition", "next", "until", "remaining"), plan["replays"])
    total = "cannot be counted" if plan["total"] is None else f"at most {plan['total']} records"
    printing.err().print(total, markup=False)


def _follow(service: Service, name: str, plan: Mapping[str, Any]) -> Sequence[Any]:
    """Until nothing is left, or the person has seen enough."""
    left: Sequence[Any] = plan["replays"]
    with _progress(service.as_json) as bar:
        task = bar.add_task("replaying", total=plan["total"])
        try:
            while left:
                time.sleep(LOOK)
                left = service.get(subscription_path(name, "/replays"))
                if plan["total"] is not None:
                    remaining = sum(each["remaining"] for each in left)
                    bar.update(task, completed=max(0, plan["total"] - remaining))
        except KeyboardInterrupt:
            pass  # it goes on without being looked at
    return left


def _progress(quiet: bool) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=printing.err(), disable=quiet)
