"""``skybridge pipeline reroute`` runs the routes of the configuration on Spark, from topics to
topics.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from app.cli import printing
from app.cli.options import ConfigFile
from app.cli.pipeline.group import Json, load_configuration, open_spark, verb
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from app.config.model.config import Config
    from app.spark.reroute.job import Tally
    from app.spark.session import SparkSession
    from app.spark.settings import Reroute

_DIGITS = 12  # of a digest in the name of a checkpoint


@verb(
    "reroute",
    "skybridge pipeline reroute --from main --topics orders --config reroute.yaml --dry-run",
    "skybridge pipeline reroute --from main --topics orders,returns --config reroute.yaml --once",
    "skybridge pipeline reroute --from main --topics orders --rejects orders.rejected",
)
def reroute(
    broker: Annotated[
        str, option("Read from the broker with this name in the configuration.", "--from")
    ],
    topics: Annotated[str, option("Read these topics, separated by commas.")],
    config: ConfigFile = None,
    once: Annotated[
        bool, option("Process the present records, then end; by default continue with new ones.")
    ] = False,
    dry_run: Annotated[
        bool, option("Only count the records that would be written, beginning with the earliest.")
    ] = False,
    rejects: Annotated[
        str | None,
        option(
            "Write records that cannot be decoded or that no route accepts to this topic "
            "of the same broker; by default skip them."
        ),
    ] = None,
    seconds: Annotated[
        int,
        option("Wait this many seconds between the starts of two batches.", "--every", min=1),
    ] = 10,
    most: Annotated[
        int, option("Read at most this many records per batch, over all partitions.", min=1)
    ] = 200_000,
    as_json: Json = False,
) -> None:
    """Publish the records of topics again by the routes.

    Spark applies the routes as the gateway does, with the same filters, topics, keys, content modes
    and versions. Routes that cannot run on Spark are reported before any record is read. After an
    interruption the job continues where it stopped, and may write the records of the interrupted
    batch twice.
    """
    settings = load_configuration(config)
    from app.spark.reroute.plan import check_job

    job = _job(settings, broker, topics, rejects)
    notes = check_job(job)
    if not as_json:
        _print_plan(job, notes)
    from app.spark.cleanup import cleaning_up

    session = open_spark(settings, "reroute", quiet=as_json)
    with cleaning_up(session.stop):
        if dry_run:
            print_tally(_counted(session, job), as_json=as_json)
            return
        place = _checkpoint(settings, job)
        found = _run(session, job, place, once=once, seconds=seconds, most=most, quiet=as_json)
        print_tally(found, as_json=as_json)


def _job(config: Config, broker: str, topics: str, rejects: str | None) -> Reroute:
    from app.features.lake.settings import reroute_of

    names = [name.strip() for name in topics.split(",") if name.strip()]
    return reroute_of(config, broker, names, rejects)


def _checkpoint(config: Config, job: Reroute) -> str:
    """Return the checkpoint folder for the broker and the topics of a job. It does not depend on
    the routes, so a job with changed routes continues from the same checkpoint.
    """
    from app.features.lake.settings import state_folder

    said = "\n".join([job.source.broker, *sorted(job.topics)])
    return f"{state_folder(config)}/reroute-{hashlib.sha256(said.encode()).hexdigest()[:_DIGITS]}"


def _counted(session: SparkSession, job: Reroute) -> Tally:
    """Read all records without writing any. Return how many would be written."""
    from app.spark import source
    from app.spark.positions import topic_ids
    from app.spark.reroute.job import counted

    topic_ids(session, job.source, job.topics)  # its error names a broker that does not answer
    return counted(job, source.records(session, job.source, job.topics))


def _run(
    session: SparkSession,
    job: Reroute,
    checkpoint: str,
    *,
    once: bool,
    seconds: int,
    most: int,
    quiet: bool,
) -> Tally:
    """Run the job until it ends or the user presses Ctrl+C, and return the counts."""
    from app.spark.reroute.job import Tally, started, wait

    found = [Tally()]
    with _bar(quiet=quiet) as moved:

        def progress(tally: Tally) -> None:
            found.append(found.pop() + tally)
            moved(found[-1])

        query = started(
            session,
            job,
            checkpoint=checkpoint,
            once=once,
            seconds=seconds,
            most=most,
            progress=progress,
        )
        wait(query)
    return found[-1]


@contextmanager
def _bar(*, quiet: bool) -> Iterator[Callable[[Tally], None]]:
    """Yield a function that shows how many records have been read and written. The total is
    unknown.
    """
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=printing.err(), disable=quiet) as progress:
        task = progress.add_task("waiting for the first batch")

        def moved(tally: Tally) -> None:
            progress.update(task, description=f"{tally.read:,} read, {tally.written:,} written")

        yield moved


def _print_plan(job: Reroute, notes: Sequence[str]) -> None:
    """Print the routes of the job and its notes."""
    from app.spark.reroute.plan import route_line

    console = printing.err()
    for route in job.routes:
        console.print(route_line(route), markup=False)
    for note in notes:
        console.print(note, style="yellow", markup=False)


def print_tally(tally: Tally, *, as_json: bool) -> None:
    """Print the counts of a reroute."""
    if as_json:
        printing.json_line(tally)
        return
    rows: list[tuple[Any, ...]] = [("route", name, count) for name, count in tally.routes.items()]
    rows += [("rejected", why, count) for why, count in tally.rejected.items()]
    rows += [("read", "", tally.read), ("written", "", tally.written)]
    printing.print_table(("what", "which", "count"), rows)
