"""The group, and what its verbs share. A verb's module registers itself: ``@verb("archive", ...)``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from app.cli import options, printing, verbs
from app.cli.verbs import option

if TYPE_CHECKING:
    from datetime import datetime

    from app.config.model.config import Config
    from app.pipeline.session import SparkSession
    from app.pipeline.settings import Lake

app = verbs.group(
    "pipeline",
    "Events into a lake of Apache Iceberg tables and out of it, on Spark.\n\n"
    "Needs the extra `pipeline` (make install installs it, the image `pipeline` has it) and Java 17 or 21; query and "
    "report need no Java. "
    "The section pipeline of the configuration says where the lake is; without it, in ./skybridge-data/lake.",
)
verb = app.verb

Json = Annotated[bool, option("One JSON object, and no progress bar.", "--json")]


def read(file: Path | None) -> Config:
    """The configuration. Raises SetupError with every line that is wrong, and where Spark cannot run: before
    a verb imports what needs it.
    """
    from app.pipeline.session import requirements

    requirements()
    return options.configuration(file)


def open_lake(
    config: Config, name: str, *, quiet: bool = False, brief: bool = False, fills: bool = False
) -> tuple[SparkSession, Lake]:
    """A session for a verb, with the lake of the configuration. ``fills``: the verb makes a lake that is missing.
    Raises as ``open_spark`` does, and SetupError, before Spark starts, where there was never a lake.
    """
    from app.features.lake.settings import lake_of
    from app.pipeline.query.opening import demand_catalog

    lake = lake_of(config)
    if not fills:
        demand_catalog(lake)
    return open_spark(config, name, lake, quiet=quiet, brief=brief), lake


def open_spark(
    config: Config, name: str, lake: Lake | None = None, *, quiet: bool = False, brief: bool = False
) -> SparkSession:
    """A session for a verb; the jars are fetched where they are missing.

    ``name``: of the verb. ``brief``: as ``open_session`` has it. Raises SetupError without the extra, Java or jars.
    """
    from app.features.lake.settings import engine_of
    from app.pipeline.session import open_session

    engine = engine_of(config)
    if not engine.has_jars:
        bring_jars(quiet=quiet)
    return open_session(engine, lake, app_name=f"skybridge {name}", brief=brief)


def bring_jars(*, quiet: bool = False) -> list[Path]:
    """The files, fetched first where they are missing. Raises SetupError, which names the cure."""
    import os

    from rich import progress as bar

    from app.pipeline import jars

    where, source = jars.folder(os.environ), jars.repository(os.environ)
    absent = jars.missing(where)
    if not absent:
        return jars.files(where)
    columns = (bar.TextColumn("{task.description}"), bar.BarColumn(), bar.DownloadColumn())
    with bar.Progress(
        *columns,
        *(bar.TransferSpeedColumn(), bar.TimeRemainingColumn()),
        console=printing.err(),
        disable=quiet,
    ) as progress:
        bars = {jar: progress.add_task(jar.artifact, total=jar.size) for jar in absent}
        return jars.bring(where, source=source, told=lambda jar, n: progress.advance(bars[jar], n))


def moment(option: str, text: str) -> datetime | None:
    """A time on the command line, in UTC, which is also meant where no zone is said; None for none. Raises
    SetupError."""
    from datetime import UTC, datetime

    from app.errors import SetupError

    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise SetupError(
            f"{text!r} is not a time", setting=option, cure="write it as 2026-01-01T00:00:00Z"
        ) from None
