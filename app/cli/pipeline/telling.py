"""What the lake says of itself when a verb has ended: where it is, how far it is, and what is useful next.

On standard error, so that what a verb prints stays its own; not beside JSON.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli import printing

if TYPE_CHECKING:
    from app.pipeline.settings import Lake
    from app.pipeline.state import State

TYPES = "SELECT type, count(*) AS n FROM events GROUP BY type ORDER BY n DESC"
FAULTS = "SELECT rule, count(*) AS n, min(detail) AS example FROM quarantine GROUP BY rule"


def after(lake: Lake, config: Path | None, *then: str, look: str = "") -> None:
    """``then``: the words of the next verb; without them, a question about what is in the lake.
    ``look``: what the next verb is good for.
    """
    found = _state(lake)
    where = f"the lake is in {lake.catalog.warehouse}, namespace {lake.namespace}"
    if found is None:
        _say(where)
    else:
        _say(f"{where}: {_far(found)}")
    words = then or ("query", FAULTS if found is not None and found.quarantined else TYPES)
    _say(f"next{f', {look}' if look else ''}: {command(config, *words)}")


def command(config: Path | None, *words: str) -> str:
    """A command line of the pipeline, to be copied."""
    options = () if config is None else ("--config", str(config))
    return shlex.join(("skybridge", "pipeline", *words, *options))


def _far(state: State) -> str:
    latest = "" if state.latest is None else f", up to {state.latest.isoformat(timespec='seconds')}"
    counts = (
        f"{state.records:,} records, {state.events:,} events, {state.quarantined:,} in quarantine"
    )
    return counts + latest.replace("+00:00", "Z")


def _state(lake: Lake) -> State | None:
    """None where only Spark can say: a verb that has done its work does not fail for a line about it."""
    from app.errors import SetupError
    from app.pipeline.state import state

    try:
        return state(lake)
    except SetupError:
        return None


def _say(text: str) -> None:
    printing.err().print(text, style="dim", markup=False)
