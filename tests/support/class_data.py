"""Share the class data of a JVM with later ones (CDS archives), which saves two fifths of a
server's start.

The first JVM of a kind in a checkout writes the archive when it ends. A JVM of another version
ignores the archive. Without an archive, such as in CI, a JVM does not verify classes, which saves a third.
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
_UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""The JVM options that load classes without verifying them, which takes a third of Kafka's start. The tests do not test
the jars of others. A JVM that writes an archive verifies all classes nevertheless."""


def shared(archive: Path) -> tuple[str, ...]:
    """Return the JVM options of a fast start: those that load this CDS archive, or, if it does not exist, those that
    load classes unverified."""
    return (*_QUIET, f"-XX:SharedArchiveFile={archive}") if archive.exists() else _UNVERIFIED


@contextmanager
def recorded(archive: Path | None) -> Iterator[tuple[str, ...]]:
    """Give the JVM options that write a CDS archive at the end of the JVM, and move the archive
    into place afterwards.

    The JVM must have ended in order when the context ends. There are no options if the archive
    exists, if ``archive`` is None, and in CI, where no later run would use it.
    """
    if archive is None or archive.exists() or os.environ.get("CI") == "true":
        yield ()
        return
    fresh = archive.with_suffix(f".{os.getpid()}")
    yield (*_QUIET, f"-XX:ArchiveClassesAtExit={fresh}")
    if fresh.exists():
        fresh.replace(archive)
