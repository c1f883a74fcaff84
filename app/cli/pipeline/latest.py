"""``skybridge pipeline latest`` creates views of the newest event of each source and subject."""

from __future__ import annotations

from app.cli import printing
from app.cli.options import ConfigFile
from app.cli.pipeline.group import Json, load_configuration, open_lake, verb


@verb("latest", "skybridge pipeline latest", "skybridge pipeline latest --config skybridge.yaml")
def run(config: ConfigFile = None, as_json: Json = False) -> None:
    """Create views of the newest event of each subject.

    The catalog of the lake then has the view events_latest: the newest event of each source and
    subject. It also has such a view for each table in pipeline.tables. Spark can query them. A view has no rows of
    its own, so it is never out of date. skybridge pipeline query needs no view in the catalog.
    """
    settings = load_configuration(config)
    from app.pipeline.latest import create_views
    from app.spark.cleanup import cleaning_up

    session, lake = open_lake(settings, "latest", quiet=as_json, brief=True)
    with cleaning_up(session.stop):
        names = create_views(session, lake)
    if as_json:
        printing.json_line({"views": names})
        return
    for name in names:
        printing.text_line(name)
