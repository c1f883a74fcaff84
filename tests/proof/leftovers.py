"""The state of the service at the end of a trial, as its admin listener shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from proof.history import Left
from waiting import wait_until

Ask = Callable[[str, str], tuple[int, Any]]
"""Send a request by its method and path, and return its status and JSON."""

_PLACES = {"dead-letters": "dead-letter", "parked": "parked"}


def left(ask: Ask) -> Iterator[Left]:
    """Return the dead letters and the parked events."""
    for what, place in _PLACES.items():
        page: str | None = f"/v1/{what}?limit=1000&messages=false"
        while page is not None:
            found = _answer(ask, page)
            for each in found[what.replace("-", "_")]:
                yield Left(each["subscription"], each["event"]["id"], place)
            page = found["next"]


def not_running(ask: Ask, subscriptions: Sequence[str]) -> Iterator[str]:
    """Return a sentence for each of the subscriptions that does not run in a worker."""
    for name in subscriptions:
        health = _answer(ask, f"/v1/subscriptions/{name}/status")["health"]
        if (state := health["state"]) != "running":
            yield f"subscription {name} is {state}: {health['cause']}"


def _answer(ask: Ask, path: str) -> Any:
    """Return the JSON of a 200 answer. A store that was away until now may need some seconds."""
    answers: list[tuple[int, Any]] = []

    def is_answered() -> bool:
        answers.append(ask("GET", path))
        return answers[-1][0] == 200

    wait_until(is_answered, f"a 200 answer to {path}", turn=0.5)
    return answers[-1][1]
