"""A redrive from the command line: in portions, and followed until its rows are delivered or dead again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from app.cli import printing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from app.cli.admin_client import Service

PATH = "/v1/dead-letters"
LOOK = 0.5  # seconds between looks
PORTION = 1_000  # letters of one request


class Standing(NamedTuple):
    """``left``: rows on their way. ``dead``: letters since the beginning, of the same subscriptions."""

    left: int
    dead: int


def order(
    service: Service, choice: Mapping[str, Any], *, dry_run: bool, **more: Any
) -> dict[str, Any]:
    found: dict[str, Any] = service.post(f"{PATH}:redrive", {**choice, **more, "dry_run": dry_run})
    return found


def warn(found: Mapping[str, Any]) -> None:
    """What will not go, or not now."""
    console = printing.err()
    for each in found["skipped"]:
        text = f"{each['count']} of {each['subscription']} are not redriven: {each['why']}"
        console.print(text, style="yellow", markup=False)
    for name, why in found["waiting"].items():
        text = f"{name} delivers nothing now ({why}): its letters wait until it does"
        console.print(text, style="yellow", markup=False)


def run(
    service: Service,
    choice: Mapping[str, Any],
    found: Mapping[str, Any],
    *,
    rate: float,
    wait: bool,
) -> None:
    """``found``: by the dry run."""
    begun = found["at_ms"]
    bounded = {"until": begun, **choice}  # what fails again meanwhile is left alone
    moved = _all(service, bounded, found["left"], rate)
    followed = {each["subscription"] for each in found["counts"]} - {*found["waiting"]}
    standing = Standing(moved, 0)
    if wait and moved and followed:
        whole = None if found["waiting"] else moved
        standing = _follow(service, followed, whole, begun)
    if service.as_json:
        printing.json_line({"redriven": moved, "left": standing.left, "dead_again": standing.dead})
    else:
        _conclude(moved, standing, begun)


def _all(service: Service, choice: Mapping[str, Any], total: int, rate: float) -> int:
    """Portion after portion; how many went."""
    moved = 0
    while moved < total:
        limit = min(PORTION, total - moved)
        found = order(service, choice, dry_run=False, rate=rate, limit=limit)
        if not found["redriven"]:  # somebody else was faster
            break
        moved += found["redriven"]
    return moved


def _follow(
    service: Service, subscriptions: Collection[str], total: int | None, begun: int
) -> Standing:
    """Until none is on its way, or the person has seen enough."""
    standing = _standing(service, subscriptions, begun)
    total = standing.left if total is None else total
    with printing.counting("said", quiet=service.as_json) as bar:
        task = bar.add_task("redriving", total=total, said="")
        since = time.monotonic()
        try:
            while standing.left:
                time.sleep(LOOK)
                standing = _standing(service, subscriptions, begun)
                done = max(0, total - standing.left)
                speed = done / (time.monotonic() - since)
                said = f"{speed:.1f}/s, {standing.dead} dead again"
                bar.update(task, completed=done, said=said)
            bar.update(task, completed=total)
        except KeyboardInterrupt:
            pass  # they go on without being looked at
    return standing


def _standing(service: Service, subscriptions: Collection[str], begun: int) -> Standing:
    waiting = service.get("/v1/parked/count")["counts"]
    dead = service.get(f"{PATH}/count", {"since": begun})["counts"]
    return Standing(
        sum(each["redriven"] for each in waiting if each["subscription"] in subscriptions),
        sum(each["count"] for each in dead if each["subscription"] in subscriptions),
    )


def _conclude(moved: int, standing: Standing, begun: int) -> None:
    printing.text_line(f"redriven {moved}")
    if standing.left:
        printing.text_line(f"{standing.left} are in delivery: skybridge parked")
    if standing.dead:
        printing.text_line(
            f"{standing.dead} new dead letters since then: "
            f"skybridge dead-letters list --since {printing.moment(begun)}"
        )
