"""``skybridge subscriptions replay`` delivers a range of a topic again and shows the progress."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from app.cli import exits, options, printing, subscriptions, values
from app.cli.admin_client import AdminClient, subscription_path
from app.cli.subscriptions import Name
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.progress import Progress

POLL = 0.5  # seconds between requests for the progress
_OF_A_REPLAY = ("begin", "until", "topic", "rate", "dry_run", "wait")


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
        str,
        option(
            "Start at earliest, at a time such as 2026-01-01T00:00:00Z, or at positions 0@42,3@17 "
            "(partition@position).",
            "--from",
            callback=values.range_end,
        ),
    ] = "",
    until: Annotated[
        str,
        option(
            "End before this point, in the same form as --from.",
            metavar="POINT",
            callback=values.range_end,
        ),
    ] = "latest",
    topic: Annotated[
        str, option("Replay only this topic; by default all topics of the subscription.")
    ] = "",
    rate: Annotated[
        float,
        option("Send at most this many events per second; 0: no limit.", min=0, max=values.FASTEST),
    ] = 0.0,
    dry_run: Annotated[
        bool, option("Only show the range and count its records; deliver nothing.")
    ] = False,
    wait: Annotated[
        bool,
        option("Show the progress until the end; --no-wait returns at once.", "--wait/--no-wait"),
    ] = True,
    cancel: Annotated[bool, option("End the running replay of the subscription.")] = False,
    *,
    service: AdminClient,
) -> None:
    """Deliver a range of a topic to a subscription again.

    New events are delivered meanwhile. The filters, the order per key and the retries of the
    subscription apply. The position of the subscription stays as it is.
    """
    if cancel:
        options.refuse_ineffective("--cancel starts no replay", *_OF_A_REPLAY)
        service.request("DELETE", subscription_path(name, "/replays"))
        printing.text_line("ended")
        return
    if not begin:
        printing.fail(
            "--from is missing: a replay needs a start.",
            cure="Add --from earliest, a time such as 2026-01-01T00:00:00Z, or positions such as 0@42.",
            code=exits.SETUP,
        )
    asked: dict[str, Any] = {
        "from": _range_point(begin),
        "until": _range_point(until),
        "rate": rate,
    }
    asked |= {"dry_run": dry_run} | ({"topic": topic} if topic else {})
    plan = service.post(subscription_path(name, ":replay"), asked)
    if dry_run:
        service.show(plan, _show)
        return
    left = _follow(service, name, plan) if wait else plan["replays"]
    if service.as_json:
        printing.json_line({**plan, "replays": left})
    elif left:
        printing.text_line(f"running: {subscriptions.PATH}/{name}/replays")
    else:
        printing.text_line("done")


def _range_point(text: str) -> Any:
    """Return a start or end in the form of the API: a word, a time, or positions by partition."""
    if text in {"earliest", "latest"}:
        return text
    if "@" not in text:
        return {"time": text}
    pairs = (each.partition("@") for each in text.split(","))
    return {"position": {number.strip(): position.strip() for number, _, position in pairs}}


def _show(plan: Mapping[str, Any]) -> None:
    printing.print_rows(("topic", "partition", "next", "until", "remaining"), plan["replays"])
    total = plan["total"]
    total = "cannot be counted" if total is None else f"at most {printing.counted(total, 'record')}"
    printing.err().print(total, markup=False)


def _follow(service: AdminClient, name: str, plan: Mapping[str, Any]) -> Sequence[Any]:
    """Show the progress until the replay is done or the user presses Ctrl+C. Return the ranges that
    are not replayed yet.
    """
    left: Sequence[Any] = plan["replays"]
    with _progress(service.as_json) as bar:
        task = bar.add_task("replaying", total=plan["total"])
        try:
            while left:
                time.sleep(POLL)
                left = service.get(subscription_path(name, "/replays"))
                if plan["total"] is not None:
                    remaining = sum(each["remaining"] for each in left)
                    bar.update(task, completed=max(0, plan["total"] - remaining))
        except KeyboardInterrupt:
            pass  # the replay continues in the service
    return left


def _progress(quiet: bool) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=printing.err(), disable=quiet)
