"""``skybridge pipeline archive`` copies the records of a log into the lake."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from app.cli import printing
from app.cli.options import ConfigFile
from app.cli.pipeline import next_step
from app.cli.pipeline.group import Json, load_configuration, open_lake, verb
from app.cli.verbs import option

if TYPE_CHECKING:
    from app.config.model.config import Config
    from app.pipeline.archive.job import ArchivePlan, ArchiveProgress
    from app.pipeline.archive.run import ArchiveResult


@verb(
    "archive",
    "skybridge pipeline archive --once",
    "skybridge pipeline archive --config skybridge.yaml",
    "skybridge pipeline archive --once --json --config skybridge.yaml",
)
def run(
    config: ConfigFile = None,
    once: Annotated[
        bool, option("Copy the present records, then end; by default run until stopped.")
    ] = False,
    skip_lost: Annotated[
        bool,
        option(
            "Continue if retention removed records before they were copied; the lake then lacks these records."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Copy a log into the lake and decode its events.

    The source is Kafka, or an embedded log through the Kafka listener of a running service. Every
    record is copied exactly once. The command writes three tables. events_raw has the unchanged
    records, and events has one row per source and id. quarantine has the invalid records and their
    faults. Each table in pipeline.tables has the data of one event type as columns.

    After a kill, the next archive continues where the killed one stopped. SIGTERM and Ctrl-C end
    the archive after the current batch. Only one archive may write to a lake at a time.
    """
    settings = load_configuration(config)
    from app.pipeline.archive.follow import follow
    from app.pipeline.archive.metrics import ArchiveMetrics, exporting
    from app.pipeline.archive.run import once as archive_once

    plan = _plan(settings, skip_lost=skip_lost)
    session, lake = open_lake(settings, "archive", quiet=as_json, brief=once, fills=True)
    with _stop_on_signal() as stop, _progress(once=once, quiet=as_json) as tell:
        if once:
            outcome = archive_once(session, lake, plan, tell=tell, stop=stop)
        else:
            metrics = ArchiveMetrics(plan.topics)
            with exporting(metrics, settings.pipeline.archive.metrics):
                outcome = follow(session, lake, plan, tell=tell, metrics=metrics, stop=stop)
    session.stop()
    _conclude(outcome, as_json=as_json)
    if not as_json:
        next_step.print_next_step(lake, config)


def _plan(config: Config, *, skip_lost: bool) -> ArchivePlan:
    """Return the plan of the archive from the configuration."""
    from datetime import datetime

    from app.features.lake.settings import archived_place, archived_topics
    from app.model.start import Start
    from app.pipeline.archive.job import ArchivePlan

    settings = config.pipeline.archive
    place = archived_place(config)
    start = settings.start
    return ArchivePlan(
        place=place,
        topics=archived_topics(config, place.broker),
        start=datetime.fromisoformat(start.time or "") if isinstance(start, Start) else start,
        trigger=settings.trigger,
        most=settings.max_offsets_per_trigger,
        skip_lost=skip_lost,
    )


@contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """Yield a threading event that SIGTERM or SIGINT sets. A second SIGINT ends the process at
    once. No record is lost in either case.
    """
    import signal

    stop = threading.Event()

    def stop_soon(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, signal.default_int_handler)

    before = {each: signal.signal(each, stop_soon) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _progress(*, once: bool, quiet: bool) -> Iterator[Callable[[ArchiveProgress], None]]:
    """Yield the function that shows the progress. It shows progress bars or prints a line for each
    batch. With ``quiet`` it prints only notices and errors.
    """
    if quiet:
        yield _print_trouble
    elif once:
        with _bars() as tell:
            yield tell
    else:
        yield _line


@contextmanager
def _bars() -> Iterator[Callable[[ArchiveProgress], None]]:
    with printing.progress_bars() as progress:
        bars = {
            "copy": progress.add_task("copying records", total=None),
            "derive": progress.add_task("making events", total=None),
        }

        def tell(told: ArchiveProgress) -> None:
            if not _notice(told):
                progress.update(bars[told.step], completed=told.done, total=told.total or told.done)

        yield tell


def _notice(told: ArchiveProgress) -> bool:
    """Print what the operator must know on standard error: a notice, or the error of a step that is
    tried again. Return whether there was one."""
    if told.notice:
        printing.err().print(told.notice, markup=False)
    if told.trouble:
        what = (
            "Records could not be copied" if told.step == "copy" else "Events could not be decoded"
        )
        printing.print_error(f"{what}: {told.trouble}", "None needed: the archive tries again.")
    return bool(told.notice or told.trouble)


def _print_trouble(told: ArchiveProgress) -> None:
    """Print nothing but a notice or an error."""
    _notice(told)


def _line(told: ArchiveProgress) -> None:
    """Print one line about a batch, in a form for log files."""
    if not _notice(told) and told.derived is not None:
        found = told.derived
        printing.text_line(
            f"{printing.counted(found.records, 'record')}: {printing.counted(found.events, 'event')},"
            f" {printing.counted(found.duplicates, 'duplicate')}, {found.quarantined:,} quarantined"
            f"{_unfit(found.unfit)}"
        )


def _conclude(outcome: ArchiveResult, *, as_json: bool) -> None:
    if as_json:
        printing.json_line(outcome)
        return
    printing.text_line(
        f"copied {printing.counted(outcome.copied, 'record')}: {printing.counted(outcome.events, 'new event')},"
        f" {printing.counted(outcome.duplicates, 'duplicate')}, {outcome.quarantined:,} in quarantine"
        f"{_unfit(outcome.unfit)}"
    )


def _unfit(count: int) -> str:
    """Return the part of a line about data that does not fit its typed table; empty if there is none."""
    return f", data of {printing.counted(count, 'event')} does not fit" if count else ""
