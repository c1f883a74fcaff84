"""``skybridge pipeline`` copies events into a lake of Iceberg tables, and sends them from there.
Each command has a module.
"""

from __future__ import annotations

from app.cli.pipeline import (  # noqa: F401 - each registers its command
    archive,
    erase,
    latest,
    maintain,
    query,
    redrive,
    replay,
    report,
    reroute,
)
from app.cli.pipeline.group import app as app
