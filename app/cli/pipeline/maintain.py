"""``skybridge pipeline maintain`` compacts the tables of the lake and removes old snapshots and
files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from app.cli import printing
from app.cli.options import ConfigFile
from app.cli.pipeline import next_step
from app.cli.pipeline.group import Json, load_configuration, open_lake, verb
from app.cli.verbs import option

if TYPE_CHECKING:
    from app.config.model.config import Config
    from app.pipeline.maintain import LakeRetention, UpkeepResult
    from app.pipeline.settings import Lake
    from app.spark.session import SparkSession

Age = Annotated[
    float, option("Keep replaced snapshots readable for this many days.", min=0, max=3_650)
]
OrphanAge = Annotated[
    float,
    option("Remove files that belong to no snapshot after this many days.", min=1, max=3_650),
]


@verb(
    "maintain",
    "skybridge pipeline maintain --dry-run",
    "skybridge pipeline maintain --snapshots 2 --config skybridge.yaml",
)
def run(
    config: ConfigFile = None,
    snapshots: Age = 5.0,
    orphans: OrphanAge = 3.0,
    relayout: Annotated[
        bool,
        option(
            "Move the table events to partitions by day, and the buckets of pipeline.lake.buckets."
        ),
    ] = False,
    dry_run: Annotated[bool, option("Only show what the command would do.")] = False,
    as_json: Json = False,
) -> None:
    """Compact the lake, and remove old snapshots and files.

    Run this command about once a day. It deletes rows older than pipeline.lake.retention. It combines small files into large ones, with events sorted
    by type and source. It may run while an archive runs, because it keeps the snapshots that the
    archive needs.
    """
    settings = load_configuration(config)
    from app.spark.cleanup import cleaning_up

    session, lake = open_lake(settings, "maintain", quiet=as_json)
    with cleaning_up(session.stop):
        kept = _retention(settings, snapshots, orphans)
        found = _maintained(session, lake, kept, dry_run=dry_run, relayout=relayout)
    if as_json:
        printing.json_line({"dry_run": dry_run, "tables": found})
        return
    made = "small files" if dry_run else "compacted"
    gone = "old snapshots" if dry_run else "expired snapshots"
    rows = [
        (t.table, t.aged, t.moved, t.files, t.rewritten, t.expired, t.deleted, t.orphans)
        for t in found
    ]
    heads = ("table", "old rows", "moved", "files", made, gone, "deleted files", "orphans")
    printing.print_table(heads, rows)
    next_step.print_next_step(lake, config, "maintain" if dry_run else "report")


def _retention(config: Config, snapshots: float, orphans: float) -> LakeRetention:
    """Return the retention of the configuration and of the options."""
    from datetime import timedelta

    from app.pipeline.maintain import LakeRetention

    age = config.pipeline.lake.retention
    return LakeRetention(
        age=None if age is None else timedelta(seconds=age),
        snapshots=timedelta(days=snapshots),
        orphans=timedelta(days=orphans),
    )


def _maintained(
    session: SparkSession, lake: Lake, kept: LakeRetention, *, dry_run: bool, relayout: bool
) -> list[UpkeepResult]:
    from datetime import UTC, datetime

    from app.pipeline.maintain import maintain

    with printing.err().status("looking", spinner="line") as status:
        return list(
            maintain(
                *(session, lake, kept),
                now=datetime.now(UTC),
                dry_run=dry_run,
                relayout=relayout,
                tell=lambda table, step: status.update(f"{table}: {step}"),
            )
        )
