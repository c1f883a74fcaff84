"""The command group ``skybridge pipeline`` and the functions that its commands share. The module of
each command registers it with ``@verb(...)``.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from app.cli import options, printing, verbs
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from app.config.model.config import Config
    from app.pipeline.settings import Lake
    from app.spark.session import SparkSession
    from app.spark.settings import SparkEngine

F = TypeVar("F", bound="Callable[..., None]")

app = verbs.group(
    "pipeline",
    "Copy events into an Iceberg lake; query and replay it.\n\n"
    "These commands need the extra `pipeline` (make install installs it, the image `pipeline` has it) and Java 17 "
    "or 21; query and report need no Java. The section pipeline of the configuration names the place of the lake; "
    "by default it is ./skybridge-data/lake.",
)


def verb(name: str, *examples: str, json: str = "") -> Callable[[F], F]:
    """Return a decorator that registers a command of this group.

    If the catalog, the storage or a class of Java is missing, the command prints one line with the
    cure, and no stack of Java.
    """

    def register(run: F) -> F:
        @functools.wraps(run)
        def reporting(**given: Any) -> None:
            try:
                run(**given)
            except Exception as error:
                from app.spark.faults import lake_fault

                if (fault := lake_fault(error)) is None:
                    raise
                raise fault from None

        app.verb(name, *examples, json=json)(reporting)
        return run

    return register


Json = Annotated[bool, option("Print one JSON object and no progress bar.", "--json")]


def load_configuration(file: Path | None) -> Config:
    """Load the configuration. A command calls this before it imports modules that load slowly, so
    that a fault is reported at once.

    Raises:
        SetupError: If the configuration is invalid (with every finding), or Spark cannot run on
            this machine.
    """
    from app.spark.session import requirements

    requirements()
    return options.configuration(file)


def open_lake(
    config: Config, name: str, *, quiet: bool = False, brief: bool = False, fills: bool = False
) -> tuple[SparkSession, Lake]:
    """Start Spark and return its session and the lake of the configuration.

    Set ``fills`` for a command that creates the lake if it does not exist.

    Raises:
        SetupError: If the lake does not exist, before Spark starts. Or if ``open_spark`` raises it.
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
    """Start Spark and return its session. Missing jars are downloaded first.

    ``name`` is the name of the command. ``brief`` is passed to ``open_session``.

    Raises:
        SetupError: If the extra ``pipeline``, Java or a jar is missing.
    """
    from app.features.lake.settings import engine_of
    from app.spark.session import open_session

    engine = engine_of(config)
    if not engine.has_jars:
        bring_jars(engine, quiet=quiet)
    return open_session(
        engine, lake.catalog if lake else None, app_name=f"skybridge {name}", brief=brief
    )


def bring_jars(engine: SparkEngine | None = None, *, quiet: bool = False) -> list[Path]:
    """Download the missing jars and return the paths of all.

    Raises:
        SetupError: If a jar cannot be downloaded.
    """
    import os

    from rich import progress as bar

    from app.spark import jars

    where, source = jars.folder(os.environ), jars.repository(os.environ)
    wanted = jars.JARS if engine is None else jars.needed(engine)
    absent = jars.missing(where, wanted)
    if not absent:
        return jars.files(where, wanted)
    columns = (bar.TextColumn("{task.description}"), bar.BarColumn(), bar.DownloadColumn())
    with bar.Progress(
        *columns,
        *(bar.TransferSpeedColumn(), bar.TimeRemainingColumn()),
        console=printing.err(),
        disable=quiet,
    ) as progress:
        bars = {jar: progress.add_task(jar.artifact, total=jar.size) for jar in absent}
        return jars.ensure_jars(
            where, source=source, told=lambda jar, n: progress.advance(bars[jar], n), wanted=wanted
        )


def moment(option: str, text: str) -> datetime | None:
    """Return the time of an option in UTC, or None for empty text. A time without a zone means UTC.

    Raises:
        SetupError: If the text is not an ISO 8601 time.
    """
    from datetime import UTC, datetime

    from app.errors import SetupError

    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise SetupError(
            f"{text!r} is not a time.", setting=option, cure="Write it as 2026-01-01T00:00:00Z."
        ) from None
