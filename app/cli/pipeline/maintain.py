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
    from app.pipeline.maintain import UpkeepResult
    from app.pipeline.session import SparkSession
    from app.pipeline.settings import Lake

Age = Annotated[float, option("Keep replaced snapshots readable for this many days.", min=0)]
OrphanAge = Annotated[
    float, option("Remove files that belong to no snapshot after this many days.", min=1)
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
    dry_run: Annotated[bool, option("Only show what the command would do.")] = False,
    as_json: Json = False,
) -> None:
    """Compact the lake, and remove old snapshots and files.

    Run this command about once a day. It combines small files into large ones, with events sorted
    by type and source. It may run while an archive runs, because it keeps the snapshots that the
    archive needs.
    """
    settings = load_configuration(config)
    from app.pipeline.cleanup import cleaning_up

    session, lake = open_lake(settings, "maintain", quiet=as_json)
    with cleaning_up(session.stop):
        found = _kept(session, lake, snapshots, orphans, dry_run=dry_run)
    if as_json:
        printing.json_line({"dry_run": dry_run, "tables": found})
        return
    made = "small files" if dry_run else "compacted"
    gone = "old snapshots" if dry_run else "expired snapshots"
    rows = [(t.table, t.files, t.rewritten, t.expired, t.deleted, t.orphans) for t in found]
    printing.print_table(("table", "files", made, gone, "deleted files", "orphans"), rows)
    next_step.print_next_step(lake, config, "maintain" if dry_run else "report")


def _kept(
    session: SparkSession, lake: Lake, snapshots: float, orphans: float, *, dry_run: bool
) -> list[UpkeepResult]:
    from datetime import UTC, datetime, timedelta

    from app.pipeline.maintain import LakeRetention, maintain

    kept = LakeRetention(snapshots=timedelta(days=snapshots), orphans=timedelta(days=orphans))
    with printing.err().status("looking", spinner="line") as status:
        return list(
            maintain(
                *(session, lake, kept),
                now=datetime.now(UTC),
                dry_run=dry_run,
                tell=lambda table, step: status.update(f"{table}: {step}"),
            )
        )
