"""What a JVM has made of its classes, kept for the next one: two fifths of what the start of a server costs.

The first JVM of a kind in a checkout leaves them when it ends. A JVM of another version passes over them; without
them a start takes longer, and nothing else differs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_install import SERVERS
from pages import CHECKOUT

_OF_HERE = hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:12]
# Java can load the archive of another checkout with hard-linked jars; loading a sealed package then fails.
SPARK = SERVERS / f"spark-{_OF_HERE}.jsa"
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def shared(archive: Path) -> tuple[str, ...]:
    """Options of a JVM that takes them from there, if they are there."""
    return (*_QUIET, f"-XX:SharedArchiveFile={archive}") if archive.exists() else ()


@contextmanager
def kept(archive: Path | None) -> Iterator[tuple[str, ...]]:
    """Options of a JVM that leaves them there when it ends in order, which it has to have done in the end; none
    where they are there already, where ``archive`` is None, and in CI, where nobody comes after us."""
    if archive is None or archive.exists() or os.environ.get("CI") == "true":
        yield ()
        return
    fresh = archive.with_suffix(f".{os.getpid()}")
    yield (*_QUIET, f"-XX:ArchiveClassesAtExit={fresh}")
    if fresh.exists():
        fresh.replace(archive)
