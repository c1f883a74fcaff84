"""``skybridge pipeline report`` writes an HTML page about the events of the lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from app.cli import exits, printing
from app.cli.options import ConfigFile
from app.cli.pipeline import next_step
from app.cli.pipeline.group import Json, moment, verb
from app.cli.verbs import option

if TYPE_CHECKING:
    from datetime import datetime

    from app.config.model.config import Config
    from app.pipeline.report.run import LakeReport
    from app.pipeline.report.samples import Shapes
    from app.store.attempt_log import Reader


@verb(
    "report",
    "skybridge pipeline report --out report.html",
    "skybridge pipeline report --since 2026-11-01T00:00:00Z --until 2026-11-08T00:00:00Z --tables week-45",
    "skybridge pipeline report --since 2026-11-08T00:00:00Z --against week-45 --out week-46.html",
)
def run(
    out: Annotated[Path, option("Write the page to this file.", "-o")] = Path("report.html"),
    since: Annotated[
        str,
        option("Report events from this time on, such as 2026-11-01T00:00:00Z; by default all."),
    ] = "",
    until: Annotated[
        str, option("Report events before this time, in the same form as --since; by default all.")
    ] = "",
    tables: Annotated[
        Path | None,
        option(
            "Also write the tables of the page into this folder, as CSV; by default write no tables."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        option(
            "Compare the schemas with those in the --tables folder of an earlier report; "
            "by default compare them within the time range."
        ),
    ] = None,
    deliveries: Annotated[
        bool,
        option(
            "Include the delivery attempts from the store; --no-deliveries leaves the attempts out.",
            "--deliveries/--no-deliveries",
        ),
    ] = True,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Write one HTML page about the events of the lake.

    The page shows volume, delay, duplicates, invalid records and sizes. It also shows keys with
    many events, new types, changed schemas of the data, and deliveries. The page needs no network
    and runs no script. The command changes nothing in the lake.
    """
    from app.cli import options
    from app.cli.pipeline.signals import exit_on_signal, run_in_thread
    from app.pipeline.query import opening

    opening.requirements()
    settings = options.configuration(config)
    from app.features.lake.settings import lake_of
    from app.pipeline.report.page import page
    from app.pipeline.report.run import ReportRequest
    from app.pipeline.report.run import run as measure
    from app.pipeline.report.tables import write

    wanted = ReportRequest(
        since=moment("--since", since),
        until=moment("--until", until),
        attempts=_attempts(settings) if deliveries else None,
        successes=settings.store.attempts.keep == "all",
        against=_shapes(against),
    )
    _demand_order(wanted.since, wanted.until)
    lake = lake_of(settings)
    with exit_on_signal(), _bar(quiet=as_json) as tell:
        report = run_in_thread(lambda: measure(lake, wanted, made=_now(), tell=tell))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(report), encoding="utf-8")
    if tables is not None:
        write(tables, report.tables)
    _print_report(report, out, as_json=as_json)
    if not as_json:
        next_step.print_next_step(lake, config)


def _demand_order(since: datetime | None, until: datetime | None) -> None:
    """End the command if --since is not before --until."""
    if since is not None and until is not None and since >= until:
        printing.fail(
            "--since is not before --until.",
            cure="Give the earlier time to --since.",
            code=exits.SETUP,
        )


def _attempts(config: Config) -> Reader | None:
    """Return a reader of the delivery attempts in the store, or None if the file of the store does
    not exist yet.
    """
    from app.config.model.store import PostgresStore
    from app.store import attempt_log

    store = config.store
    if isinstance(store, PostgresStore):
        return attempt_log.of_database(store.dsn.get_secret_value(), config.timeouts.store)
    return attempt_log.of_file(store.path) if store.path.exists() else None


def _shapes(folder: Path | None) -> Shapes | None:
    """Return the schemas that an earlier report wrote into ``folder``. Return None if ``folder`` is
    None.
    """
    from app.pipeline.report.run import SCHEMAS
    from app.pipeline.report.samples import former

    if folder is None:
        return None
    try:
        return former(folder / f"{SCHEMAS}.csv")
    except (OSError, ValueError, KeyError) as fault:
        printing.fail(
            f"--against {folder} is not the folder of an earlier report: {fault}.",
            cure="Name the folder that was given to --tables.",
            code=exits.SETUP,
        )


def _now() -> datetime:
    from datetime import UTC, datetime

    return datetime.now(UTC)


@contextmanager
def _bar(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows progress: the name of the running step, and the number of
    finished steps.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from app.pipeline.report.run import STEPS

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=printing.err(), disable=quiet) as progress:
        task = progress.add_task("", total=len(STEPS))
        yield lambda step: progress.update(task, description=step, completed=STEPS.index(step))
        progress.update(task, description="done", completed=len(STEPS))


def _print_report(report: LakeReport, out: Path, *, as_json: bool) -> None:
    from app.pipeline.report.findings import findings

    if as_json:
        texts = [each.text for each in findings(report)]
        printing.json_line(
            {"page": str(out), "span": report.span, "totals": report.totals, "findings": texts}
        )
        return
    t = report.totals
    printing.text_line(
        f"{printing.counted(t.records, 'record')}: {printing.counted(t.events, 'event')}, "
        f"{printing.counted(t.duplicates, 'duplicate')}, {t.invalid:,} invalid"
    )
    for each in findings(report):
        printing.text_line(f"{'!' if each.grave else '-'} {printing.escape_line(each.text)}")
    printing.text_line(f"the page is {out}")
