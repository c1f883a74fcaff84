"""Request a redrive in several portions. Show its progress until the events are delivered or are
dead letters again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from app.cli import printing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from app.cli.admin_client import AdminClient

PATH = "/v1/dead-letters"
POLL = 0.5  # seconds between requests for the progress
PORTION = 1_000  # dead letters per request


class RedriveProgress(NamedTuple):
    """The progress of a redrive.

    ``left`` is the number of events that are not delivered yet. ``dead`` is the number of dead
    letters since the redrive began, for the same subscriptions.
    """

    left: int
    dead: int


def post_redrive(
    service: AdminClient, choice: Mapping[str, Any], *, dry_run: bool, **more: Any
) -> dict[str, Any]:
    """Post a redrive request and return its answer. With ``dry_run`` the service only counts the
    dead letters.
    """
    found: dict[str, Any] = service.post(f"{PATH}:redrive", {**choice, **more, "dry_run": dry_run})
    return found


def warn(found: Mapping[str, Any]) -> None:
    """Print how many dead letters are skipped and why, and which subscriptions deliver nothing at
    present.
    """
    console = printing.err()
    for each in found["skipped"]:
        text = (
            f"{each['subscription']}: {each['count']} dead letters are not redriven: {each['why']}"
        )
        console.print(text, style="yellow", markup=False)
    for name, why in found["waiting"].items():
        text = f"{name} delivers nothing now ({why}): its dead letters wait until it does"
        console.print(text, style="yellow", markup=False)


def run(
    service: AdminClient,
    choice: Mapping[str, Any],
    found: Mapping[str, Any],
    *,
    rate: float,
    wait: bool,
) -> None:
    """Redrive the dead letters that a dry run counted (``found``), and print the result. If
    ``wait`` is set, show the progress until the end.
    """
    begun = found["at_ms"]
    bounded = {"until": begun, **choice}  # skips events that fail again meanwhile
    moved = _redrive_all(service, bounded, found["left"], rate)
    followed = {each["subscription"] for each in found["counts"]} - {*found["waiting"]}
    standing = RedriveProgress(moved, 0)
    if wait and moved and followed:
        whole = None if found["waiting"] else moved
        standing = _follow(service, followed, whole, begun)
    if service.as_json:
        printing.json_line({"redriven": moved, "left": standing.left, "dead_again": standing.dead})
    else:
        _conclude(moved, standing, begun)


def _redrive_all(service: AdminClient, choice: Mapping[str, Any], total: int, rate: float) -> int:
    """Request one portion of the redrive after another. Return how many events were redriven."""
    moved = 0
    while moved < total:
        limit = min(PORTION, total - moved)
        found = post_redrive(service, choice, dry_run=False, rate=rate, limit=limit)
        if not found["redriven"]:  # another redrive took them
            break
        moved += found["redriven"]
    return moved


def _follow(
    service: AdminClient, subscriptions: Collection[str], total: int | None, begun: int
) -> RedriveProgress:
    """Show the progress until no event is left or the user presses Ctrl+C, and return it."""
    standing = _standing(service, subscriptions, begun)
    total = standing.left if total is None else total
    with printing.progress_bars("said", quiet=service.as_json) as bar:
        task = bar.add_task("redriving", total=total, said="")
        since = time.monotonic()
        try:
            while standing.left:
                time.sleep(POLL)
                standing = _standing(service, subscriptions, begun)
                done = max(0, total - standing.left)
                speed = done / (time.monotonic() - since)
                said = f"{speed:.1f}/s, {standing.dead} dead again"
                bar.update(task, completed=done, said=said)
            bar.update(task, completed=total)
        except KeyboardInterrupt:
            pass  # the redrive continues in the service
    return standing


def _standing(service: AdminClient, subscriptions: Collection[str], begun: int) -> RedriveProgress:
    waiting = service.get("/v1/parked/count")["counts"]
    dead = service.get(f"{PATH}/count", {"since": begun})["counts"]
    return RedriveProgress(
        sum(each["redriven"] for each in waiting if each["subscription"] in subscriptions),
        sum(each["count"] for each in dead if each["subscription"] in subscriptions),
    )


def _conclude(moved: int, standing: RedriveProgress, begun: int) -> None:
    printing.text_line(f"redriven {moved}")
    if standing.left:
        printing.text_line(f"{standing.left} are in delivery: skybridge parked")
    if standing.dead:
        printing.text_line(
            f"{standing.dead} new dead letters since then: "
            f"skybridge dead-letters list --since {printing.moment(begun)}"
        )
