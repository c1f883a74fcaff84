"""Print the state of the lake after a command: the lake's folder or address, its row counts, and a
useful next command.

The lines go to standard error, so they do not mix with the output of the command. With --json
nothing is printed.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli import printing

if TYPE_CHECKING:
    from datetime import datetime

    from app.pipeline.settings import Lake
    from app.pipeline.state import LakeState

TYPES = "SELECT type, count(*) AS n FROM events GROUP BY type ORDER BY n DESC"
FAULTS = "SELECT rule, count(*) AS n, min(detail) AS example FROM quarantine GROUP BY rule"


def print_next_step(lake: Lake, config: Path | None, *then: str, look: str = "") -> None:
    """Print the state of the lake and the next command.

    Args:
        lake: The lake that the command worked on.
        config: The configuration file of the command, repeated in the next one.
        then: The arguments of the next command; by default a query on the lake.
        look: A text that names the purpose of the next command.
    """
    found = _state(lake)
    where = f"the lake is in {lake.catalog.warehouse}, namespace {lake.namespace}"
    if found is None:
        _print(where)
    else:
        _print(f"{where}: {_far(found)}")
    words = then or ("query", FAULTS if found is not None and found.quarantined else TYPES)
    _print(f"next{f', {look}' if look else ''}: {command(config, *words)}")


def command(config: Path | None, *words: str) -> str:
    """Return a command line of ``skybridge pipeline`` that the user can copy."""
    options = () if config is None else ("--config", str(config))
    return shlex.join(("skybridge", "pipeline", *words, *options))


def _far(state: LakeState) -> str:
    """Return the counts of the lake and the time of its newest record as text."""
    counts = (
        f"{printing.counted(state.records, 'record')}, {printing.counted(state.events, 'event')}, "
        f"{state.quarantined:,} in quarantine"
    )
    return counts if state.latest is None else f"{counts}, up to {_time(state.latest)}"


def _time(latest: datetime | str) -> str:
    if isinstance(latest, str):
        return latest
    return latest.isoformat(timespec="seconds").replace("+00:00", "Z")


def _state(lake: Lake) -> LakeState | None:
    """Return the state of the lake, or None if only Spark can read the lake. No error is raised,
    because the command itself has succeeded already.
    """
    from app.errors import SetupError
    from app.pipeline.state import state

    try:
        return state(lake)
    except SetupError:
        return None


def _print(text: str) -> None:
    printing.err().print(text, style="dim", markup=False)
