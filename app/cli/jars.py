"""Bringing the jars of the pipeline, with a progress bar, for every verb that starts Spark."""

from __future__ import annotations

import os
from pathlib import Path

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from app.cli import printing
from app.pipeline import jars


def bring(*, quiet: bool = False) -> list[Path]:
    """The files, fetched first where they are missing. Raises SetupError, which names the cure."""
    where, source = jars.folder(os.environ), jars.repository(os.environ)
    absent = jars.missing(where)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(
        *columns,
        *(TransferSpeedColumn(), TimeRemainingColumn()),
        console=printing.err(),
        disable=quiet or not absent,
    ) as progress:
        bars = {jar: progress.add_task(jar.artifact, total=jar.size) for jar in absent}
        return jars.bring(where, source=source, told=lambda jar, n: progress.advance(bars[jar], n))
