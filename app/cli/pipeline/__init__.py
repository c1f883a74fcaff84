"""``skybridge pipeline``: events in a lake of Iceberg tables, and back again. One module a verb."""

from __future__ import annotations

from app.cli.pipeline import (  # noqa: F401 - each registers its verb
    archive,
    erase,
    maintain,
    query,
    redrive,
    replay,
    report,
    reroute,
)
from app.cli.pipeline.group import app as app
