"""Install what Spark needs in addition to pyspark: Java, and the jars that the product itself
fetches.

The jars go where the product looks for them, so that a test never fetches what a user already has.
"""

from __future__ import annotations

import os
from pathlib import Path

from app.cli.pipeline.group import bring_jars
from app.errors import SetupError
from app.spark import java
from kafka_install import Missing


def install() -> list[Path]:
    """Fetch the jars unless they are there, and return their paths. Raise ``Missing`` without Java."""
    try:
        java.find(os.environ)
        return bring_jars(quiet=True)
    except SetupError as why:
        raise Missing(f"Spark cannot run: {why}") from why
